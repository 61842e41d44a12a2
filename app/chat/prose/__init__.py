"""Markdown on show: ``parse`` and ``rows`` are pure; ``widget.Prose`` draws what they say."""

PAD = 8
"""Left and right of the text, for the ring around it when it has the keyboard."""
