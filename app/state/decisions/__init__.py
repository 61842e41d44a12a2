"""Decisions as the window has them: questions while they are written, reads as they come, a table's rows."""
