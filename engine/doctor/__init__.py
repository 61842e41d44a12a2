"""The checks of ``safelight doctor``: one file per section, each run in a separate process.

Checks whether the kernels give correct results on this machine, and measures their speed. Prints nothing.
"""
