"""The server page: the switch of the local server, what other programs need to connect to it, and their requests."""
