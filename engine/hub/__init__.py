"""Models from a hub: listed, downloaded, resumed, verified. Start reading with ``download``."""

import os

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # the library reads both when it is imported
os.environ.setdefault("HF_HUB_DISABLE_SYMLINKS_WARNING", "1")
