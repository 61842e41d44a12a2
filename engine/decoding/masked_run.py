"""The common parts of decoders with masks: how a run begins, the events of its passes, and where its text ends.

The last part is how many masks of a block each of its passes writes, by the schedules of published models. Each is
computed in the numbers of its authors' code, since a rounding may move a token to another pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from engine.adapters.draft import DraftAdapter
from engine.config import GenerationConfig
from engine.decoding.fork_schedule import MaskedChanges
from engine.decoding.prefill import read_prompt
from engine.decoding.protocols import Decode, Decoding, Passes
from engine.decoding.run import Run
from engine.decoding.sampling import TRANSFORMERS, SamplingOrder
from engine.decoding.thoughts import ThoughtBudget
from engine.decoding.token_sampler import TokenSampler
from engine.decoding.written_blocks import Predicted, blocks_of, required_mask, room_behind
from engine.errors import SafelightError
from engine.events import Event, GenerationFinished
from engine.layers.masks import CAUSAL, Blocks

EDIT_PASSES = 16  # the most behind a block's last mask that may replace tokens; as LLaDA2.1 has it
Choose: TypeAlias = Callable[[Tensor, int], tuple[Tensor, Sequence[int]]]
"""Logits (M, V) of a block's masks and the number of the pass -> the tokens drawn (M,), and the rows to write."""

Look: TypeAlias = Callable[[range, Sequence[int]], Passes[Tensor]]
"""The places of a block and of its masks -> logits (M, V) of the masks, as ``TokenSampler.allowed`` gives them.

Where tokens are edited, those of written places are wanted as well.
"""

Edit: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Logits (W, V) of a block's written places and their tokens (W,) -> the tokens that shall stand there (W,)."""


class MaskedRun:
    """The state of a run with masks. Places count the generated text from 0; the cache holds the prompt and part of it.

    Args:
        in_order: see ``WrittenBlocks``; under a format it is so. Otherwise a predicted mask stays a mask.
        order: of temperature and cuts.
        mask: stands where nothing is written; None: the model's own.

    Raises:
        SafelightError: the model has no mask token, or allows no other one; the prompt fills all its positions;
            settings of a canvas of noise.
    """

    def __init__(
        self, run: Run, *, in_order: bool = False, order: SamplingOrder = TRANSFORMERS, mask: int | None = None
    ) -> None:
        self.mask, self.run = required_mask(run) if mask is None else mask, run
        self.prompt, self.cache = run.prompt, run.cache
        self.limit = min(run.config.max_new_tokens, room_behind(run))  # tokens
        self.length = 0  # tokens of the text up to the first unwritten place, or up to its end
        self.in_order = in_order = in_order or run.answer is not None
        self.sampler = TokenSampler.from_run(run, order)
        self.budget = ThoughtBudget.from_run(run)
        self._check_tokens()
        self._blocks = blocks_of(run, in_order=in_order)
        self.size = self._blocks.length  # of a block
        self._changes = MaskedChanges(run.changes, self.size, self.mask)
        self._full = 0  # places before this one are in blocks that were filled
        self._end: Literal["eos", "length", "cancelled"] | None = None

    def _check_tokens(self) -> None:
        forbidden = self.sampler.forbidden
        if forbidden is not None and int((~forbidden).sum()) == int(~forbidden[self.mask]):
            raise SafelightError("every token but the mask is banned; leave at least one")

    @property
    def config(self) -> GenerationConfig:
        """The settings as they are now."""
        return self.sampler.config

    @property
    def text(self) -> Mapping[int, int]:
        """All written tokens, by their place."""
        return self._blocks.text

    def goes_on(self) -> bool:
        """True if there is another pass: the text has not ended, and the run is not cancelled.

        The changes that come before that pass are made.
        """
        if self._end is None and self.run.is_cancelled:
            self._end = "cancelled"
        if self._end is None:
            self._change()
        return self._end is None

    def _change(self) -> None:
        block, step = self._blocks.next_step
        given = self._changes.make(block, step, self.sampler)
        if given is None:
            return
        self._check_tokens()
        for place, token in given.items():
            position = place - block * self.size
            if place >= self.limit:
                raise SafelightError(f"position {position} is behind the last token of this run; choose one before")
            if place < self._full and self.text[place] != token:
                raise SafelightError(f"position {position} was written and read before this step; fork it earlier")
        if not given:
            return
        self._blocks.put(given, self._changes.pinned)
        self.sampler.see_anew([*self.prompt.tolist(), *self.text.values()])
        if min(given) < self.length:  # the text may end there
            most, self.length, self.budget = self.length, 0, ThoughtBudget.from_run(self.run)
            self._settle({}, most)

    def tokens(self, places: Sequence[int]) -> list[int]:
        """Returns the tokens at places, a mask where none is written; places below 0 count from the prompt's end."""
        return [int(self.prompt[place]) if place < 0 else self.text.get(place, self.mask) for place in places]

    def begin(self, unread: int, blocks: Blocks = CAUSAL) -> Decoding[None]:
        """Reads the prompt without its last ``unread`` tokens, in blocks."""
        room = self.limit + blocks.size - 1
        if not (yield from read_prompt(self.run, room, unread, blocks=blocks)):
            self._end = "cancelled"
            return
        self._change()
        yield from self._blocks.begin()

    def write_next(self, ids: Sequence[int]) -> Decoding[None]:
        """Reads the text's last tokens causally, into the cache, and writes the next token, or a thought's end."""
        clock = time.perf_counter()
        logits = yield from self.read(ids, len(ids), len(ids) - 1)
        (token,) = drawn = self.budget.ending(self.sampler.draw(logits))
        predicted = self.predicted([self.length], logits, drawn)
        yield from self.write({self.length: int(token)}, predicted, time.perf_counter() - clock)

    def fill(
        self,
        places: range,
        steps: int,
        choose: Choose,
        look: Look | None = None,
        edit: Edit | None = None,
        part: range | None = None,
    ) -> Decoding[None]:
        """Writes a block's masks, and the end of a thought where its budget ends.

        Under a format each pass writes the first mask, and what the format forces behind it, in whichever block.

        Args:
            steps: the most passes over masks; the last one writes all.
            look: reads the block; None: behind the cache's text, in one pass in which each place predicts itself.
            edit: replaces written tokens. The text then ends only when the block does.
            part: of the block, to be written alone.
        """
        part, look = part or places, look or self._look
        if self.run.answer is not None:
            yield from self._fill_fitting(places, part, look)
            return
        if not self.budget.is_due:
            yield from self._fill(places, range(part.start, self.budget.cut(part)), steps, choose, look, edit)
        first = part.start
        if self.budget.is_due and self.length in part:
            self._blocks.text[self.length] = self.budget.end  # is part of the next pass's event
            self.sampler.see((self.budget.end,))
            first = self.length + 1
        yield from self._fill(places, range(first, part.stop), steps, choose, look, edit)
        if part.stop == places.stop:
            self._full = places.stop

    def _fill(
        self, places: range, part: range, steps: int, choose: Choose, look: Look, edit: Edit | None
    ) -> Decoding[None]:
        """Writes the masks in a part of a block, pass by pass; ends early where the text ends."""
        own, step, late = range(max(self.length, part.start), part.stop), 0, 0
        while self.goes_on():
            masked = [place for place in own if place not in self.text]
            late += not masked and step > 0  # passes behind the last mask
            if not masked and (edit is None or not step or late > EDIT_PASSES):
                break
            clock = time.perf_counter()
            shown = masked if edit is None else own
            logits = yield from look(places, shown)
            rows = {place: row for row, place in enumerate(shown)}
            held = [place for place in shown if place in self.text and place not in self._changes.pinned]
            written, predicted = self._written(
                masked, _taken(logits, [rows[place] for place in masked]), step, steps, choose
            )
            edited = self._edited(held, logits[[rows[place] for place in held]], edit) if edit and held else {}
            del logits  # the next pass has others, of the same size
            written |= {place: prediction.candidate for place, prediction in edited.items()}
            seconds = time.perf_counter() - clock
            yield from self.write(written, predicted | edited, seconds, ends=edit is None)
            step += 1
            if not masked and not edited:
                break
        if edit is not None:
            self._settle({})
        elif self._changes.has_written:  # perhaps the last masks
            self._settle({})
            yield from self._blocks.settle(self.length)

    def _fill_fitting(self, places: range, part: range, look: Look) -> Decoding[None]:
        while self.length < part.stop and self.goes_on():
            clock = time.perf_counter()
            logits = yield from look(places, [self.length])
            yield from self.write_fitting(logits, clock)

    def write_fitting(self, logits: Tensor, clock: float) -> Iterator[Event]:
        """Writes what fits the answer's format: the next token, by its logits (1, V), and those that are forced.

        Args:
            clock: when the pass began, in seconds.
        """
        answer = self.run.answer
        assert answer is not None, "the run has no format"
        logits[:, self.mask] = -torch.inf
        tokens = self.sampler.fitting(answer, logits, self.limit - self.length, self.budget)
        written, drawn = dict(enumerate(tokens.tolist(), self.length)), tokens[:1]
        predicted = self.predicted([*written][:1], logits[: len(drawn)], drawn)
        yield from self.write(written, predicted, time.perf_counter() - clock)
        if answer.must_end or answer.failure:
            self._end = "length" if answer.failure else "eos"

    def _look(self, places: range, shown: Sequence[int]) -> Passes[Tensor]:
        logits = yield from self.read(self.tokens(places), 0, shown[0] - places[0], is_causal=False)
        return logits[[place - shown[0] for place in shown]]

    def _written(
        self, masked: list[int], logits: Tensor, step: int, steps: int, choose: Choose
    ) -> tuple[dict[int, int], dict[int, Predicted]]:
        """Returns what a pass writes in place of masks, and its predictions, by place, from their logits (M, V)."""
        if not masked:
            return {}, {}
        is_last = step == steps - 1
        if is_last:
            logits[:, self.mask] = -torch.inf
        drawn, chosen = choose(logits, step)
        tokens = drawn.tolist()
        written = {masked[row]: tokens[row] for row in (range(len(masked)) if is_last else chosen)}
        return written, self.predicted(masked, logits, drawn)

    def _edited(self, places: list[int], logits: Tensor, edit: Edit) -> dict[int, Predicted]:
        """Returns the predictions that replace written tokens, by place, from their logits (W, V)."""
        held = torch.tensor(self.tokens(places), device=logits.device)
        edited = edit(logits, held)
        rows = ((edited != held) & (edited != self.mask)).nonzero()[:, 0]
        return self.predicted([places[row] for row in rows.tolist()], logits[rows], edited[rows])

    def read(
        self,
        ids: Sequence[int],
        commit: int,
        first_logits: int = 0,
        is_causal: bool = True,
        draft: DraftAdapter | None = None,
    ) -> Passes[Tensor]:
        """Reads ids (T,) behind the cache's text in one pass; the first ``commit`` of them are appended to it.

        Returns:
            Logits (T - first_logits, V), those of forbidden tokens at minus infinity.
        """
        wanted = Decode(torch.tensor(ids), self.cache, commit, first_logits, None, is_causal, draft)
        yield wanted
        self.cache.record_ids(ids[:commit])
        return self.sampler.allowed(wanted.take(), ids[first_logits:] if is_causal else ())

    def predicted(self, places: Sequence[int], logits: Tensor, drawn: Tensor) -> dict[int, Predicted]:
        """Returns predictions by place, from logits (R, V) and drawn tokens (R,) at R places."""
        return dict(zip(places, self.sampler.predicted(logits, drawn), strict=True))

    def write(
        self, written: Mapping[int, int], predicted: Mapping[int, Predicted], seconds: float, *, ends: bool = True
    ) -> Iterator[Event]:
        """Adds the tokens and predictions of one pass, by place, and yields its events.

        Args:
            ends: False if the tokens may still change, so that the text does not grow or end by them.
        """
        if not self.in_order:
            written = {place: token for place, token in written.items() if token != self.mask}
        self.sampler.see(list(written.values()))
        if ends:
            written = {place: token for place, token in written.items() if place not in self.text}
            self._settle(written)
        temperature = self.config.sampling_temperature
        yield from self._blocks.step(written, predicted, seconds, temperature, settled=self.length)

    def _settle(self, written: Mapping[int, int], most: int | None = None) -> None:
        """Makes tokens that follow the text without a gap part of it, ``written`` ones among them, up to its end.

        Args:
            most: tokens of the text at which that ends.
        """
        while self._end is None and self.length != most:
            token = written.get(self.length, self.text.get(self.length))
            if token is None:
                break
            if token in self.config.eos_token_ids:
                self._end = "eos"
            else:
                self.length += 1
                self.budget.add(token)
                self._end = "length" if self.length == self.limit else None

    def finish(self) -> Iterator[Event]:
        """Ends the run; the cache then holds only committed text.

        Raises:
            SafelightError: the run did not reach the step of a change.
        """
        if self._end != "cancelled":
            self._changes.close()
        why = "" if self.run.answer is None else self.run.answer.failure
        for event in self._blocks.finish(self._end or "cancelled", self.length, why):
            if isinstance(event, GenerationFinished):
                self.cache.truncate(min(self.cache.length, len(self.prompt) + len(event.tokens)))
            yield event


def _taken(logits: Tensor, rows: Sequence[int]) -> Tensor:
    """Returns some rows, in order, of logits (R, V); all of them are not copied."""
    return logits if len(rows) == len(logits) else logits[rows]


def sure(likely: Tensor, probability: float) -> Tensor:
    """True for the tokens (M,) that are likely enough, and for the likeliest: (M,)."""
    is_sure = likely >= probability
    is_sure[likely.argmax()] = True
    return is_sure


DREAM_END = 1e-3  # the time of Dream's last step; the first one begins at 1


def counts(masks: int, steps: int, schedule: str) -> list[int]:
    """Returns the number of masks that each pass writes, ``masks`` in all. Passes that write none are left out.

    Args:
        masks, steps: of the block; the last step writes what is left.
        schedule: "even" (LLaDA, SDAR), "floor" (Dream), "round" (dllm's MDLM and BD3-LM), or "ceil" (RND1), whose steps
            leave equal shares of all masks, rounded down.
    """
    by_pass, left, shares = list[int](), masks, _shares(steps, schedule)
    for step in range(steps):
        behind = steps - 1 - step  # steps
        if schedule == "even":
            count = -(-left // (behind + 1))
        elif schedule == "ceil":
            count = left - int(torch.tensor(masks) * (behind / steps))
        elif schedule == "floor":
            count = int(left * shares[step])
        else:
            count = round(left * shares[step].double().item())
        count = min(left, max(0, count)) if behind else left
        left -= count
        by_pass += [count] if count else []
    return by_pass


def dream_times(steps: int) -> Tensor:
    """Returns the times (steps + 1,) between Dream's steps, falling from 1."""
    return torch.linspace(1, DREAM_END, steps + 1)


def _shares(steps: int, schedule: str) -> Tensor:
    """Returns the share of the masks left that each step writes (steps,)."""
    if schedule == "floor":
        times = dream_times(steps)
    else:  # dllm's: the share of text that is written grows linearly, and is taken from 1
        times = 1 - (1 - torch.tensor([left / steps for left in range(steps, -1, -1)]))
    return 1 - times[1:] / times[:-1]
