"""Lays a text with holes, or a text to revise, out on the canvases of a run of block diffusion.

The tokens that were written are pinned, those of holes are free. Behind the text stands the end token, and no hole may
write one, unless the text ends with a hole of unknown length: then the answer goes on from there. A text to revise
stands on the canvases without pins, and ``noise`` of its positions stay noise.

A hole that does not fit what is left of a canvas, with some of the text behind it, begins on the next one: the model
sees all of the text before it, and behind it what stands on the same canvas. The canvas before is filled with padding,
as are holes whose text is shorter; padding is left out where an answer is read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from engine.config import USUAL_HOLE, GenerationConfig
from engine.errors import SafelightError
from engine.forks import Fork
from engine.text.outline import Hole, Outline

BEHIND = 4  # a hole begins on the next canvas if less than this part of the canvas is left for the text behind it
SAMPLE = "The quick brown fox jumps over the lazy dog and runs away."  # 12 words

Encode = Callable[[str], Sequence[int]]
Cells = list[int | None]  # tokens; None where the model writes


def outlined(
    outline: Outline, noise: float, config: GenerationConfig, canvas: int, encode: Encode, seed: int, room: int
) -> tuple[GenerationConfig, tuple[Fork, ...]]:
    """Returns the settings and the changes of a run that writes a text with holes, or revises a text.

    Args:
        noise: the share of positions that begin as noise, if the text is to be revised; 0: it has holes.
        config: of the run.
        canvas: tokens of the model's canvas.
        encode: returns the tokens of a text.
        seed: chooses the positions that begin as noise.
        room: positions behind the prompt.

    Raises:
        SafelightError: the text does not fit behind the prompt.
    """
    config = config.replace(pinned=(), thinking_tokens=None)
    length = config.canvas_length or canvas
    goes_on = sum(isinstance(part, Hole) for part in outline) == 1 and outline[-1] == Hole()
    cells = _cells(outline[:-1] if goes_on else outline, length, config.pad_token_id, encode)
    end = len(cells)
    blocks = max(1, -(-(end + (not goes_on)) // length))  # with an end token
    if blocks * length > room:
        raise SafelightError(
            f"the text takes {blocks * length} tokens with its gaps, and {max(0, room)} fit behind the prompt; "
            "shorten the text"
        )
    may_end = goes_on or (noise > 0 and blocks == 1)  # anywhere; else the text behind would be lost
    config = config.replace(
        canvas_length=length,
        smallest_canvas=None,
        max_new_tokens=max(config.max_new_tokens, blocks * length) if may_end else blocks * length,
        banned_tokens=config.banned_tokens if may_end else (*config.banned_tokens, *config.eos_token_ids),
    )
    if noise:
        for place in noise_places(end, noise, seed):
            cells[place] = None
    cells += [] if goes_on else [*config.eos_token_ids[:1] * (blocks * length - end)]
    return config, tuple(_changes(cells, length, free=range(end if not may_end else len(cells)) if noise else range(0)))


def noise_places(count: int, noise: float, seed: int) -> list[int]:
    """Returns the places of ``count`` that begin as noise, a share ``noise`` of them; at least one if there is any."""
    return random.Random(seed).sample(range(count), min(count, max(1, round(noise * count))))


def _cells(outline: Outline, length: int, padding: int, encode: Encode) -> Cells:
    """Returns the tokens of an outline as they stand on canvases of ``length``."""
    tokens = [encode(part) if isinstance(part, str) else () for part in outline]
    cells: Cells = []
    for place, part in enumerate(outline):
        if isinstance(part, str):
            cells += tokens[place]
            continue
        size = hole_tokens(part, encode) or min(USUAL_HOLE, length)
        behind = len(tokens[place + 1]) if place + 1 < len(tokens) else 0
        left = length - len(cells) % length
        if left < size + min(behind, length // BEHIND) and size <= length and left < length:
            cells += [padding] * left
        cells += [None] * size
    return cells


def hole_tokens(hole: Hole, encode: Encode) -> int | None:
    """Returns a hole's length in tokens; None if it has none. Words are as long as those of ``SAMPLE``."""
    if hole.length is None or hole.unit == "tokens":
        return hole.length
    of = len(encode(SAMPLE)) / len(SAMPLE.split()) if hole.unit == "words" else len(encode(hole.like)) / 100
    return max(1, round(hole.length * of))


def _changes(cells: Cells, length: int, free: range) -> list[Fork]:
    """Returns a change for each canvas that holds given tokens: those in ``free`` only begin there, others stay."""
    changes = []
    for block in range(-(-len(cells) // length)):
        start = block * length
        written = [(at, token) for at, token in enumerate(cells[start : start + length]) if token is not None]
        edits = tuple(cell for cell in written if start + cell[0] in free)
        pinned = tuple(cell for cell in written if start + cell[0] not in free)
        if written:
            changes.append(Fork(block, 0, pinned=pinned, edits=edits))
    return changes
