"""Makes the gallery, ``assets/traces``: real runs of the embedded models with fixed seeds.

Run again when a model changes. What a note says of a run is checked here, so that a retrained model cannot make it
wrong.
"""

from __future__ import annotations

import functools
import json
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine import (
    BASE,
    EMBEDDED,
    SKILLS,
    SUDOKU,
    TRACE_SUFFIX,
    Model,
    Trace,
    TraceHeader,
    generate,
    identify_model,
    load_model,
    open_trace,
    read_reply,
)
from engine.service.recorder import reporting_candidates
from engine.tasks import skills, sudoku
from engine.trace.folder import GALLERY, GALLERY_LIST

MOST_BYTES = 300_000
EASY = "000020000360070000428001070039000700070009602000617059900082067004000280080700401"
HARD = "003100064080000302000500087070005000000009400805000000004000030050007000700801096"
TOO_HARD = "040290800080603100900857006028000960000000000004008005000020073065700001030000000"


def _solves(trace: Trace) -> bool:
    puzzle = sudoku.parse("".join(character for character in trace.prompt if character in "0123456789.")[-81:])
    return sudoku.judge(puzzle, sudoku.read_answer(trace.text)).valid


def _remelts(trace: Trace) -> int:
    """How many tokens of the text are accepted at a step and not at the next."""
    text = slice(0, trace.committed[-1].text_length)
    accepted = [step.accepted_mask[text] for step in trace.steps]
    return sum(int((before & ~after).sum()) for before, after in pairwise(accepted))


def _is_capped(trace: Trace) -> bool:
    return trace.committed[-1].reason == "step_cap"


@dataclass(frozen=True)
class Example:
    """A run to make, what to say of it, and what must be true of it."""

    name: str
    model: str
    prompt: str
    title: str
    note: str
    holds: Callable[[Trace], bool]
    pinned: tuple[tuple[int, str], ...] = ()  # position and sign
    seed: int = 0
    t_max: float | None = None  # in place of the model's own


EXAMPLES = (
    Example(
        "times-table",
        BASE,
        "Times table of 9 up to 8.",
        "A times table out of noise",
        "It is drawn at a higher temperature than usual, so the lines come out bit by bit, and some tokens are taken "
        "back on the way.",
        lambda trace: skills.check(trace.prompt, trace.text) and len(trace.steps) >= 12 and _remelts(trace) >= 3,
        t_max=1.8,
    ),
    Example(
        "reverse",
        SKILLS,
        "Reverse the word stone.",
        "A word, reversed",
        "The shortest story: noise, and two steps later five letters and their end. Everything behind it is padding.",
        lambda trace: trace.text == "enots",
    ),
    Example(
        "count",
        SKILLS,
        "Count from 4 to 43.",
        "Counting over three blocks",
        "An answer longer than a canvas: each block is committed before the next one starts from fresh noise.",
        lambda trace: trace.text == ", ".join(map(str, range(4, 44))) and len(trace.committed) == 3,
    ),
    Example(
        "sudoku-easy",
        SUDOKU,
        sudoku.to_prompt(EASY),
        "A Sudoku, all at once",
        "Watch the entropy: the givens are certain from the first step, and the other digits follow from all sides.",
        lambda trace: _solves(trace) and not _is_capped(trace),
    ),
    Example(
        "sudoku-hard",
        SUDOKU,
        sudoku.to_prompt(HARD),
        "A hard Sudoku, with second thoughts",
        "25 givens. Look for remelts: digits that were accepted, doubted and replaced before the board converged.",
        lambda trace: _solves(trace) and not _is_capped(trace),
    ),
    Example(
        "sudoku-stuck",
        SUDOKU,
        sudoku.to_prompt(TOO_HARD),
        "A Sudoku that does not settle",
        "It stops at the cap of 48 steps with a wrong board. See in the map which cells never stop melting.",
        lambda trace: not _solves(trace) and _is_capped(trace),
    ),
    Example(
        "sudoku-pinned",
        SUDOKU,
        sudoku.to_prompt(TOO_HARD),
        "The same Sudoku with one cell pinned",
        "Same seed, but the first cell is held at its right digit, 5: now the whole board converges.",
        lambda trace: _solves(trace) and not _is_capped(trace),
        ((0, "5"),),
    ),
    Example(
        "unknown",
        SKILLS,
        "Write the times table of 8.",
        "A question it was never taught",
        "The small model knows another wording. A few letters stay in doubt to the cap; what it commits is a guess.",
        _is_capped,
    ),
)


def make(example: Example, model: Model) -> Trace:
    """Run an example.

    Raises:
        SystemExit: its note would be wrong.
    """
    piece = model.tokenizer.piece
    pinned = tuple((place, model.tokenizer.encode(sign)[0]) for place, sign in example.pinned)
    defaults = model.generation_defaults
    config = reporting_candidates(defaults.replace(pinned=pinned, t_max=example.t_max or defaults.t_max))
    messages = ({"role": "user", "content": example.prompt},)
    ids = model.chat_ids(messages)
    title = next(known.title for known in EMBEDDED if known.id == example.model)
    header = TraceHeader(
        identify_model(model, example.model, title),
        example.prompt,
        config,
        example.seed,
        messages,
        tuple(ids),
        id=uuid.uuid5(uuid.NAMESPACE_OID, f"safelight gallery {example.name}").hex,
    )
    decode = functools.partial(read_reply, model.tokenizer)
    trace = Trace(header=header, piece=piece, is_special=model.tokenizer.is_special, decode=decode)
    for event in generate(model, ids, config, example.seed):
        trace.append(event)
    if not example.holds(trace):
        raise SystemExit(f"{example.name} is not as its note says: {trace.text!r} after {len(trace.steps)} steps")
    return trace


def main() -> None:
    """Make all examples and their list."""
    GALLERY.mkdir(exist_ok=True)
    models = {name: load_model(name, device="cpu") for name in (SKILLS, SUDOKU, BASE)}
    listed = []
    for example in EXAMPLES:
        path = GALLERY / f"{example.name}{TRACE_SUFFIX}"
        make(example, models[example.model]).save(path)
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise SystemExit(f"{path.name} has {size} bytes; {MOST_BYTES} are allowed")
        trace = open_trace(path, check=True)
        print(f"{path.name:24} {size:8} bytes {len(trace.steps):4} steps  {trace.text!r}")
        listed.append({"file": path.name, "title": example.title, "note": example.note})
    text = json.dumps({"traces": listed}, indent=2, ensure_ascii=False) + "\n"
    (GALLERY / GALLERY_LIST).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
