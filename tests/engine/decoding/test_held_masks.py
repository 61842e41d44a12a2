"""Answers that fit a format, written over masks: each pass writes the first one, and what is forced takes none."""

from __future__ import annotations

import dataclasses
import threading
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import GenerationConfig
from engine.decoding import sub_blocks
from engine.decoding.generate import decode
from engine.decoding.run import Run
from engine.events import CanvasCommitted, Event
from engine.models.causal.network import CausalNetwork
from tests.engine.causal import POSITIONS, masked_network, run_of, tokens_by_pass
from tests.engine.decoding.seen import end_of
from tests.engine.decoding.test_block_causal import block_logits
from tests.engine.decoding.test_structured import END, PAD, Fixed
from tests.engine.tiny import VOCABULARY

MASK = PAD  # which no answer has
CONFIG = GenerationConfig(max_new_tokens=24, eos_token_ids=(END,), pad_token_id=END, max_denoising_steps=3)
DECODERS: dict[str, dict[str, Any]] = {
    "whole": {"decoder": "bidirectional", "canvas_length": 24},
    "in blocks": {"decoder": "bidirectional", "remasking": "origin"},
    "shifted": {"decoder": "bidirectional", "remasking": "entropy"},
    "blocks": {"decoder": "block_causal"},
    "rewriting": {"decoder": "block_causal", "edit_probability": 0.0},
    "parts": {"decoder": "sub_blocks"},
}


@pytest.fixture(autouse=True)
def _short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sub_blocks, "PART", 2)


def network(name: str, seed: int = 1) -> CausalNetwork:
    made = masked_network(seed, vocab_size=VOCABULARY)
    made.config = dataclasses.replace(made.config, mask_token_id=MASK, shifts_masks=name == "shifted")
    return made


def spelled(length: int, seed: int = 0) -> Fixed:
    """An answer of which half is forced, often several tokens in a row."""
    draws, reader = Random(seed), Fixed(length)
    reader.sets = [able[: draws.choice((1, 3))] for able in reader.sets]
    return reader


def answer(
    model: CausalNetwork, reader: Fixed, config: GenerationConfig, prompt: list[int], passes: int = 999
) -> tuple[list[dict[int, int]], list[Event]]:
    """Returns what each pass wrote, and the events; the run is cancelled after so many passes."""
    cancel = threading.Event()
    run = Run.from_ids(model, prompt, config, 4, cancel, answer=reader)  # type: ignore[arg-type]
    events = run_of(model, decode(run), cancel, passes)
    length = config.canvas_length or model.config.canvas_length
    return tokens_by_pass(events, length, MASK), events


def ended(events: list[Event]) -> tuple[str, list[int]]:
    last = end_of(events)
    return last.reason, last.tokens.tolist()


def plain(model: CausalNetwork, prompt: list[int], text: list[int], decoder: str) -> Tensor:
    """Logits (V,) of the token behind a text, all of which is read at once."""
    before, size = [*prompt, *text], model.config.canvas_length
    row = len(before) - (decoder == "sub_blocks" or model.config.shifts_masks)
    if decoder == "bidirectional":
        masks = min(CONFIG.max_new_tokens, POSITIONS - len(prompt)) - len(text)
        found: Tensor = block_logits(model, before + [MASK] * masks, POSITIONS)[row]
    else:
        found = block_logits(model, before + [MASK] * (size - len(before) % size), size)[row]
    return found.index_fill(0, torch.tensor(MASK), -torch.inf)


def needed(config: GenerationConfig, before: int, sets: list[list[int]]) -> int:
    """Passes behind a prompt of so many tokens: one for each choice, for what is forced at first, for a full block."""
    choices = {place for place, able in enumerate(sets) if len(able) > 1}
    full = {place for place in range(1, max(choices, default=0) + 1) if (before + place) % 5 == 0}
    kept = {"bidirectional": set(), "block_causal": full, "sub_blocks": full - choices}[config.decoder]
    return len(choices | {0}) + len(kept)


@pytest.mark.parametrize("name", DECODERS)
def test_each_token_is_the_likeliest_that_fits_and_what_is_forced_takes_no_pass(name: str) -> None:
    model, config = network(name), CONFIG.replace(**DECODERS[name])
    for seed, length in enumerate((1, 5, 6, 12, 17, 23)):
        prompt, sets = Random(seed).choices(range(7, 100), k=seed + 4), spelled(length, seed).sets
        passes, events = answer(model, spelled(length, seed), config, prompt)
        reason, text = ended(events)
        assert (reason, len(text), len(passes)) == ("eos", length, needed(config, len(prompt), sets))
        for place, (token, able) in enumerate(zip(text, sets, strict=True)):
            assert token in able
            if len(able) > 1:
                logits = plain(model, prompt, text[:place], config.decoder)
                assert float(logits[token]) >= float(logits[able].max()) - 1e-4


def test_a_mask_is_never_written_though_the_format_lets_it() -> None:
    for name in DECODERS:
        reader = Fixed(12)
        reader.sets[4:8] = [[MASK, 7]] * 4
        _, events = answer(
            network(name), reader, CONFIG.replace(sampling_temperature=50.0, **DECODERS[name]), [9, 8, 7]
        )
        assert ended(events) == ("eos", reader.taken)
        assert reader.taken[4:8] == [7] * 4


class Ending(Fixed):
    """An answer that the model may end from some token on."""

    def allowed(self) -> Any:
        found = super().allowed()
        found[END] = len(self.taken) >= 5
        return found

    def take(self, ids: Any) -> int:
        if len(self.taken) >= 5 and ids[:1] == [END]:
            self.has_ended = True
            return 1
        return super().take(ids)


@pytest.mark.parametrize("name", DECODERS)
def test_the_model_may_end_an_answer_where_its_format_lets_it(name: str) -> None:
    model = network(name)
    model.norm_weight.mul_(0.0)  # all tokens are as likely
    lengths = set()
    for seed in range(6):
        reader, cancel = Ending(20), threading.Event()
        config = CONFIG.replace(sampling_temperature=1.0, **DECODERS[name])
        run = Run.from_ids(model, [9, 8], config, seed, cancel, answer=reader)  # type: ignore[arg-type]
        *events, last = run_of(model, decode(run), cancel, 999)
        assert ended([last]) == ("eos", reader.taken)
        done = [event for event in events if isinstance(event, CanvasCommitted)][-1]
        assert (done.tokens[done.text_length :] == END).all()
        lengths.add(len(reader.taken))
    assert min(lengths) < 20
