"""The server page: the switch of the local server, what other programs need to use it, and their requests."""
