"""Forks: where a run departs from another, and what is changed there. Plain data without tensors or models.

A run is defined by its beginning (model, prompt, settings, seed) and the changes made to it, in order; nothing else is
needed to repeat it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from engine.config import LARGEST_SEED, MAX_CANVAS, MAX_POSITIONS, MAX_VOCABULARY, GenerationConfig, Tokens
from engine.declared import Form, check_fields, check_whole, plain, read, real, whole
from engine.decoders import DenoisingSettings
from engine.errors import SafelightError

SETTINGS = (
    *(field.name for field in dataclasses.fields(DenoisingSettings) if type(field.default) in (int, float)),
    "max_new_tokens",
    "accept_probability",
)  # that a fork may change in block diffusion
MASK_SETTINGS = ("sampling_temperature", "accept_probability", "entropy_bound")  # and in a run over masks
_GONE = {"margin", "stall_fall"}  # settings of earlier versions
_check_amount = real(0.0, 2**31 - 1)  # a spin box may show it
Place = Annotated[int, whole(0, MAX_POSITIONS)]
Cells = tuple[tuple[int, int], ...]  # (position, token id)


def _read_settings(raw: Any) -> tuple[tuple[str, float], ...]:
    pairs: tuple[tuple[str, float], ...] = read(tuple[tuple[str, float], ...], raw, "a fork's settings")
    return tuple(pair for pair in pairs if pair[0] not in _GONE)


@dataclass(frozen=True)
class Fork:
    """The changes to a run, and the step from which they apply.

    A change at step 0 is made before the block's noise is drawn. A change at a later step is made before that step
    reads its canvas. A step after a block's last one makes the block continue where it would have ended, unless nothing
    is changed. All changes last: pins until the block is committed, everything else until the run ends.
    Over masks a block has no step after its last one, and a banned token that is written stays.

    Args:
        block: of the run, 0 upward; the block after its last one is allowed.
        step: the first step that is taken with the changes, 0 to the number of steps that the block took.
        pinned: (position, token id) pairs of the block that are held from that step on.
        edits: pairs that are written on the canvas before that step and are free afterwards. An edited position that
            was pinned before is released.
        banned: token ids that never appear from that step on, in no block. One that is on the canvas is replaced.
        seed: another random stream from that step on.
        settings: (name, value) pairs, of those named in ``SETTINGS``, or over masks in ``MASK_SETTINGS``.

    Raises:
        SafelightError: a value of the wrong sort, a position named twice, an unknown setting.
    """

    block: Place
    step: Place
    pinned: Cells = ()
    edits: Cells = ()
    banned: Tokens = ()
    seed: Annotated[int | None, whole(0, LARGEST_SEED)] = None
    settings: Annotated[tuple[tuple[str, float], ...], Form(_read_settings, plain)] = ()

    def __post_init__(self) -> None:
        cells = (*self.pinned, *self.edits)
        check_fields(self, "a fork's ")
        for position, token in cells:
            check_whole("a fork's position", position, 0, MAX_CANVAS - 1)
            check_whole("a fork's token", token, 0, MAX_VOCABULARY)
        if len(dict(cells)) < len(cells):
            raise SafelightError("a fork names a position twice; pin it or edit it, once")
        for name, value in self.settings:
            _check_amount(name, value)
            if name not in (known := dict.fromkeys((*SETTINGS, *MASK_SETTINGS))):
                raise SafelightError(f"a fork cannot change {name!r}, only {', '.join(known)}")
        if len(dict(self.settings)) < len(self.settings):
            raise SafelightError("a fork changes a setting twice; name it once")

    @property
    def place(self) -> tuple[int, int]:
        return self.block, self.step

    @property
    def is_empty(self) -> bool:
        """True if nothing is changed."""
        return not (self.pinned or self.edits or self.banned or self.settings) and self.seed is None

    def config(self, before: GenerationConfig, *, same_block: bool) -> GenerationConfig:
        """Returns the settings after the change.

        Args:
            before: the settings so far; their ``pinned`` are those of the block in which they were made.
            same_block: True if that is the block of this change; else those pins have ended.

        Raises:
            SafelightError: settings that do not go together.
        """
        pinned = dict(before.pinned) if same_block else {}
        for position, _ in self.edits:
            pinned.pop(position, None)
        pinned |= dict(self.pinned)
        banned = {*before.banned_tokens, *self.banned}
        for position, token in pinned.items():
            is_new = (position, token) in self.pinned and token not in before.eos_token_ids  # these end a text of holes
            if token in banned and (token in self.banned or is_new):
                raise SafelightError(f"position {position} is pinned to token {token}, which is banned; release one")
        return before.replace(
            pinned=tuple(sorted(pinned.items())),
            banned_tokens=tuple(sorted(banned)),
            **{name: _number(name, value) for name, value in self.settings},
        )


@dataclass(frozen=True)
class Mark:
    """A span of a settled block that is to be rewritten: positions ``start`` (inclusive) to ``stop`` (exclusive).

    Raises:
        SafelightError: an empty span, or a value of the wrong sort.
    """

    block: Place
    start: Place
    stop: Place

    def __post_init__(self) -> None:
        check_fields(self, "a marked span's ")
        if self.start >= self.stop:
            raise SafelightError("the marked span is empty; mark at least one position")


def chain(changes: Sequence[Fork], change: Fork) -> tuple[Fork, ...]:
    """Returns the changes of a forked run: those made up to the place of ``change``, then ``change``.

    Changes after that place are left out, as the run no longer reaches them.
    """
    return (*(earlier for earlier in changes if earlier.place <= change.place), change)


def check_changes(changes: Sequence[Fork], *, over_masks: bool) -> None:
    """Checks that changes are such that a run can be changed by, one of block diffusion or one over masks.

    Raises:
        SafelightError: one is not.
    """
    known = MASK_SETTINGS if over_masks else SETTINGS
    for change in changes:
        for name, _ in change.settings:
            if name not in known:
                raise SafelightError(f"a fork of this run cannot change {name}, only {', '.join(known)}")


def check_seed(seed: int) -> None:
    """Checks that a seed is in range.

    Raises:
        SafelightError: it is not.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise SafelightError(f"the seed must be between 0 and {LARGEST_SEED}, not {seed}")


def _number(name: str, value: float) -> float:
    """Returns a value in the type that the settings take: JSON and spin boxes do not distinguish 12 from 12.0."""
    is_whole = type(getattr(GenerationConfig, name, None)) is int
    return int(value) if is_whole and isinstance(value, float) and value.is_integer() else value
