"""Finds the cells of a canvas that end a row, so that a canvas shows the lines of its text. Knows no tokenizer.

A replay knows the final text of a block. All frames, the first noise included, are laid out on the lines of that text,
so no cell moves. During a run the final text is not known: rows of noise fill the width. A position ends its row once a
line break is accepted there, and still does after it is taken back, until another token is accepted there. So the
layout changes only when a line is certain, and not with every guess.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from app.state.run.canvas import NEVER, BlockState


def line_ends(block: BlockState, piece: Callable[[int], str]) -> tuple[int, ...]:
    """Returns the positions after which a row ends, in order; ``piece`` returns the text of a token."""
    tokens = block.kept if block.outcome is None else block.outcome
    breaks = [token for token in np.unique(tokens).tolist() if token != NEVER and "\n" in piece(token)]
    return tuple(np.flatnonzero(np.isin(tokens, breaks)).tolist()) if breaks else ()
