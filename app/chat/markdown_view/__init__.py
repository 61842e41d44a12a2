"""Shows Markdown: ``parse`` and ``rows`` are pure functions; ``widget.MarkdownView`` draws their result."""

PAD = 8
"""Pixels left and right of the text, for the focus ring around it."""
