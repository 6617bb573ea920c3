"""The sessions of the noxfile, in groups.

``workspace`` knows the packages and ``environments`` where they are installed; ``checkout`` asks
what every change is asked, ``settings`` runs the same tests under other ones, ``published`` tests
wheels, ``outside`` compares with other programs, ``long`` takes long.
"""
