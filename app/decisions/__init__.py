"""The Decisions page: typed answers about one state."""
