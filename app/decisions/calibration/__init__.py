"""How far the answers of a table with labels can be trusted."""
