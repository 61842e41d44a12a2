"""LoRA adapters in PEFT's format, put on a tiny model and taken off again, which leaves the model as it was."""

from __future__ import annotations

import json
import os
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tests.hostile import mutate, tensors
from tests.hostile.kind import Attempt, Kind

if TYPE_CHECKING:
    from torch import Tensor

    from engine import Model

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
RANK = 3
KEYS = (
    "a{4294967296}", "(", "(?R)", r"\1", "[z-a]", "x" * 100_000, "a|b", "(?i)Q", "", "^", "$", "é", "a\n", "q_proj",
    r".*\.self_attn\..*", r"layers\.(0|1)\..*q_proj", r"^model\.decoder\.layers\.0", "[qv]_proj",
)  # fmt: skip


@cache
def _subject() -> tuple[Model, dict[str, bytes], dict[str, Tensor]]:
    """A tiny model, a sound adapter's files, and the model's weights."""
    from engine import load_model
    from engine.adapters.writing import save_adapter
    from engine.models.diffusion_gemma.layout import TARGETS
    from tests.engine import tiny
    from tests.engine.adapting import random_adapters

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = load_model(tiny.checkpoint(folder / "base"), device="cpu", dtype="float32")
        save_adapter(folder / "lora", random_adapters(tiny.network(), causal=RANK, denoise=RANK), TARGETS, "", "")
        files = {name: (folder / "lora" / name).read_bytes() for name in (CONFIG, TENSORS)}
    return model, files, {name: weight.clone() for name, weight in model.network.state_dict().items()}


def _config(random: Random, data: bytes) -> bytes:
    raw = json.loads(data)
    match random.randrange(6):
        case 0:
            return mutate.dumped(random, mutate.tree(random, raw))
        case 1 | 2:
            keys = random.sample(KEYS, random.randrange(1, 5))
            raw[random.choice(("rank_pattern", "alpha_pattern"))] = dict.fromkeys(keys, RANK)
        case 3:
            raw[random.choice(("r", "lora_alpha"))] = mutate.value(random)
        case 4:
            many = random.choice((3, 16, 300, 6_000))
            raw["rank_pattern"] = {f"{random.choice(('.*', 'layers.', ''))}{n}": RANK for n in range(many)}
        case _:
            raw |= {random.choice(("target_modules", "base_model_name_or_path", "bias")): mutate.value(random)}
    return json.dumps(raw).encode()


def _make(random: Random, folder: Path) -> Attempt:
    from engine import load_adapter, unload_adapter

    model, files, weights = _subject()
    made = dict(files)
    which = random.randrange(5)
    if which != 0:
        made[CONFIG] = _config(random, made[CONFIG])
    if which < 2:
        made[TENSORS] = tensors.hostile(random, made[TENSORS])
    for name, data in made.items():
        (folder / name).write_bytes(data)
    if random.random() < 0.03:
        path = folder / random.choice((CONFIG, TENSORS))
        path.unlink()
        random.choice((os.mkfifo, os.mkdir, lambda place: os.symlink("/dev/zero", place)))(path)

    def attempt() -> None:
        import torch

        from engine.layers.adapted import addition

        before = model.network.state_dict()
        try:
            load_adapter(model, folder)
        finally:
            unload_adapter(model)
            assert not any(addition(module) for module in model.network.modules())
            assert all(torch.equal(before[name], weight) for name, weight in weights.items())

    return attempt


def _prepare() -> None:
    _subject()


KINDS = (Kind("adapters", _make, prepare=_prepare),)
