"""Values of answers under a format, on a vocabulary that people have: they are those that the model would write freely.

The network is scripted: at each place it prefers the tokens that continue a text. Every pass is performed and then
predicts so. A vocabulary has tokens such as `` -`` but none such as `` 3``, so that what a format leaves out matters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import CanvasCommitted, Event, GenerationConfig, GenerationFinished
from engine.catalog import TALK
from engine.decoding.generate import decode
from engine.decoding.performing import perform
from engine.decoding.protocols import Decode, Denoise, Pass
from engine.decoding.run import Run
from engine.models.opening import open_model
from engine.text.formatted_answer import FormattedAnswer
from engine.text.output_format import FormatKind, OutputFormat
from engine.text.tokenizer import Tokenizer
from tests.engine.causal import masked_network
from tests.engine.tiny import network

Schema = dict[str, Any]
pytestmark = pytest.mark.skipif(not TALK.folder.is_file(), reason="Safelight Talk is not installed")
END, SIZE = 2, 49_152
NETWORKS: dict[bool, Any] = {
    True: cache(partial(network, 1, vocab_size=SIZE, canvas_length=16)),
    False: cache(partial(masked_network, 1, vocab_size=SIZE, canvas_length=8)),
}
DECODERS = ("block_diffusion", "autoregressive", "bidirectional", "block_causal", "sub_blocks")


@cache
def vocabulary(*tags: str) -> Tokenizer:
    """Talk's, with tags in place of some of its special tokens."""
    file = open_model(TALK.folder).companions()["tokenizer.json"]
    for number, tag in enumerate(tags):
        file = file.replace(f"<{('repo_name', 'file_sep')[number]}>".encode(), tag.encode())
    return Tokenizer.from_bytes(file, "tokenizer.json")


@cache
def spelled(tokenizer: Tokenizer) -> dict[str, int]:
    """The tokens by their text, of those that are ASCII."""
    found = {tokenizer.decode([token], skip_special=False): token for token in reversed(range(SIZE))}
    return {text: token for text, token in found.items() if text and text.isascii()}


class Script:
    """Logits (V,) that prefer what continues ``wanted`` behind ``written``, the longest token most.

    A minus is thought of everywhere, though not much.
    """

    def __init__(self, wanted: str, tokenizer: Tokenizer) -> None:
        self.wanted, self.spelled = wanted, spelled(tokenizer)

    def logits(self, written: str) -> Tensor:
        found = torch.zeros(SIZE)
        found[self.spelled[" -"]] = found[self.spelled["-"]] = 2.0
        left = self._left(written)
        for length in range(1, min(len(left), 20) + 1):
            token = self.spelled.get(left[:length])
            if token is not None:
                found[token] = 10.0 + length
        if not left:
            found[END] = 30.0
        return found

    def _left(self, written: str) -> str:
        """Returns the rest of the script; white space may be another than its own."""
        at = 0
        for sign in written:
            skipped = at + len(self.wanted[at:]) - len(self.wanted[at:].lstrip())
            if self.wanted[at : at + 1] == sign:
                at += 1
            elif self.wanted[skipped : skipped + 1] == sign:
                at = skipped + 1
            elif not sign.isspace():
                return "?"
        return self.wanted[at:]


class Recorded:
    """An answer, and the tokens that it took."""

    def __init__(self, answer: FormattedAnswer) -> None:
        self._answer, self.taken = answer, list[int]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._answer, name)

    def take(self, ids: Sequence[int]) -> int:
        count = self._answer.take(ids)
        self.taken += [token for token in ids[:count] if token != END]
        return count


def scripted(decoder: str, wanted: str, held: OutputFormat, tokenizer: Tokenizer | None = None) -> str:
    """The text of an answer under a format, of which every pass predicts by a script."""
    tokenizer, model, prompt = tokenizer or vocabulary(), NETWORKS[decoder == "block_diffusion"](), (9, 7, 9)
    config = GenerationConfig(
        decoder=decoder, max_new_tokens=64, max_denoising_steps=3, eos_token_ids=(END,), pad_token_id=0
    )
    answer = Recorded(FormattedAnswer.for_prompt(held, tokenizer, SIZE, (END,), prompt))
    run = Run.from_ids(model, prompt, config, 4, answer=answer)  # type: ignore[arg-type]
    with torch.inference_mode():
        *_, last = _events(model, run, Script(wanted, tokenizer), tokenizer, answer)
    answer.close()
    assert isinstance(last, GenerationFinished)
    found = tokenizer.decode(last.tokens, skip_special=False)
    assert last.reason == "eos", (last.why, found)
    return found


def _events(model: Any, run: Run, script: Script, tokenizer: Tokenizer, answer: Recorded) -> Iterator[Event]:
    done = 0  # tokens of finished canvases
    for item in decode(run):
        if not isinstance(item, Pass):
            done += item.text_length if isinstance(item, CanvasCommitted) else 0
            yield item
            continue
        perform(model, item)
        preferred = script.logits(tokenizer.decode(answer.taken, skip_special=False))
        if isinstance(item, Decode):
            assert item.logits is not None
            item.logits = preferred.expand(item.logits.shape).clone()
        elif isinstance(item, Denoise):
            assert item.logits is not None
            item.logits = torch.zeros_like(item.logits)  # but for the next token what no answer has
            item.logits[:, script.spelled["\x01"]] = 10.0
            if len(answer.taken) - done < len(item.logits):
                item.logits[len(answer.taken) - done] = preferred


def obj(**members: Any) -> Schema:
    return {"type": "object", "properties": members, "required": [*members], "additionalProperties": False}


INTEGER, NUMBER, TEXT = {"type": "integer"}, {"type": "number"}, {"type": "string"}
CASES: dict[str, tuple[Schema, str]] = {
    "integer": (obj(age=INTEGER), '{"age": 31}'),
    "below zero": (obj(degrees=NUMBER, age=INTEGER), '{"degrees": -21.5, "age": -3}'),
    "optional": (obj(age={"anyOf": [INTEGER, {"type": "null"}]}), '{"age": 31}'),
    "null": (obj(age={"anyOf": [INTEGER, {"type": "null"}]}), '{"age": null}'),
    "or text": (obj(age={"anyOf": [INTEGER, TEXT]}), '{"age": 31}'),
    "text": (obj(age={"anyOf": [INTEGER, TEXT]}), '{"age": "31"}'),
    "list": (obj(found={"type": "array", "items": INTEGER}), '{"found": [4, 8, 15]}'),
    "bounds": (obj(age={"type": "integer", "minimum": -5, "maximum": 99}), '{"age": 31}'),
    "enum": (obj(age={"enum": [-3, 3, "3"]}), '{"age": 3}'),
    "nested": (obj(a=obj(b=INTEGER, c=NUMBER), d=INTEGER), '{"a": {"b": 7, "c": 0.5}, "d": 12}'),
    "bool": (obj(a={"type": "boolean"}, b=INTEGER), '{"a": true, "b": 1}'),
    "any": ({"type": "object"}, '{"sum": 52}'),
    "compact": (obj(age=INTEGER, a={"type": "array", "items": INTEGER}), '{"age":31,"a":[1,2]}'),
    "on lines": (obj(age=INTEGER, b=NUMBER), '{\n  "age": 31,\n  "b": 2.5\n}'),
}


@pytest.mark.parametrize(
    ("case", "decoder"),
    [
        *((case, "autoregressive") for case in CASES),
        *(("below zero", each) for each in DECODERS if each != "autoregressive"),
    ],
)
def test_values_are_those_that_the_model_means(case: str, decoder: str) -> None:
    schema, wanted = CASES[case]
    found = scripted(decoder, wanted, OutputFormat("json_schema", schema))
    assert json.loads(found) == json.loads(wanted), found


@pytest.mark.parametrize("decoder", ["block_diffusion", "autoregressive"])
def test_the_arguments_of_calls_are_those_that_the_model_means(decoder: str) -> None:
    tools = ({"name": "f", "parameters": obj(age=INTEGER, b=NUMBER, c={"type": ["integer", "null"]})},)
    call = "<|tool_call>call:f{age:31,b:2.5,c:null}<tool_call|>"  # in letters: the vocabulary has no such tags
    assert scripted(decoder, call, OutputFormat("tool_calls", tools=tools)) == call


@pytest.mark.parametrize(("kind", "decoder"), [("tool_calls", "autoregressive"), ("text_or_calls", "block_diffusion")])
def test_calls_in_json_have_the_numbers_that_the_model_means(kind: FormatKind, decoder: str) -> None:
    tools = ({"name": "f", "parameters": obj(age=INTEGER, of={"type": "array", "items": NUMBER})},)
    wanted = '<tool_call>\n{"name": "f", "arguments": {"age": 31, "of": [2.5]}}\n</tool_call>'
    tokenizer = vocabulary("<tool_call>", "</tool_call>")
    assert scripted(decoder, wanted, OutputFormat(kind, tools=tools), tokenizer) == wanted
