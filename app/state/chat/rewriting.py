"""Answers that are written around given text: a prompt with gaps, a part of an answer written again, a revision.

Knows neither Qt nor tokens.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Literal

from app.system.i18n import tr
from engine import SafelightError
from engine.config import GenerationConfig
from engine.decoders import BLOCK_DIFFUSION
from engine.service import LoadedModel
from engine.text.message import Message
from engine.text.outline import INSTRUCTION, REQUEST_END, Hole, Outline, parse

MAX_PAIRS = 4_000_000  # of words, compared within about a second; longer texts are compared line by line
_WORD = re.compile(r"\s+|\w+|[^\w\s]")


Kind = Literal["rewrite", "shorten", "fill", "continue"]
LONGER, SHORTER = 125, 50  # percent of the tokens that a part has, for what is written in its place
LEAST_NOISE, USUAL_NOISE, MAX_NOISE = 0.1, 0.3, 0.8  # share of a text that is revised
MAX_REVISED = 20_000  # characters; the difference of two texts takes quadratic time
IMPROVE = "Improve this text:"


@dataclass(frozen=True)
class Stretch:
    """A part of two texts: the same in both, or changed from ``old`` to ``new``."""

    old: str
    new: str

    @property
    def is_change(self) -> bool:
        return self.old != self.new


def differences(old: str, new: str) -> tuple[Stretch, ...]:
    """Returns two texts as stretches, in order; changes with nothing but a space between them are one."""
    before, behind = _WORD.findall(old), _WORD.findall(new)
    if len(before) * len(behind) > MAX_PAIRS:
        before, behind = old.splitlines(keepends=True), new.splitlines(keepends=True)
    stretches: list[Stretch] = []
    for _, first, last, start, stop in SequenceMatcher(None, before, behind, autojunk=False).get_opcodes():
        here = Stretch("".join(before[first:last]), "".join(behind[start:stop]))
        if here.is_change and len(stretches) > 1 and stretches[-2].is_change and stretches[-1].old.isspace():
            space, change = stretches.pop(), stretches.pop()
            here = Stretch(change.old + space.old + here.old, change.new + space.new + here.new)
        stretches.append(here)
    return tuple(stretches)


def places_of_changes(stretches: Sequence[Stretch]) -> list[int]:
    """Returns the indices of the stretches that are changes."""
    return [place for place, stretch in enumerate(stretches) if stretch.is_change]


def merged(stretches: Sequence[Stretch], accepted: Collection[int]) -> str:
    """Returns the text with the changes whose indices are ``accepted``, and without the others."""
    return "".join(one.new if place in accepted else one.old for place, one in enumerate(stretches))


@dataclass(frozen=True)
class Rewriting:
    """The manner in which an answer is written.

    Args:
        outline: the answer with gaps; with ``noise`` the text to revise.
        said: a person's words on it, or nothing.
        before: the answer that is changed; empty if the prompt has the gaps itself.
    """

    outline: Outline
    said: str = ""
    before: str = ""
    noise: float = 0.0

    def wording(self, prompt: str) -> str:
        """Returns what the model is asked in place of the prompt's text."""
        if not self.before:
            return self.said or INSTRUCTION
        is_begun = self.noise > 0 or self.outline[-1] == Hole()  # the answer to the prompt, begun or revised
        return f"{prompt}\n\n{self.said}" if is_begun and self.said else prompt

    def further(self) -> tuple[Message, ...]:
        """Returns the messages behind the prompt: the answer, and what is to be done with it."""
        if not self.before or self.noise or self.outline[-1] == Hole():
            return ()
        wish = {"role": "user", "content": self.said or INSTRUCTION}
        return ({"role": "assistant", "content": self.before}, wish)


def can_fill(model: LoadedModel, config: GenerationConfig | None = None) -> bool:
    """Returns True if a model fills in gaps and revises, with its own settings or with these."""
    decoders = model.decoders
    is_own = config is None and decoders[:1] == (BLOCK_DIFFUSION,)
    return BLOCK_DIFFUSION in decoders and (is_own or (config is not None and config.is_block_diffusion))


def of_prompt(prompt: str) -> Rewriting | None:
    """Returns how a prompt with gaps is answered; None if it has none.

    Raises:
        SafelightError: it has too many, or one is too long.
    """
    said, outline = parse(prompt)
    return Rewriting(outline, said) if outline else None


def of_selection(kind: Kind, text: str, start: int, stop: int, said: str = "") -> Rewriting:
    """Returns how an answer is written again from ``start`` to ``stop``, or, to continue, from ``stop`` on."""
    if kind == "continue":
        return Rewriting((text[:stop], Hole()), said, text)
    part = text[start:stop]
    size = SHORTER if kind == "shorten" else LONGER
    hole = Hole() if kind == "fill" and len(part) < 12 else Hole(size, "percent", part)
    return Rewriting(tuple(part for part in (text[:start], hole, text[stop:]) if part), said, text)


def revision(text: str, noise: float, said: str = "") -> Rewriting:
    """Returns how an answer is revised from a share of noise.

    Raises:
        SafelightError: there is no text, or too much.
    """
    if not text.strip():
        raise SafelightError(tr("There is no text to revise."))
    if len(text) > MAX_REVISED:
        most = f"{MAX_REVISED:,}"
        raise SafelightError(tr("The text has more than {most} characters; revise a part of it.", most=most))
    return Rewriting((text,), said, text, noise)


def of_draft(text: str) -> Rewriting:
    """Returns how a text that a person wrote is revised; what stands above a line of three dashes is its prompt.

    Raises:
        SafelightError: as ``revision``.
    """
    said, line, draft = text.partition(REQUEST_END)
    draft = (draft if line else text).strip()
    return replace(revision(draft, USUAL_NOISE), said=said.strip() if line else f"{IMPROVE}\n\n{draft}", before="")


def source_span(source: str, before: str, selected: str) -> tuple[int, int] | None:
    """Returns the place of a selected text in its Markdown source; None if it is not found.

    Letters and digits are counted, as markup has hardly any.

    Args:
        before: the shown text before the selection.
    """
    letters = [place for place, letter in enumerate(source) if letter.isalnum()]
    first = sum(map(str.isalnum, before))
    count = sum(map(str.isalnum, selected))
    if count and first + count <= len(letters):
        start, stop = letters[first], letters[first + count - 1] + 1
        if [one for one in source[start:stop] if one.isalnum()] == [one for one in selected if one.isalnum()]:
            return start, stop + _behind(source[stop:], selected)
    place = source.find(selected) if selected.strip() else -1
    return (place, place + len(selected)) if place >= 0 and source.count(selected) == 1 else None


def _behind(rest: str, selected: str) -> int:
    """Returns how many of the signs at the end of a selection follow in the source."""
    text = selected.rstrip()
    last = max((place for place, letter in enumerate(text) if letter.isalnum()), default=-1)
    return len(text) - last - 1 if rest.startswith(text[last + 1 :]) else 0
