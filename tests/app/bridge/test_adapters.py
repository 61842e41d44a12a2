"""A run after an adapter is put on, changed or taken off is one with a new cache: what was read before is stale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import engine
from app.bridge.engine_thread import EngineWorker
from app.bridge.mailbox import Mailbox
from app.bridge.messages import AdapterChanged, AdapterRequest, LoadRequest, Message, RunFailed, RunRequest
from engine import Event, GenerationConfig, PrefillFinished
from engine.adapters.writing import save_adapter
from engine.weights.loader import quantize
from tests.engine import packing, tiny
from tests.engine.adapting import random_adapters
from tests.engine.decoding.test_generate import facts

MESSAGES = ({"role": "user", "content": "Sort 17 3 42 9 and say which is the largest."},)
CONFIG = GenerationConfig(max_new_tokens=2 * tiny.CANVAS, max_denoising_steps=2, eos_token_ids=(), top_k=8)


class Worker(EngineWorker):
    """Without a thread of its own: what it is asked is done when the call returns."""

    def __init__(self) -> None:
        self.mailbox: Mailbox[Message] = Mailbox(10**6)
        super().__init__(self.mailbox)

    def answered(self) -> list[Any]:
        """The events of one run."""
        self.run(RunRequest(MESSAGES, CONFIG, seed=5))
        told = self.mailbox.drain()
        assert not any(isinstance(message, RunFailed) for message in told), told
        return [message for message in told if isinstance(message, Event)]

    def put_on(self, adapter: Path | None) -> None:
        self.adapt(AdapterRequest(None if adapter is None else str(adapter)))
        (changed,) = self.mailbox.drain()
        assert isinstance(changed, AdapterChanged)
        assert changed.message == ""


def anew(model: Path, adapter: Path | None) -> list[Event]:
    """The same run of a model just loaded, with a cache of its own."""
    made = engine.load_model(model, device="cpu")
    if adapter is not None:
        engine.load_adapter(made, adapter)
    return list(engine.generate(made, made.chat_ids(MESSAGES), CONFIG, seed=5))


def plain(folder: Path) -> tuple[Path, Any]:
    return tiny.checkpoint(folder / "plain"), tiny.network()


def packed(folder: Path) -> tuple[Path, Any]:
    """Its steps are taken by a program, which is kept from run to run."""
    quantize(packing.released(folder / "source"), folder / "packed", "int4", torch.device("cpu"))
    return folder / "packed", packing.packable()


@pytest.mark.parametrize(("make", "ranks"), [(plain, (3, 0)), (packed, (3, 5))], ids=["causal alone", "both, packed"])
@pytest.mark.usefixtures("qapp")
def test_a_run_after_a_change_of_adapter_is_one_with_a_new_cache(
    make: Any, ranks: tuple[int, int], tmp_path: Path
) -> None:
    model, network = make(tmp_path)
    for seed, name in enumerate(("one", "other")):
        adapters = random_adapters(network, seed, causal=ranks[0], denoise=ranks[1])
        save_adapter(tmp_path / name, adapters, "base", "", torch.float32)
    worker = Worker()
    worker.load(LoadRequest(str(model), "Tiny"))
    worker.mailbox.drain()
    seen: list[list[Any]] = []
    for adapter in (None, tmp_path / "one", tmp_path / "other", None):
        if seen:
            worker.put_on(adapter)
        wanted = anew(model, adapter)
        first, again = worker.answered(), worker.answered()
        assert facts(first) == facts(wanted)
        assert facts(again[1:]) == facts(wanted[1:])  # the first event tells how much of the prompt was read
        reused = [event.reused_tokens for event in (first[0], again[0]) if isinstance(event, PrefillFinished)]
        assert reused == [0, first[0].prompt_tokens]
        seen.append(facts(wanted))
    assert seen[0] == seen[3]
    assert seen[0] != seen[1] != seen[2] != seen[3]
