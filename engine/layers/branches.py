"""Rows of a pass that guess from several places of a text at once: masks behind its rows. Knows no network."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Branches:
    """The order of a pass: ``text_rows`` rows of text, then for each row in ``behind`` a branch of ``size`` masks.

    A row of text sees the text up to itself. A mask sees the text up to its row in ``behind``, and the masks of its
    branch up to itself; it stands where the text would go on.
    """

    text_rows: int
    behind: tuple[int, ...]
    size: int

    @property
    def rows(self) -> int:
        return self.text_rows + len(self.behind) * self.size

    def positions(self, start: int, device: torch.device) -> Tensor:
        """Returns each row's place in the text (T,), of which ``start`` tokens came before the pass."""
        text = torch.arange(self.text_rows, device=device)
        ahead = torch.arange(1, self.size + 1, device=device)
        return start + torch.cat((text, (self._rows(device)[:, None] + ahead).flatten()))

    def mask(self, start: int, device: torch.device) -> Tensor:
        """Returns which keys a row sees, bools (T, start + T)."""
        text = torch.arange(self.text_rows, device=device)
        last = torch.cat((text, self._rows(device).repeat_interleave(self.size)))  # row of text that each one sees
        own = torch.arange(self.rows, device=device) - self.text_rows
        branch = own.div(max(1, self.size), rounding_mode="floor").where(own >= 0, -1 - own)  # each text row alone
        sees = text <= last[:, None]
        masks = own[self.text_rows :]
        among = (branch[:, None] == branch[self.text_rows :]) & (masks <= own[:, None])
        before = sees.new_ones(self.rows, start)
        return torch.cat((before, sees, among), dim=1)

    def _rows(self, device: torch.device) -> Tensor:
        return torch.tensor(self.behind, dtype=torch.long, device=device)
