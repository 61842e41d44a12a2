"""The same questions about every row of a table."""
