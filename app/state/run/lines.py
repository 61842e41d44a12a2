"""Which cells of a canvas end a row, so that a text stands on its own lines. Knows no tokenizer.

A replay knows what its block comes to, so all of its frames, the first noise too, are laid on the lines of that text
and no cell ever moves. A run under way does not: while there is noise its rows are as long as they fit. A position at
which a line break has been accepted ends its row, and goes on doing so while it is doubted; only another token accepted
there takes the break away. So rows are laid as lines become certain, not step by step as guesses come and go.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from app.state.run.canvas import NEVER, BlockState


def line_ends(block: BlockState, piece: Callable[[int], str]) -> tuple[int, ...]:
    """Positions after which a row ends, in order; ``piece`` is how a token is written."""
    tokens = block.kept if block.outcome is None else block.outcome
    breaks = [token for token in np.unique(tokens).tolist() if token != NEVER and "\n" in piece(token)]
    return tuple(np.flatnonzero(np.isin(tokens, breaks)).tolist()) if breaks else ()
