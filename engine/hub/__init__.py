"""Models from a hub: listed, downloaded, resumed, verified. Start reading with ``download``."""
