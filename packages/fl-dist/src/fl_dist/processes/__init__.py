"""``processes``: the ranks are processes, of one host or of several. Needs no other package.

communicator.py   the communicator: joining, groups, which way a collective takes
connections.py    how ranks find one another: a socket between every two of them
sockets.py        messages, and who is gone
arena.py          collectives through shared memory within a host; fold.py reduces, fence.py orders
ring.py           all_reduce between hosts
"""

from fl_dist.processes.communicator import ProcessesCommunicator as ProcessesCommunicator
