"""Presets: a system prompt and sampler settings stored under a name."""
