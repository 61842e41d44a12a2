"""Compares kernels with their oracles, for ``safelight doctor`` and before benchmarks. Prints nothing."""
