"""Markdown on show: ``parse`` and ``rows`` are pure; ``widget.Prose`` draws what they say."""
