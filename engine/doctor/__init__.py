"""The checks of ``safelight doctor``: one file per section, each run in a process of its own.

Checks whether the kernels give correct results on this machine, and measures their speed. Prints nothing.
"""
