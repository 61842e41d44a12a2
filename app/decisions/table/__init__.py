"""A table of states: asks the same questions about every row."""
