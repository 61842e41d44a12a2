"""Runs that think token by token and answer by block diffusion. Oracles: ``test_autoregressive``."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
import torch

from engine import CanvasCommitted, CanvasStarted, GenerationConfig, SafelightError, generate
from engine.decoding.autoregressive import mixed
from engine.decoding.block_diffusion import block_diffusion
from engine.decoding.generate import fork
from engine.decoding.performing import perform_all
from engine.decoding.run import Run
from engine.decoding.thoughts import ThoughtTokens
from engine.layers.kv_cache import KVCache
from engine.models.diffusion_gemma.network import DiffusionGemma
from tests.engine.decoding.seen import end_of, facts, of_kind, stopped
from tests.engine.decoding.test_autoregressive import NARROW, likeliest, oracle
from tests.engine.tiny import CANVAS, VOCABULARY, ByProgram, network, tokens

BOTH = ("block_diffusion", "autoregressive")
LENGTH = 6
CONFIG = GenerationConfig(
    max_new_tokens=4 * LENGTH, max_denoising_steps=3, confidence_threshold=0.0, eos_token_ids=(), canvas_length=LENGTH
)


@pytest.fixture(scope="module")
def model() -> DiffusionGemma:
    return network(1, **NARROW)


def holds(model: DiffusionGemma, cache: KVCache, text: list[int]) -> bool:
    """True for a cache like one that has read the beginning of a text in one pass."""
    fresh = model.new_cache()
    model.prefill(torch.tensor(text[: cache.length]), fresh)
    canvas = tokens(CANVAS, 9)
    is_same = torch.allclose(model.denoise(canvas, cache), model.denoise(canvas, fresh), atol=1e-3)
    return is_same and cache.shared(text) == cache.length


@pytest.mark.parametrize("made", [network, lambda: ByProgram(network())], ids=["plain", "program"])
def test_without_autoregressive_blocks_a_run_is_block_diffusion_bit_for_bit(made: Any) -> None:
    config = CONFIG.replace(confidence_threshold=9.0, stability_threshold=0)  # all converge at once
    prompt, found = tokens(9), []
    for decode in (block_diffusion, mixed):
        model = made()
        cache = model.new_cache()
        more: Any = {} if decode is block_diffusion else {"thoughts": ThoughtTokens()}
        events = list(perform_all(model, decode(Run(model, prompt, config, 3, None, cache), **more)))
        found.append((facts(events), cache.length, model.denoise(tokens(CANVAS), cache).tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("made", [None, ByProgram], ids=["plain", "program"])
def test_thoughts_are_written_token_by_token_and_answers_denoised(model: DiffusionGemma, made: Any) -> None:
    """Each block has the one that the last tag before it asks for, and continues the text before it."""
    subject, rng, seen = made(model) if made else model, random.Random(5), set()
    for number in range(6 if made is None else 2):
        marks = rng.sample(range(VOCABULARY), 24)
        thoughts = ThoughtTokens(
            frozenset(marks[:12]), frozenset(marks[12:23]), frozenset(marks[23:]), starts_open=rng.random() < 0.3
        )
        prompt = [token for token in tokens(rng.randint(1, 12), number).tolist() if token != marks[23]] or [marks[0]]
        if asks := rng.random() < 0.5:
            prompt.insert(0, marks[23])
        config = CONFIG.replace(max_new_tokens=4 * LENGTH - rng.randint(0, 5), eos_token_ids=(3,), top_k=number % 2)
        cache = model.new_cache()
        events = list(
            perform_all(subject, mixed(Run(subject, torch.tensor(prompt), config, number, None, cache), thoughts))
        )
        last = end_of(events)
        text = last.tokens.tolist()
        logits, in_thought = (
            oracle(model, prompt + text),
            thoughts.starts_open or (asks and prompt[-1] not in marks[12:23]),
        )
        for block, (start, end) in enumerate(
            zip(of_kind(events, CanvasStarted), of_kind(events, CanvasCommitted), strict=True)
        ):
            name = BOTH[in_thought]
            assert (start.filler is None) == (name == "block_diffusion")
            own = end.tokens[: end.text_length].tolist()
            assert own == text[block * LENGTH : (block + 1) * LENGTH]
            if name == "autoregressive":
                for place, token in enumerate(own, len(prompt) + block * LENGTH):
                    assert likeliest(logits[place - 1], token, config)
            behind = [token for token in text[: (block + 1) * LENGTH] if token in marks[:23]]
            in_thought = behind[-1] in marks[:12] if behind else thoughts.starts_open
            seen.add((name, in_thought))
        assert last.reason == ("eos" if len(text) < LENGTH * len(of_kind(events, CanvasStarted)) else "length") or (
            len(text) == config.max_new_tokens
        )
        if made is None:
            assert holds(model, cache, prompt + text)
            assert cache.length >= len(prompt + text) - LENGTH
    assert len(seen) == (4 if made is None else len(seen))


class Tags:
    """A tokenizer of words."""

    words = ("<|channel>", "<channel|>", "<|think|>", "thought\n", "hi", "<|turn>")

    def token_id(self, text: str) -> int | None:
        return self.words.index(text) if text in self.words else None

    def decode(self, ids: list[int], skip_special: bool) -> str:
        assert not skip_special
        return "".join(self.words[token] for token in ids)


@pytest.mark.parametrize(
    ("prompt", "text", "is_expected", "is_open"),
    [
        ([4], [4], False, False),
        ([4], [0, 3, 4], False, True),
        ([2, 5, 4], [4, 4], True, False),  # asked for and not done
        ([2, 5, 4], [0, 3, 4, 1, 4], True, False),
        ([2, 5, 4, 0, 3], [4], True, True),
        ([4, 0, 3], [4, 1], True, False),
        ([2, 4, 0, 3, 1], [4], False, False),  # the thought is there, and empty
    ],
)
def test_thoughts_are_found_by_their_tags(prompt: list[int], text: list[int], is_expected: bool, is_open: bool) -> None:
    found = ThoughtTokens.from_prompt(Tags(), torch.tensor(prompt))  # type: ignore[arg-type]
    assert (found.expected(torch.tensor(prompt)), found.is_open_behind(text)) == (is_expected, is_open)


@pytest.mark.parametrize("after", [2, 6])
def test_cancel_takes_effect_within_one_pass(model: DiffusionGemma, after: int) -> None:
    flag = threading.Event()
    last = end_of(stopped(generate(model, tokens(7), CONFIG.replace(token_thoughts=True), 0, flag), flag, after))
    assert (last.reason, last.steps, last.blocks) == ("cancelled", after, after // CONFIG.max_denoising_steps)


def test_what_cannot_think_so_is_refused(model: DiffusionGemma) -> None:
    config = CONFIG.replace(token_thoughts=True)
    with pytest.raises(SafelightError, match="needs a model with block_diffusion"):
        list(generate(model, tokens(3), config.replace(decoder="autoregressive")))
    with pytest.raises(SafelightError, match="position 6 is outside the canvas"):
        list(generate(model, tokens(3), config.replace(pinned=((6, 1),))))
    with pytest.raises(SafelightError, match="a fork needs the decoder block_diffusion"):
        list(fork(model, [1], config, 0, [], [], []))
