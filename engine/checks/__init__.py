"""Kernels held against their oracles, for ``safelight doctor`` and before anything is timed. Prints nothing."""
