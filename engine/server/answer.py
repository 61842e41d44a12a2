"""An answer as it grows: converts a run's events to text, thoughts, tool calls, usage and times. Knows no HTTP."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.events import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationFinished,
    PrefillFinished,
    PromptScores,
    StepFinished,
)
from engine.service import LoadedModel
from engine.text.output import OutputParser
from engine.text.output_parts import (
    ContentPart,
    OutputPart,
    ThoughtPart,
    ToolCallPart,
    joined,
)
from engine.text.tags import CALL, CALL_END, CLOSE, OPEN, TAGS
from engine.types import Tokens

WRITTEN_AT_ONCE = 256  # tokens of an answer for each further one that is waited for before text is sent
NOT_AMONG_TOP = -9999.0  # OpenAI's value for a token that is not among the likeliest


@dataclass(frozen=True)
class TokenChance:
    """A token with its natural logarithm of probability, and the likeliest tokens in its place, likeliest first.

    ``logprob`` is None for a text's first token, which nothing predicts.
    """

    token: int
    text: str
    logprob: float | None
    top: tuple[tuple[int, str, float], ...] = ()

    def as_chat(self) -> dict[str, Any]:
        """Returns it as chat completions write it."""
        top = [_entry(text, logprob) for _, text, logprob in self.top]
        return {**_entry(self.text, self.logprob), "top_logprobs": top}


class Predictions:
    """The likeliest tokens at each place of the newest block, from the last step that predicted it."""

    def __init__(self) -> None:
        self._block = -1
        self._rows: dict[int, tuple[Tokens, NDArray[np.float32]]] = {}  # by place: (K,) each

    def fold(self, step: StepFinished) -> None:
        if step.block_index != self._block:
            self._block, self._rows = step.block_index, {}
        if step.top_tokens is None or step.top_probabilities is None:
            return
        is_one = (step.top_tokens == step.top_tokens[:, :1]).all(axis=1) & (step.top_tokens.shape[1] > 1)
        for place in np.flatnonzero(~is_one).tolist():  # at other places nothing was predicted
            self._rows[place] = step.top_tokens[place], step.top_probabilities[place]

    def chances(self, tokens: Sequence[int], most: int, model: LoadedModel) -> list[TokenChance]:
        """Returns the first tokens of the block, with at most ``most`` alternatives each."""
        chances = []
        for place, token in enumerate(tokens):
            ids, shares = (part.tolist() for part in self._rows.get(place, (np.empty(0), np.empty(0))))
            known = {id: math.log(share) if share > 0 else NOT_AMONG_TOP for id, share in zip(ids, shares, strict=True)}
            top = tuple((id, model.piece(id), logprob) for id, logprob in list(known.items())[:most])
            chances.append(TokenChance(token, model.piece(token), known.get(token, NOT_AMONG_TOP), top))
        return chances


def prompt_chances(scores: PromptScores, model: LoadedModel) -> list[TokenChance]:
    """Returns all tokens of a prompt that was scored."""
    first, *others = scores.tokens.tolist()
    chances = [TokenChance(first, model.piece(first), None)]
    own_logprobs = np.maximum(scores.logprobs, NOT_AMONG_TOP).tolist()
    best, shares = scores.top_tokens.tolist(), np.maximum(scores.top_logprobs, NOT_AMONG_TOP).tolist()
    for token, logprob, ids, logprobs in zip(others, own_logprobs, best, shares, strict=True):
        top = tuple((id, model.piece(id), share) for id, share in zip(ids, logprobs, strict=True))
        chances.append(TokenChance(token, model.piece(token), logprob, top))
    return chances


def _entry(text: str, logprob: float | None) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode("utf-8", "replace"))}


FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True)
class AnswerSettings:
    """The settings of an answer, as requested.

    Args:
        max_tokens: the answer is cut after so many.
        stops: strings that end it; they are no part of it.
        is_raw: text is passed on unchanged, not divided into thoughts and calls.
        starts_in_thought: the prompt ends inside a thought.
        schemas: of each tool's parameters, by its name.
        one_call: the answer ends after its first tool call.
        top_logprobs: alternatives to report of each token; None reports no tokens.
        echo: the prompt's text, with which the answer begins; None leaves it out.
        one_by_one: tokens of blocks that are not denoised stay as they are written, one behind the other.
    """

    max_tokens: int = 0
    stops: tuple[str, ...] = ()
    is_raw: bool = False
    starts_in_thought: bool = False
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    one_call: bool = False
    top_logprobs: int | None = None
    echo: str | None = None
    one_by_one: bool = False


class ServedAnswer:
    """Folds a run's events. ``is_complete`` becomes True when nothing more is needed of the run.

    Args:
        index: number of the answer among those of its request.
    """

    def __init__(self, model: LoadedModel, settings: AnswerSettings, index: int = 0) -> None:
        self._model, self._settings, self.index = model, settings, index
        self._parser = OutputParser(starts_in_thought=settings.starts_in_thought, schemas=settings.schemas)
        self._stop_finder = StopFinder(settings.stops)
        self._written = ""  # all text that the parser has
        self._predictions = Predictions()
        self._block: CanvasStarted | None = None  # that is running
        self._step: StepFinished | None = None  # its newest
        self._taken = 0  # its tokens that are part of the answer by now
        self._in_thought = settings.starts_in_thought
        self._in_call = False
        self._chances: list[TokenChance] = []
        self._prompt: list[TokenChance] = []  # its tokens, if they were scored
        self._content_length = self._reported_length = 0  # characters passed on, and of reported tokens
        self._calls = 0
        self._is_cut = False  # a call has only the beginning of its arguments
        self._reason: FinishReason | None = None
        self.tokens: list[int] = []
        self.prompt_tokens = self.cached_tokens = 0
        self.reasoning_tokens = 0
        self.steps = self.blocks = self.positions = 0
        self.prompt_seconds = self.seconds = 0.0
        self.why = ""  # the cause in a sentence if the reason is "length" but the length did not end it
        self.is_complete = False

    @property
    def finish_reason(self) -> FinishReason:
        """The reason why the answer ended."""
        if self._is_cut:
            return "length"  # so that nobody executes half a call
        if self._calls and self._reason != "length":
            return "tool_calls"
        return self._reason or "stop"

    @property
    def stop(self) -> str | None:
        """The stop string that ended the answer."""
        return self._stop_finder.stop

    @property
    def ending(self) -> dict[str, str]:
        """A choice's fields about its end; ``stop_reason`` is vLLM's."""
        return {"finish_reason": self.finish_reason} | ({"stop_reason": self.why} if self.why else {})

    def score(self, scores: PromptScores) -> list[OutputPart]:
        """Takes the scores of the prompt; returns the parts of the answer if they are all of it."""
        self._prompt, self.prompt_tokens = prompt_chances(scores, self._model), len(scores.tokens)
        return [] if self._settings.max_tokens else self._begin()

    def fold(self, event: Event) -> list[OutputPart]:
        """Returns the parts that an event adds to the answer; most add none."""
        match event:
            case CanvasStarted():
                self._block, self._step = event, None
            case PrefillFinished():
                self.prompt_tokens, self.cached_tokens = event.prompt_tokens, event.reused_tokens
                self.prompt_seconds = event.seconds
                return self._begin()
            case StepFinished():
                if self._settings.top_logprobs is not None:
                    self._predictions.fold(event)
                self._step = event
                self.steps += 1
                self.positions += len(event.argmax_canvas)
                self.seconds += event.seconds
                return self._add_written()
            case CanvasCommitted():
                return self._add_block(event)
            case GenerationFinished():
                self.seconds = event.seconds
                if event.reason == "length" and self._reason is None:
                    self._reason, self.why = "length", event.why
        return []

    def finish(self) -> list[OutputPart]:
        """Returns the text that was held back, at the end of the run."""
        if self._reason == "stop":
            return []  # text after a stop is not wanted
        return self._divide(self._text()[len(self._written) :], at_end=True)

    @property
    def settled(self) -> str:
        """The text as far as it is certain: of whole blocks, and the settled beginning of the running one."""
        return self._model.write(
            [token for token in self.tokens + self._settled()[self._taken :] if self._is_text(token)]
        )

    def settle(self) -> list[OutputPart]:
        """Ends the answer with what is settled by now; returns the parts that this adds."""
        tokens = self._settled()[: self._room]
        self._step = None
        self._reason, self.is_complete = "length", True
        self._extend(tokens)
        return self._go_on()

    def take_prompt(self) -> list[TokenChance]:
        """Returns the tokens of the prompt, if it was scored and they were not taken before."""
        prompt, self._prompt = self._prompt, []
        return prompt

    def take_chances(self) -> list[TokenChance]:
        """Returns the tokens of the content that were added since the last call."""
        chances, self._chances = self._chances, []
        self._reported_length += sum(len(chance.text) for chance in chances)
        return chances

    def _begin(self) -> list[OutputPart]:
        if not self._settings.max_tokens:
            self._reason, self.is_complete = "length", True
        return [ContentPart(self._settings.echo)] if self._settings.echo else []

    def _settled(self) -> list[int]:
        """Returns the tokens at the beginning of the running block that are kept, up to a pinned one or its end."""
        if self._block is None or self._step is None:
            return []
        step = self._step
        kept = step.accepted_mask & ~self._block.pinned_mask
        if self._block.filler is None:
            kept &= step.next_canvas == step.argmax_canvas
        ends = {*self._model.defaults.eos_token_ids, self._model.defaults.pad_token_id}
        settled = step.next_canvas[: int(np.argmin([*kept, False]))].tolist()
        return list(takewhile(lambda token: token not in ends, settled))

    @property
    def _room(self) -> int:
        """The most tokens of the running block that the answer may have."""
        return self._settings.max_tokens - len(self.tokens) + self._taken

    def _extend(self, tokens: Sequence[int]) -> None:
        """Adds the tokens of the running block up to now; some of them may be part of the answer already."""
        self.tokens += tokens[self._taken :]
        self._note_tokens(tokens, self._taken)
        self._taken = len(tokens)

    def _add_written(self) -> list[OutputPart]:
        """Adds tokens before their block is whole, the less often the longer the answer is: each time it is written."""
        if not self._settings.one_by_one or self._block is None or self._block.filler is None:
            return []
        tokens = self._settled()[: self._room]
        if len(tokens) - self._taken <= len(self.tokens) // WRITTEN_AT_ONCE:
            return []
        self._extend(tokens)
        return self._go_on()

    def _add_block(self, event: CanvasCommitted) -> list[OutputPart]:
        self.blocks += 1
        self._step = None
        tokens = event.tokens[: event.text_length].tolist()
        room = self._room
        if len(tokens) > room or (len(tokens) == room and event.text_length == len(event.tokens)):
            tokens = tokens[:room]
            self._reason, self.is_complete = "length", True
        self._extend(tokens)
        self._taken = 0
        if self._settings.echo is not None and len(self.tokens) < self._settings.max_tokens:
            self._note_end(event)
        return self._go_on()

    def _go_on(self) -> list[OutputPart]:
        """Returns the parts that the newest tokens add to the answer."""
        text = self._text().rstrip("\N{REPLACEMENT CHARACTER}")  # the first bytes of a character; the others may follow
        # May be shorter than before: bytes that formed a character continue with another's first, and for now are
        # replaced.
        fresh = text[len(self._written) :]
        self._written += fresh
        return self._divide(fresh, at_end=False)

    def _text(self) -> str:
        """Returns all tokens written out, with the tags that divide the answer and no other marks."""
        return self._model.write([token for token in self.tokens if self._is_text(token)])

    def _is_text(self, token: int) -> bool:
        if not self._model.is_special(token):
            return True
        return not self._settings.is_raw and self._model.piece(token) in TAGS

    def _note_tokens(self, tokens: Sequence[int], first: int) -> None:
        """Counts thoughts, and keeps the predictions of the content's tokens, of a block's from ``first`` on."""
        most = self._settings.top_logprobs
        known: Sequence[TokenChance | None] = [None] * len(tokens)
        if most is not None:
            known = self._predictions.chances(tokens, most, self._model)
        for token, chance in [*zip(tokens, known, strict=True)][first:]:
            mark = self._model.piece(token) if self._model.is_special(token) else ""
            if mark in (OPEN, CLOSE):
                self._in_thought = mark == OPEN
            elif mark in (CALL, CALL_END):
                self._in_call = mark == CALL
            is_content = not (self._in_thought or self._in_call)
            self.reasoning_tokens += self._in_thought or mark == CLOSE
            if chance is not None and is_content and not mark:
                self._chances.append(chance)

    def _note_end(self, event: CanvasCommitted) -> None:
        """Keeps the prediction of the end token. Clients that score a prompt expect a token after it in any case."""
        most, read = self._settings.top_logprobs, event.tokens[: event.text_length + 1].tolist()
        if most is not None and len(read) > event.text_length:
            self._chances += self._predictions.chances(read, most, self._model)[-1:]

    def _divide(self, text: str, *, at_end: bool) -> list[OutputPart]:
        parts: list[OutputPart] = [ContentPart(text)]
        if not self._settings.is_raw:
            parts = self._parser.feed(text) + (self._parser.finish() if at_end else [])
        passed: list[OutputPart] = []
        for part in parts:
            if self._settings.one_call and self._calls:
                break
            match part:
                case ContentPart():
                    passed.append(self._content(self._stop_finder.feed(part.text)))
                    if self._stop_finder.stop is not None:
                        self._reason, self.is_complete = "stop", True
                        self._drop_chances()
                        break
                case ToolCallPart():
                    self._calls += 1
                    self._is_cut = self._is_cut or part.is_cut
                    passed.append(part)
                case ThoughtPart():
                    passed.append(part)
        if self._settings.one_call and self._calls:
            self._reason, self.is_complete = "stop", True
        if at_end and self._stop_finder.stop is None:
            passed.append(self._content(self._stop_finder.finish()))
        return joined(part for part in passed if part != ContentPart(""))

    def _content(self, text: str) -> ContentPart:
        self._content_length += len(text)
        return ContentPart(text)

    def _drop_chances(self) -> None:
        """Drops tokens after the end of the content."""
        length = self._reported_length
        for place, chance in enumerate(self._chances):
            if length >= self._content_length:
                del self._chances[place:]
                return
            length += len(chance.text)


class StopFinder:
    """Passes text on up to the first stop string; a possible beginning of one is held back.

    The first is the one that is complete first, however the text is cut. ``stop`` is the string that ended the text.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.stop: str | None = None

    def feed(self, text: str) -> str:
        """Returns the next text as far as it is certain."""
        if self.stop is not None:
            return ""
        whole = self._held + text
        hits = [(place + len(stop), place, stop) for stop in self._stops if (place := whole.find(stop)) >= 0]
        if hits:
            _, place, self.stop = min(hits)
            self._held = ""
            return whole[:place]
        begun = (n for stop in self._stops for n in range(1, len(stop)) if whole.endswith(stop[:n]))
        waiting = max(begun, default=0)
        self._held = whole[len(whole) - waiting :]
        return whole[: len(whole) - waiting]

    def finish(self) -> str:
        """Returns the text that was held back, at the end."""
        rest, self._held = self._held, ""
        return rest
