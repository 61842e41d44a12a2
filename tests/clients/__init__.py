"""Clients that others wrote, each in a folder, against two servers of ours: ``python -m tests.clients``."""
