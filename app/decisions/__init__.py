"""The Decisions page: typed answers about a state, one by one or over a table, and how far they can be trusted."""
