"""The Decisions page: typed answers about one state or the rows of a table, and their calibration."""
