"""The checks of ``safelight doctor``: a file per section, each run in a separate process. Prints nothing."""
