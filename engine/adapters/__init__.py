"""LoRA adapters over a network's linear layers, packed or not, in PEFT's own file format."""
