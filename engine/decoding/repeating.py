"""Ends a run whose text has begun to repeat itself, whatever its decoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import closing

import numpy as np

from engine.decoders import able
from engine.decoding.protocols import Decoding
from engine.decoding.run import Decoder, Run
from engine.events import CanvasCommitted, CanvasStarted, Event, GenerationFinished, StepFinished
from engine.models.model import Model
from engine.text.repeating import REPEATED, repeats
from engine.types import Cancel

TAIL = 2_000  # tokens of the text that are looked at


class _Flag:
    """A flag that is set with another one, or by ``set``."""

    def __init__(self, cancel: Cancel | None) -> None:
        self._cancel, self.is_own = cancel, False

    @property
    def is_others(self) -> bool:
        return self._cancel is not None and self._cancel.is_set()

    def is_set(self) -> bool:
        return self.is_own or self.is_others


def without_repeats(run: Run, decoder: Decoder, name: str, known: Sequence[int] = ()) -> Decoding[None]:
    """Runs a decoder until its text repeats itself; the run then ends with "length", and says why.

    What is held to a format is left alone, since the format may ask for repetition.

    Args:
        name: the decoder's.
        known: tokens of the text that have no events.
    """
    answer = run.answer
    if not isinstance(run.model, Model):
        yield from decoder(run)
        return
    ends_within = able(name, "in order")
    flag, decode = _Flag(run.cancel), run.model.tokenizer.decode
    text, seen, begun = list(known), 0, list[Event]()
    with closing(decoder(dataclasses.replace(run, cancel=flag))) as items:
        for item in items:
            is_free = answer is None or answer.is_free
            match item:
                case CanvasStarted():
                    seen = 0
                    if flag.is_own:  # a block of which nothing may follow
                        begun = [item]
                        continue
                case StepFinished() if ends_within:
                    written = item.next_canvas[np.logical_and.accumulate(item.accepted_mask)].tolist()
                    new, seen = written[seen:], len(written)
                    flag.is_own |= is_free and "\n" in decode(new) and repeats(decode([*text, *written][-TAIL:]))
                case CanvasCommitted():
                    text += item.tokens[: item.text_length].tolist()
                    flag.is_own |= is_free and repeats(decode(text[-TAIL:]))
                case GenerationFinished():
                    begun = []
                    if item.reason == "cancelled" and flag.is_own and not flag.is_others:
                        yield dataclasses.replace(item, reason="length", why=REPEATED)
                        return
            yield from begun
            begun = []
            yield item
