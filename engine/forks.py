"""Forks: where a run departs from another, and what is changed there. Plain data without tensors or models.

A run is defined by its beginning (model, prompt, settings, seed) and the changes made to it, in order; nothing else is
needed to repeat it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.config import LARGEST_SEED, GenerationConfig
from engine.decoders import DenoisingSettings
from engine.errors import SafelightError

SETTINGS = (
    *(field.name for field in dataclasses.fields(DenoisingSettings) if type(field.default) in (int, float)),
    "max_new_tokens",
    "accept_probability",
)  # that a fork may change in block diffusion
MASK_SETTINGS = ("sampling_temperature", "accept_probability", "entropy_bound")  # and in a run over masks
_GONE = {"margin", "stall_fall"}  # settings of earlier versions
Cells = tuple[tuple[int, int], ...]  # (position, token id)


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

    block: int
    step: int
    pinned: Cells = ()
    edits: Cells = ()
    banned: tuple[int, ...] = ()
    seed: int | None = None
    settings: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        cells = (*self.pinned, *self.edits)
        for value in (self.block, self.step, *self.banned, *(number for cell in cells for number in cell)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise SafelightError(f"a fork's places and tokens must be whole numbers from 0, not {value!r}")
        if len(dict(cells)) < len(cells):
            raise SafelightError("a fork names a position twice; pin it or edit it, once")
        if self.seed is not None:
            if isinstance(self.seed, bool) or not isinstance(self.seed, int):
                raise SafelightError(f"a fork's seed must be a whole number, not {self.seed!r}")
            check_seed(self.seed)
        for name, _ in self.settings:
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
        held = dict(before.pinned) if same_block else {}
        for position, _ in self.edits:
            held.pop(position, None)
        held |= dict(self.pinned)
        banned = {*before.banned_tokens, *self.banned}
        for position, token in held.items():
            is_new = (position, token) in self.pinned and token not in before.eos_token_ids  # these end a text of holes
            if token in banned and (token in self.banned or is_new):
                raise SafelightError(f"position {position} is pinned to token {token}, which is banned; release one")
        return before.replace(
            pinned=tuple(sorted(held.items())),
            banned_tokens=tuple(sorted(banned)),
            **{name: _number(name, value) for name, value in self.settings},
        )

    @staticmethod
    def from_dict(raw: Mapping[str, Any]) -> Fork:
        """Reads a fork that ``dataclasses.asdict`` turned into JSON.

        Raises:
            SafelightError: it is not one.
        """
        try:
            return Fork(
                raw["block"],
                raw["step"],
                tuple((position, token) for position, token in raw.get("pinned", ())),
                tuple((position, token) for position, token in raw.get("edits", ())),
                tuple(raw.get("banned", ())),
                raw.get("seed"),
                tuple((name, value) for name, value in raw.get("settings", ()) if name not in _GONE),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SafelightError(f"this is not a fork: {error}") from error


@dataclass(frozen=True)
class Mark:
    """A span of a settled block that is to be rewritten: positions ``start`` (inclusive) to ``stop`` (exclusive).

    Raises:
        SafelightError: an empty span, or a value of the wrong sort.
    """

    block: int
    start: int
    stop: int

    def __post_init__(self) -> None:
        for value in (self.block, self.start, self.stop):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise SafelightError(f"a marked span's block and positions must be whole numbers, not {value!r}")
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
