"""The server's model as tools of the Model Context Protocol: over HTTP at ``/mcp``, and over standard streams.

``tools`` lists the tools; ``writing``, ``deciding``, ``puzzles`` and ``inspecting`` run them. The messages are carried
by ``endpoint`` and ``stdio``. These two and ``protocol`` know the protocol's library, which is imported when the first
client comes: it takes half a second.
"""
