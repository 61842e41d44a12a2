"""The server's model as tools of the Model Context Protocol: over HTTP at ``/mcp``, and over standard streams.

``tools`` lists the tools; ``answering`` and ``inspecting`` run them. The messages are carried
by ``endpoint`` and ``stdio``, which import the protocol's library, and ``tools``, when the first client comes: it takes
half a second.
"""
