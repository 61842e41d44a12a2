"""Answers that fit a format, written token by token: a mask on the next one, and what is forced without a choice."""

from __future__ import annotations

import threading
from random import Random
from typing import Any

import numpy as np
import pytest

from engine import (
    MASKED,
    MINI,
    WEDLM,
    CanvasCommitted,
    Event,
    GenerationConfig,
    GenerationFinished,
    SafelightError,
    StepFinished,
    generate,
    load_model,
)
from engine.decoding.generate import decode
from engine.decoding.names import formatting
from engine.decoding.performing import perform_all
from engine.decoding.run import Run
from engine.text.output_format import OutputFormat
from tests.engine.decoding.seen import end_of, of_kind, stopped
from tests.engine.decoding.test_autoregressive import MODELS, oracle
from tests.engine.decoding.test_structured import END, PAD, Fixed, fits
from tests.engine.text.formats import problem, random_format
from tests.engine.tiny import tokens

PROMPT = tokens(9, 3).tolist()
CONFIG = GenerationConfig(decoder="autoregressive", max_new_tokens=30, eos_token_ids=(END,), pad_token_id=PAD)


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return MODELS[request.param]()


def answer(model: Any, reader: Fixed, seed: int = 4, cancel: Any = None, **changes: Any) -> list[Event]:
    return list(
        perform_all(
            model, decode(Run.from_ids(model, PROMPT, CONFIG.replace(**changes), seed, cancel=cancel, answer=reader))
        )
    )


@pytest.mark.parametrize("length", [1, 5, 24])
def test_each_token_is_the_likeliest_that_fits_and_what_is_forced_takes_no_pass(model: Any, length: int) -> None:
    events = answer(model, Fixed(length))
    last = end_of(events)
    text, sets = last.tokens.tolist(), Fixed(length).sets
    assert (last.reason, len(text)) == ("eos", length)
    logits = oracle(model, PROMPT + text)[len(PROMPT) - 1 : -1]
    for place, token in enumerate(text):
        assert float(logits[place, token]) >= float(logits[place, sets[place]].max()) - 1e-4
    choices = sum(len(each) > 1 for each in sets)
    assert (
        last.steps == len(of_kind(events, StepFinished)) == choices + 1
    )  # the first token is forced, behind the prompt
    committed = of_kind(events, CanvasCommitted)
    assert [token for event in committed for token in event.tokens[: event.text_length]] == text
    assert not any(event.pinned_mask.any() for event in events if hasattr(event, "pinned_mask"))


def test_what_is_drawn_fits_and_is_repeated_by_its_seed(model: Any) -> None:
    texts = {seed: answer(model, Fixed(20), seed, sampling_temperature=2.0)[-1].tokens.tolist() for seed in range(4)}  # type: ignore[union-attr]
    assert all(fits(text, 20) and len(text) == 20 for text in texts.values())
    assert len(set(map(tuple, texts.values()))) > 2
    again = end_of(answer(model, Fixed(20), 2, sampling_temperature=2.0))
    assert again.tokens.tolist() == texts[2]


@pytest.mark.parametrize("most", [1, 5])
def test_an_answer_that_is_too_long_is_cut(model: Any, most: int) -> None:
    reader = Fixed(9)
    last = end_of(answer(model, reader, max_new_tokens=most))
    assert (last.reason, last.tokens.tolist()) == ("length", reader.taken)
    assert len(reader.taken) == most


@pytest.mark.parametrize("after", [0, 5, 11])
def test_an_answer_that_can_no_longer_be_held_to_its_format_says_why(model: Any, after: int) -> None:
    reader = Fixed(24, fails_after=after)
    last = end_of(answer(model, reader))
    assert (last.reason, last.why, last.tokens.tolist()) == ("length", "it fell out", reader.taken)
    assert len(reader.taken) == after


@pytest.mark.parametrize("after", [1, 9])
def test_stop_keeps_what_was_written(model: Any, after: int) -> None:
    cancel, reader = threading.Event(), Fixed(24)
    run = Run.from_ids(model, PROMPT, CONFIG, 4, cancel=cancel, answer=reader)
    last = end_of(stopped(perform_all(model, decode(run)), cancel, after))
    assert (last.reason, last.steps, last.tokens.tolist()) == ("cancelled", after, reader.taken)


def test_a_ban_that_leaves_nothing_is_an_error(model: Any) -> None:
    with pytest.raises(SafelightError, match="no token for what must come next"):
        answer(model, Fixed(9), banned_tokens=tuple(Fixed(9).sets[1]))


@pytest.mark.parametrize("name", [WEDLM, MASKED, MINI])
def test_embedded_models_fit_random_formats(name: str) -> None:
    """A causal one's own decoder cannot, and is not asked for; another one's can, and is asked not to."""
    model = load_model(name, device="cpu")
    ids = model.chat_ids([{"role": "user", "content": "What is 12 + 7?"}])
    config = model.generation_defaults.replace(max_new_tokens=120, decoder="autoregressive" if name == MINI else "")
    ends = set[str]()
    for number in (0, 8, 13, 25):
        wanted = random_format(Random(number), number)
        *events, last = generate(model, ids, config, number, output_format=wanted)
        assert isinstance(last, GenerationFinished)
        text = model.tokenizer.decode(last.tokens, skip_special=False)
        assert last.reason == "length" or not problem(wanted, text), (number, text)
        assert np.all([event.filler is not None for event in events if hasattr(event, "filler")])
        ends.add(last.reason)
    assert "eos" in ends
    last = end_of(generate(model, ids, config, 0, output_format=OutputFormat("choices", choices=("only this",))))
    assert (last.reason, model.tokenizer.decode(last.tokens), last.steps) == ("eos", "only this", 1)


BOTH = ("block_diffusion", "autoregressive")


@pytest.mark.parametrize(
    ("asked", "decoders", "expected"),
    [
        ({}, BOTH, "block_diffusion"),
        ({"decoder": "autoregressive"}, BOTH, "autoregressive"),
        ({}, ("causal_parallel", "autoregressive"), "autoregressive"),
        ({}, ("masked_diffusion", "autoregressive", "self_speculation"), "autoregressive"),
        ({"decoder": "block_causal"}, ("bidirectional", "block_causal"), "block_causal"),
        (
            {"decoder": "causal_parallel"},
            ("causal_parallel", "autoregressive"),
            SafelightError("autoregressive, and this"),
        ),
        ({"token_thoughts": True}, BOTH, SafelightError("block_diffusion or autoreg")),
        ({}, ("masked_diffusion",), SafelightError("this model cannot follow a format; describe it in the prompt")),
    ],
)
def test_which_decoder_holds_an_answer(asked: dict[str, Any], decoders: tuple[Any, ...], expected: Any) -> None:
    if isinstance(expected, str):
        assert formatting(GenerationConfig(**asked), decoders) == expected
    else:
        with pytest.raises(SafelightError, match=str(expected)):
            formatting(GenerationConfig(**asked), decoders)
