"""What ``safelight doctor`` finds out of a machine: a file a section, each run in a process of its own.

Checks whether what is built gives right answers here, and measures how fast. Prints nothing.
"""
