"""The window of causal parallel decoding, and the rule that decides which masks are written. Knows no tensors."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class EntropyRule:
    """Chooses the masks that a pass writes: all whose entropy, with a penalty for distance, is below a threshold.

    Args:
        threshold: nats.
        distance_penalty: nats for each place between a mask and the first one.
    """

    threshold: float
    distance_penalty: float

    def chosen(self, entropies: Sequence[float], places: Sequence[int]) -> list[int]:
        """Returns the indices of the masks to write, at least one: the lowest if none is below.

        Args:
            entropies: nats, one for each mask, of the distribution at temperature 1.
            places: of these masks, rising.
        """
        penalised = [
            nats + self.distance_penalty * (place - places[0]) for nats, place in zip(entropies, places, strict=True)
        ]
        below = [index for index, nats in enumerate(penalised) if nats < self.threshold]
        return below or [min(range(len(penalised)), key=penalised.__getitem__)]


@dataclass
class StreamingWindow:
    """The places behind the committed text, each with its token, or None for a mask."""

    slots: list[int | None]
    room: int  # further places that the model has positions for
    text: list[int] = field(default_factory=list)  # generated and committed

    @staticmethod
    def from_width(width: int, room: int) -> StreamingWindow:
        """Returns a window of masks, of at most ``room``."""
        return StreamingWindow([None] * min(width, room), room - min(width, room))

    @property
    def leading(self) -> list[int]:
        """The tokens that follow the text without a gap; the next pass commits them."""
        return [token for token in itertools.takewhile(lambda slot: slot is not None, self.slots) if token is not None]

    def refill(self) -> None:
        """Appends as many masks as the next pass commits tokens, as far as there is room."""
        count = min(len(self.leading), self.room)
        self.slots, self.room = self.slots + [None] * count, self.room - count

    def order(self) -> tuple[list[int], list[int]]:
        """Returns written slots and masks, rising, in the order in which a pass reads them."""
        written = [index for index, slot in enumerate(self.slots) if slot is not None]
        return written, [index for index, slot in enumerate(self.slots) if slot is None]

    def commit(self, count: int) -> None:
        """Makes the first slots text."""
        self.text += self.leading[:count]
        self.slots = self.slots[count:]

    def write(self, tokens: Mapping[int, int]) -> None:
        """Writes tokens into masks, by their place in the generated text."""
        for place, token in tokens.items():
            self.slots[place - len(self.text)] = token
