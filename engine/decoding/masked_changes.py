"""Makes the changes of a run over masks, each before its pass.

Such a run can be repeated exactly. So a fork repeats all of it, and changes it before the passes that the changes name.
What is written stays, even if it is banned; a token that a change writes counts as if the model had written it.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.decoding.drawing import Drawing
from engine.decoding.fork_schedule import WaitingChanges
from engine.decoding.sampler import check_cells
from engine.errors import SafelightError
from engine.forks import Fork


class MaskedChanges:
    """The changes that are still to be made, and the tokens that are pinned.

    Args:
        size: positions of a block.
        mask: the token that may not be written.
    """

    def __init__(self, changes: Sequence[Fork], size: int, mask: int) -> None:
        self.pinned: dict[int, int] = {}  # place in the text -> token, of all blocks so far
        self._waiting, self._size, self._mask = WaitingChanges(changes), size, mask
        self._block = 0  # of the pins in the settings
        self.has_written = False
        self.close = self._waiting.close

    def make(self, block: int, step: int, drawing: Drawing) -> dict[int, int] | None:
        """Makes the changes before a pass; returns the tokens that they write, by their place; None: no change.

        Raises:
            SafelightError: a change that cannot be made, or whose step the run did not have.
        """
        given, due = dict[int, int](), self._waiting.take(block, step)
        for change in due:
            drawing.change(change.config(drawing.config, same_block=block == self._block))
            self._block = block
            if change.seed is not None:
                drawing.generator.manual_seed(change.seed)
            self._check(change, drawing)
            for position, token in change.edits:
                given[block * self._size + position] = token
                self.pinned.pop(block * self._size + position, None)
            self.pinned |= {block * self._size + position: token for position, token in change.pinned}
            given |= {block * self._size + position: token for position, token in change.pinned}
        self.has_written |= bool(given)
        return given if due else None

    def _check(self, change: Fork, drawing: Drawing) -> None:
        check_cells("pinned", change.pinned, self._size, drawing.vocab_size)
        check_cells("edited", change.edits, self._size, drawing.vocab_size)
        for position, token in (*change.edits, *change.pinned):
            if token == self._mask:
                raise SafelightError(f"position {position} is to be given the mask; choose another token")
        for position, token in change.edits:
            if token in drawing.config.banned_tokens:
                raise SafelightError(f"position {position} is edited to token {token}, which is banned; release one")
