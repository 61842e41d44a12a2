"""Models from a hub: listed, downloaded, resumed, verified. ``download`` is the entry."""
