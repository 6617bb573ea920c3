"""``processes``: the ranks are processes, of one host or of several. Needs no other package.

* ``communicator``: messages, groups, and the choice of a way for each collective
* ``world``: the connections and the memory that all communicators of a rank share
* ``connections``: ranks find one another, a socket between every two of them
* ``sockets``: messages, and the news that a rank is gone
* ``arena``: collectives through shared memory within a host, with ``fold`` and ``fence``
* ``ring``: all_reduce between hosts

"""

from fl_dist.processes.communicator import ProcessesCommunicator as ProcessesCommunicator
