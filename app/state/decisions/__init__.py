"""The state of decisions in the window: drafts of questions, reads as they arrive, and rows of a table."""
