"""The sessions of the noxfile, in groups.

``workspace`` lists the packages and ``environments`` installs them. ``checkout`` has the checks of
every change, ``settings`` the same tests under other settings. ``published`` tests wheels,
``outside`` compares with other programs, ``distributed`` starts communicators of several processes,
``long`` has the long tests.
"""
