"""``processes``: the ranks are processes, of one host or of several. Needs no other package.

communicator.py   the communicator: messages, groups, which way a collective takes
world.py          what the communicators of a rank share: connections and memory
connections.py    how ranks find one another: a socket between every two of them
sockets.py        messages, and who is gone
arena.py          collectives through shared memory within a host; fold.py reduces, fence.py orders
ring.py           all_reduce between hosts
"""

from fl_dist.processes.communicator import ProcessesCommunicator as ProcessesCommunicator
