"""One file per framework: its own loss function, called with the settings of ours.

An adaptor runs in a process of its own, which has the framework at the end of its path.
It has a dictionary `CONFIGS` and functions `prepare` and `loss`, see `Adaptor`. Nothing
of a framework's code is in these files.
"""
