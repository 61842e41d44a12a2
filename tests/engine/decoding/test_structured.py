"""Answers that fit a format, by a model that knows nothing of it: what is pinned stays, and the end is honest."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import closing
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer as FastTokenizer

from engine import (
    MINI,
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    GenerationFinished,
    Model,
    PrefillFinished,
    PrefixPinned,
    SafelightError,
    StepFinished,
    generate,
    load_model,
)
from engine.decoding.generate import decode
from engine.decoding.performing import perform_all
from engine.decoding.run import Run, allowed_next
from engine.text.formatted_answer import FormattedAnswer
from engine.text.matching import MatchingEndedError
from engine.text.output_format import OutputFormat
from engine.text.tokenizer import Tokenizer
from tests.engine.decoding.seen import end_of, stopped
from tests.engine.decoding.test_step_program import OnDevice, tame
from tests.engine.text.formats import problem, random_format
from tests.engine.text.outputs import parse_output
from tests.engine.tiny import CANVAS, VOCABULARY, network, tokens

PROMPT, END, PAD = tokens(12, 3), 111, 6
CONFIG = GenerationConfig(
    max_new_tokens=30, max_denoising_steps=4, eos_token_ids=(END,), pad_token_id=PAD, entropy_bound=6.0
)


def answered(model: Model, seed: int, wanted: OutputFormat | None, most: int = 48) -> tuple[str, str, int, int]:
    """Why the answer to a sum ended, its text, its rounds and steps; ``most`` steps in a block's first round."""
    config = model.generation_defaults.replace(max_denoising_steps=most)
    ids = model.chat_ids([{"role": "user", "content": "What is 12 + 7?"}])
    *events, end = generate(model, ids, config, seed, output_format=wanted)
    rounds = sum(isinstance(event, PrefixPinned) for event in events)
    return end.reason, model.tokenizer.decode(end.tokens, skip_special=False), rounds, end.steps


class Fixed:
    """An answer of so many tokens, each one of three; every fourth one is forced.

    Args:
        fails_after: tokens after which it can no longer be held to its format.
    """

    def __init__(self, length: int, fails_after: int = 1000) -> None:
        draws = Random(length)
        ids = [token for token in range(VOCABULARY) if token not in (END, PAD)]
        self.sets = [draws.sample(ids, 1 if place % 4 == 0 else 3) for place in range(length)]
        self.taken: list[int] = []
        self.has_ended = self.is_free = self.has_called = False
        self.failure, self.fails_after = "", fails_after

    @property
    def must_end(self) -> bool:
        return len(self.taken) == len(self.sets)

    def take(self, ids: Sequence[int]) -> int:
        count = 0
        for token in ids[: max(0, self.fails_after - len(self.taken))]:
            if self.has_ended or token not in (self.sets[len(self.taken)] if not self.must_end else (END,)):
                break
            self.has_ended = self.must_end
            self.taken += [token] if not self.has_ended else []
            count += 1
        if len(self.taken) >= self.fails_after:
            self.failure = "it fell out"
        return count

    def forced(self) -> list[int]:
        if self.failure or self.must_end or len(self.sets[len(self.taken)]) > 1:
            return []
        return self.sets[len(self.taken)]

    def allowed(self) -> NDArray[np.bool_]:
        found = np.zeros(VOCABULARY, dtype=np.bool_)
        if not self.failure:
            found[self.sets[len(self.taken)] if not self.must_end else [END]] = True
        return found

    def closing(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return allowed


@pytest.fixture(params=["plain", "program"])
def model(request: pytest.FixtureRequest) -> Any:
    return network(1) if request.param == "plain" else OnDevice(tame())


def answer(model: Any, length: int, **options: Any) -> list[Event]:
    return list(perform_all(model, decode(Run.from_ids(model, PROMPT, CONFIG, 4, answer=Fixed(length), **options))))


def fits(ids: Sequence[int], length: int) -> bool:
    return len(ids) <= length and all(token in each for token, each in zip(ids, Fixed(length).sets, strict=False))


def assert_pinned(events: Sequence[Event]) -> None:
    """Each round pins more than the one before, and what is pinned stays; steps are counted on."""
    held: PrefixPinned | None = None
    rounds = step = 0
    for event in events:
        match event:
            case CanvasStarted():
                held, rounds, step = None, 0, 0
                assert not event.pinned_mask.any()
            case PrefixPinned():
                before = 0 if held is None else held.pinned
                assert (event.round, event.step) == (rounds, step)
                assert before < event.pinned <= CANVAS
                assert 0 <= event.written < event.pinned - before or event.written == 0
                if held is not None:
                    assert np.array_equal(event.canvas[:before], held.canvas[:before])
                held, rounds = event, rounds + 1
            case StepFinished():
                assert event.step == step
                step += 1
                if held is not None:
                    for row in (event.argmax_canvas, event.candidates, event.next_canvas):
                        assert np.array_equal(row[: held.pinned], held.canvas[: held.pinned])
            case CanvasCommitted():
                assert event.steps == step > 0
                if held is not None:
                    assert np.array_equal(event.tokens[: held.pinned], held.canvas[: held.pinned])


@pytest.mark.parametrize("length", [1, 10, 24])
def test_the_answer_fits_and_ends(model: Any, length: int) -> None:
    events = answer(model, length)
    assert isinstance(events[0], PrefillFinished)
    assert_pinned(events)
    last = end_of(events)
    assert last.reason == "eos"
    assert len(last.tokens) == length
    assert fits(last.tokens.tolist(), length)
    blocks = [event for event in events if isinstance(event, CanvasCommitted)]
    assert len(blocks) == last.blocks == -(-length // CANVAS)
    assert last.steps == sum(event.steps for event in blocks)
    ended = blocks[-1].tokens[blocks[-1].text_length :]
    assert ended.tolist() == ([END] + [PAD] * (len(ended) - 1) if len(ended) else [])


@pytest.mark.parametrize("most", [1, CANVAS + 2])
def test_no_more_is_written_than_is_wanted(model: Any, most: int) -> None:
    run = Run.from_ids(model, PROMPT, CONFIG.replace(max_new_tokens=most), 4, answer=Fixed(24))
    events = list(perform_all(model, decode(run)))
    last = end_of(events)
    assert (last.reason, last.blocks) == ("length", -(-most // CANVAS))
    assert most <= len(last.tokens) <= most + 2 * CANVAS // 4
    assert fits(last.tokens.tolist(), 24)
    rounds = [event for event in events if isinstance(event, PrefixPinned)]
    assert len(rounds) <= most + last.blocks
    assert_pinned(events)


@pytest.mark.parametrize("after", [1, 9])
def test_cancel_takes_effect_within_a_step(model: Any, after: int) -> None:
    cancel = threading.Event()
    run = Run.from_ids(model, PROMPT, CONFIG, 4, cancel=cancel, answer=Fixed(24))
    last = end_of(stopped(perform_all(model, decode(run)), cancel, after))
    assert (last.reason, last.steps) == ("cancelled", after)


@pytest.mark.parametrize("after", [0, 5, CANVAS + 2])
def test_an_answer_that_can_no_longer_be_held_to_its_format_is_cut_with_the_reason(model: Any, after: int) -> None:
    reader = Fixed(24, fails_after=after)
    events = list(perform_all(model, decode(Run.from_ids(model, PROMPT, CONFIG, 4, answer=reader))))
    last = end_of(events)
    assert (last.reason, last.why) == ("length", "it fell out")
    assert last.tokens.tolist() == reader.taken
    assert len(reader.taken) == after
    assert_pinned(events)


# --- the embedded model ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 20])
def test_the_skills_model_fits_random_formats(number: int) -> None:
    wanted = random_format(Random(number), number)
    reason, text, *_ = answered(load_model(MINI, device="cpu"), number, wanted, 8)
    assert reason == "length" or not problem(wanted, text), text


def test_what_the_model_writes_by_itself_is_left_as_it_is() -> None:
    model = load_model(MINI, device="cpu")
    free, held = (answered(model, 0, wanted) for wanted in (None, OutputFormat("regex", pattern="[0-9]{1,9}")))
    assert free == held == ("eos", "19", 0, free[3])


def test_cancel_ends_a_run_whose_format_is_still_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(*_: Any) -> Any:
        raise MatchingEndedError("it was ended")

    monkeypatch.setattr("engine.text.grammar.matchers_of", gives_up)
    model, wanted, cancel = load_model(MINI, device="cpu"), OutputFormat("json_object"), threading.Event()
    cancel.set()
    (last,) = generate(model, model.tokenizer.encode("hi"), CONFIG, cancel=cancel, output_format=wanted)
    assert isinstance(last, GenerationFinished)
    assert last.reason == "cancelled"
    with pytest.raises(SafelightError, match="this format cannot be followed"):
        list(generate(model, model.tokenizer.encode("hi"), CONFIG, output_format=wanted))


# --- thoughts and tool calls, with tokens as Gemma has them ----------------------------------------------------------

TAGS = ("<pad>", "<eos>", "<bos>", "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>', "<turn|>")
OPEN, CLOSE = 3, 4


@pytest.fixture(scope="module")
def gemma() -> Tokenizer:
    """Bytes, a few letters of more bytes, and words with the sign for a space before them."""
    pieces = ["▁", *'abcdefghijklmnopqrstuvwxyz{}[]:,"', "é", "日", "th", "▁th", '":', "call"]
    vocabulary = [*TAGS, *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    raw = {
        "version": "1.0",
        "added_tokens": [
            {"id": place, "content": tag, "special": True, "normalized": False, "single_word": False, "lstrip": False,
             "rstrip": False}
            for place, tag in enumerate(TAGS)
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        ]},
        "model": {"type": "BPE", "vocab": {piece: place for place, piece in enumerate(vocabulary)},
                  "merges": [["t", "h"], ["▁", "th"], ['"', ":"]], "byte_fallback": True, "unk_token": None},
    }  # fmt: skip
    return Tokenizer(FastTokenizer.from_str(json.dumps(raw)))


def begun(gemma: Tokenizer, wanted: OutputFormat, prompt: str = "hi") -> FormattedAnswer:
    return FormattedAnswer.for_prompt(wanted, gemma, gemma.vocab_size, (1, 8), gemma.encode(prompt))


JSON = OutputFormat("json_object")


def test_a_thought_is_free_and_the_format_begins_behind_it(gemma: Tokenizer) -> None:
    state = begun(gemma, JSON)
    assert state.forced() == []
    assert state.allowed()[OPEN]
    thought = gemma.encode("<|channel>thought\nno { JSON<channel|>")
    assert state.take(thought) == len(thought)
    assert gemma.decode(state.forced()) == "{"
    assert not state.allowed()[OPEN]
    whole = gemma.encode('{"th": "日 é 💥"}<turn|>')
    assert state.take(whole) == len(whole)
    assert state.has_ended


def test_an_end_token_in_a_thought_closes_the_thought(gemma: Tokenizer) -> None:
    state = begun(gemma, JSON, "hi<|channel>thought\n")
    assert state.take([*gemma.encode("hm"), 8, 0]) == 2
    assert state.forced() == [CLOSE]
    assert state.take(state.forced()) == 1
    assert gemma.decode(state.forced()) == "{"


WEATHER = {
    "type": "object",
    "$defs": {"unit": {"enum": ["C", "F"]}},
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "unit": {"$ref": "#/$defs/unit"},
    },
    "required": ["city", "unit"],
}
CALLS = OutputFormat("tool_calls", tools=({"name": "weather", "parameters": WEATHER}, {"name": "stop"}))
STOP = "<|tool_call>call:stop{}<tool_call|>"


@pytest.mark.parametrize(
    ("text", "does_fit"),
    [
        (STOP, True),
        (f'<|tool_call>call:weather{{city:<|"|>Rom <3 "é", }}<|"|>,days:7,unit:<|"|>C<|"|>}}<tool_call|>{STOP}', True),
        ('<|tool_call>call:weather{city:<|"|><|"|>,days:10', False),
        ("<|tool_call>call:weather{unit", False),
        ('<|tool_call>call:weather{city:<|"|>a<|b', False),
        ("hello", False),
    ],
)
def test_tool_calls_are_held_to_their_schemas(gemma: Tokenizer, text: str, does_fit: bool) -> None:
    """Others, and text before them: ``text/test_text_or_calls``."""
    ids, state = gemma.encode(text), begun(gemma, CALLS, "hi<|channel>thought\n<channel|>")
    count = state.take([*ids, 8])
    assert state.has_ended == does_fit
    assert count == len(ids) + 1 if does_fit else count < len(ids)
    assert not does_fit or not any(call.is_cut for call in parse_output(text, schemas={"weather": WEATHER}).tool_calls)


NODE = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "n": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
    "required": ["a", "n"],
}


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"allOf": [{"$ref": "#/$defs/n"}, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}],
          "$defs": {"n": {"type": "object", "properties": {"a": {"type": "string"}}}}}, '"a":"x","b":7}'),
        ({"properties": {"p": {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}}}},
         'p:[5,"5"]}'),
        ({"patternProperties": {"^[a:]+$": {"type": "integer"}}, "additionalProperties": False, "minProperties": 1},
         '"a:":3,"a":4}'),
        ({"additionalProperties": {"type": "string"}, "maxProperties": 1}, '"a{},\\"b":"\\n"}'),
        ({"properties": {"d": {"type": "string", "format": "date"}}}, 'd:"2026-11-26"}'),
        ({"properties": {"d": {"type": "string", "format": "int64"}}}, 'd:<|"|>any<|"|>}'),
        ({"properties": {"t": {"type": "array", "items": {"type": "integer"}, "maxItems": 1}}}, "t:[5]}"),
        ({"properties": {"o": {"type": "object"}}}, 'o:{"a":[1,true]}}'),
        ({"$defs": {"n": NODE}, "$ref": "#/$defs/n"}, 'a:<|"|>x<|"|>,n:{a:<|"|><|"|>,n:null}}'),
    ],
)  # fmt: skip
def test_calls_take_what_schemas_take(gemma: Tokenizer, schema: dict[str, Any], arguments: str) -> None:
    text = f"<|tool_call>call:f{{{arguments}<tool_call|>"
    state = begun(gemma, OutputFormat("tool_calls", tools=({"name": "f", "parameters": schema},)), "<channel|>")
    ids = gemma.encode(text)
    assert state.take([*ids, 8]) == len(ids) + 1
    (call,) = parse_output(text, schemas={"f": schema}).tool_calls
    assert not call.is_cut
    assert not problem(OutputFormat("json_schema", schema), call.arguments_json)


def closed(gemma: Tokenizer, wanted: OutputFormat, text: str) -> str:
    """The answer that begins with a text, where the model wants nothing but its end."""
    state = begun(gemma, wanted, "hi<|channel>thought\n<channel|>")
    ids = gemma.encode(text)
    assert state.take(ids) == len(ids)
    while len(ids) < 400:
        found = state.forced() or np.flatnonzero(allowed_next(state, None, 1, (1, 8)))[-1:].tolist()
        ids += found
        assert state.take(found) == len(found)
        if state.has_ended or state.must_end:
            return gemma.decode(ids, skip_special=False)
    return "it does not end"


@pytest.mark.parametrize("kind", ["json_schema", "tool_calls"])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "string", "format": "email"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "string", "format": "date-time"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z]{3,}!x$"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}, "required": ["a"]},
        {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
        {"$defs": {"n": NODE}, "$ref": "#/$defs/n"},
    ],
)
def test_an_answer_comes_to_its_end_where_the_model_wants_it(gemma: Tokenizer, kind: str, schema: Any) -> None:
    if kind == "json_schema":
        said = closed(gemma, OutputFormat("json_schema", schema), "{")
    else:
        wanted = OutputFormat("tool_calls", tools=({"name": "f", "parameters": schema},))
        (call,) = parse_output(closed(gemma, wanted, "<|tool_call>call:f{"), schemas={"f": schema}).tool_calls
        said = call.arguments_json
    assert not problem(OutputFormat("json_schema", schema), said)


def test_after_a_call_something_else_than_a_call_ends_the_answer(gemma: Tokenizer) -> None:
    state = begun(gemma, CALLS, "hi<|channel>thought\n<channel|>")
    text, (word, begins) = gemma.encode("<|tool_call>call:stop{}<tool_call|>"), gemma.encode("a<|tool_call>")
    assert state.take(text) == len(text)
    assert state.has_called
    assert np.flatnonzero(allowed_next(state, None, word, (1, 8))).tolist() == [1, 8]
    assert allowed_next(state, None, begins, (1, 8))[begins]
    assert state.take([begins]) == 1
    assert not state.has_called


def test_what_the_format_forces_is_pinned_before_the_first_step() -> None:
    model = load_model(MINI, device="cpu")
    ids = model.chat_ids([{"role": "user", "content": "hello"}])
    schema = {"type": "object", "properties": {"is": {"const": "π"}}, "required": ["is"], "additionalProperties": False}
    wanted = OutputFormat("json_schema", schema)
    with closing(generate(model, ids, model.generation_defaults, output_format=wanted)) as events:
        first = next(event for event in events if isinstance(event, PrefixPinned))
    assert (first.step, first.round, first.written) == (0, 0, 0)
    assert model.tokenizer.decode(first.canvas[: first.pinned]) == '{"is": "π"}'
