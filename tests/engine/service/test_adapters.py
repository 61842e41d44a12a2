"""A run after an adapter is added, changed or removed is one with a new cache: what was read before is stale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import engine
from engine import Event, GenerationConfig, PrefillFinished
from engine.adapters.peft_files import save_adapter
from engine.models.diffusion_gemma.config import TARGETS
from engine.models.folder import quantize
from engine.service import AdapterRequest, ChatRun, LoadRequest, LocalBackend, RunAdvanced, RunEnded, run_alone
from tests.engine import packing, tiny
from tests.engine.adapting import random_adapters
from tests.engine.decoding.test_generate import facts

MESSAGES = ({"role": "user", "content": "Sort 17 3 42 9 and say which is the largest."},)
CONFIG = GenerationConfig(max_new_tokens=2 * tiny.CANVAS, max_denoising_steps=2, eos_token_ids=(), top_k=8)


def answered(backend: LocalBackend) -> list[Any]:
    """The events of one run."""
    request = ChatRun(CONFIG, 5, MESSAGES)
    replies = list(run_alone(backend, request))
    assert replies[-1] == RunEnded(request.run_id)
    return [reply.event for reply in replies if isinstance(reply, RunAdvanced)]


def put_on(backend: LocalBackend, adapter: Path | None) -> None:
    assert backend.set_adapter(AdapterRequest(None if adapter is None else str(adapter))).message == ""


def anew(model: Path, adapter: Path | None) -> list[Event]:
    """Returns the run of a model just loaded, with a cache of its own."""
    made = engine.load_model(model, device="cpu")
    if adapter is not None:
        engine.load_adapter(made, adapter)
    return list(engine.generate(made, made.chat_ids(MESSAGES), CONFIG, seed=5))


def packed(folder: Path) -> tuple[Path, Any]:
    """Makes a model whose steps are taken by a program, which is kept from run to run."""
    quantize(packing.released(folder / "source"), folder / "packed", "int4", torch.device("cpu"))
    return folder / "packed", packing.packable()


def test_a_run_after_a_change_of_adapter_is_one_with_a_new_cache(tmp_path: Path) -> None:
    model, network = packed(tmp_path)
    for seed, name in enumerate(("one", "other")):
        adapters = random_adapters(network, seed, causal=3, denoise=5 * seed)  # of the first, causal alone
        save_adapter(tmp_path / name, adapters, TARGETS, "base", "", torch.float32)
    backend = LocalBackend()
    backend.load(LoadRequest(str(model), "Tiny"), lambda _: None)
    seen: list[list[Any]] = []
    for adapter in (None, tmp_path / "one", tmp_path / "other", None):
        if seen:
            put_on(backend, adapter)
        wanted = anew(model, adapter)
        first, again = answered(backend), answered(backend)
        assert facts(first) == facts(wanted)
        assert facts(again[1:]) == facts(wanted[1:])  # the first event says how much of the prompt was read
        reused = [event.reused_tokens for event in (first[0], again[0]) if isinstance(event, PrefillFinished)]
        assert reused == [0, first[0].prompt_tokens]
        seen.append(facts(wanted))
    assert seen[0] == seen[3]
    assert seen[0] != seen[1] != seen[2] != seen[3]
