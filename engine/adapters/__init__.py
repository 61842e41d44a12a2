"""LoRA adapters over a network's linear layers, packed or not, in PEFT's own file format."""

from engine.adapters.loading import Adapter, AdapterSlot, load_adapter, unload_adapter
from engine.adapters.targets import Adapters, attach, new_adapters, targets
from engine.adapters.writing import save_adapter

__all__ = [
    "Adapter",
    "AdapterSlot",
    "Adapters",
    "attach",
    "load_adapter",
    "new_adapters",
    "save_adapter",
    "targets",
    "unload_adapter",
]
