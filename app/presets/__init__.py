"""Presets: a system prompt and sampler settings under a name, kept between sessions."""
