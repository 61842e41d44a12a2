"""The tensor names in Nemotron-Labs-Diffusion's published files."""

from __future__ import annotations

from engine.models.causal.layout import names, targets

BODY = "encoder."
NAMES = names(BODY, "diffusion_head.", ignored=r"encoder\.layers\.\d+\.self_attn\.[kv]_scale")  # of a cache in 8 bits
TARGETS = targets(BODY)
