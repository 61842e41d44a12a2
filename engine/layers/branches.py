"""Rows of a pass that guess from several places of a text at once: masks behind its rows. Knows no network."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.layers.attention import attend


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

    def reach(self, start: int, device: torch.device) -> BranchReach:
        """Returns what stands in place of a mask in the layers of a pass."""
        return BranchReach(start, self.text_rows, self.mask(start, device))

    def _rows(self, device: torch.device) -> Tensor:
        return torch.tensor(self.behind, dtype=torch.long, device=device)


@dataclass(frozen=True)
class BranchReach:
    """Used in place of a mask (T, S), behind ``start`` earlier keys: rows of text attend one by one.

    So a row's sums have the order that they have in a pass of that row alone, and come out equal to the last bit: a
    difference of one bit would be rounded to one in 256 in the next product of bf16.
    """

    start: int
    text_rows: int
    mask: Tensor

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attends with queries (B, heads, T, D), keys and values (B, kv_heads, S, D) -> (B, T, heads * D)."""
        parts = list[Tensor]()
        for row in range(self.text_rows):
            seen = slice(0, self.start + row + 1)
            parts.append(attend(queries[:, :, row : row + 1], keys[:, :, seen], values[:, :, seen], None))
        if self.text_rows < queries.shape[2]:
            parts.append(attend(queries[:, :, self.text_rows :], keys, values, self.mask[self.text_rows :]))
        return torch.cat(parts, dim=2).transpose(1, 2).flatten(2)
