"""Writes an HTML file that replays a run in a browser, without a network or Safelight. Paints nothing itself.

The page can load nothing: its content security policy allows only the script and the style sheet in it, by their
hashes. The run's texts are JSON without any ``<``, which the script adds to the page as text. Entropies and
probabilities are rounded to thousandths, as the page says; tokens, acceptances and their order are exact.

Bytes of a block before deflating, for S steps, C positions and the K likeliest tokens:

======================  ==========  ===================================================================
noise                   3 C         the canvas before the first step.
final                   3 C         the committed canvas; missing if the block was not committed.
argmax                  3 S C
candidate               3 S C       exclusive or with argmax.
following               3 S C       exclusive or with candidate.
accepted                S C         0 or 1.
entropy                 2 S C       thousandths of a nat.
top tokens              3 S C K     by rank; the first exclusive or with argmax.
top probabilities       2 S C K     thousandths, by rank.
======================  ==========  ===================================================================

Tokens are indices in the page's own list. Numbers are stored in byte planes, lowest bytes first, so that the high
bytes, which are nearly all zero, take almost no space after deflating.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import unicodedata
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.canvas.glyphs import glyph_of
from app.canvas.words import STATE_WORDS, token_words
from app.design.tokens import DARKROOM, PAPER, Theme, entropy_color, readable_on
from app.export.run import Options, Share, board_in, chosen, header_of, in_thread, missing
from app.state.run.answers import answer_words, answers_of, fact_words, label_reads
from app.state.run.canvas import CellState
from app.state.run.lines import line_ends
from app.state.run.replay import BlockRecord, Replay
from app.state.run.task_words import kind_words, task_text
from app.state.sudoku.placing import is_puzzle
from app.state.sudoku.solve_frame import frame
from app.system.i18n import tr
from engine import Recording, SafelightError
from engine.files import replacing
from engine.pictures import data_url
from engine.tasks.decisions.questions import Decision

VERSION = 1
PICTURE_SIDE = 640  # longest side of a picture in pixels; it takes some 60 kB
SCRIPTS = (
    "reading.js",
    "board.js",
    "grid.js",
    "answers.js",
    "timeline.js",
    "history.js",
    "player.js",
)  # joined in this order to one script
RAMP_STEPS = 32
HIDDEN_SETTINGS = {"pinned"}  # a list of token numbers, useless to readers


def write(run: Recording, path: Path, options: Options) -> Share:
    """Writes the page; yields the share done. Without the prompt, its messages are left out, too.

    Raises:
        SafelightError: the run has no canvas, or the file cannot be written.
    """
    replay = Replay(run)
    chosen(replay, options)  # raises if there is nothing to show
    vocabulary = Vocabulary()
    blocks = []
    for block in range(replay.blocks):
        record = replay.peek(block)
        packed = yield from pack(record, vocabulary, 0.9 * block / replay.blocks)
        board = _board(run, record, prompt=options.prompt)
        blocks.append(packed | {"lineEnds": line_ends(record.snapshots[-1], run.piece)} | board)
    yield 0.9
    notice = missing(replay)
    text = run.reply().text
    header = header_of(run, prompt=options.prompt)
    data = {
        "version": VERSION,
        "model": header.model.title or header.model.name,
        "kind": kind_words(header),
        "created": header.created[:10],
        "seed": "" if run.seed is None else str(run.seed),  # JavaScript numbers cannot hold 63 bits
        "ending": "" if run.result is None else run.result.reason,
        "settings": _settings(run),
        "text": text,
        "ends": [vocabulary.place(token) for token in run.config.eos_token_ids if token in vocabulary.tokens],
        "states": [tr(STATE_WORDS[state]) for state in CellState],
        "ramps": {"dark": _ramp(DARKROOM), "light": _ramp(PAPER)},
        "showsBoard": options.board,
        "isPuzzle": is_puzzle(run.prompt),
        "notice": notice,
        "blocks": blocks,
        **_spelling(run, vocabulary),
    }
    if header.decision is not None:
        data["decision"] = _decision(header.decision, run, replay)
    if options.prompt:
        data |= {"prompt": header.prompt, "messages": [dict(message) for message in header.messages]}
        pictures = yield from _pictures(run)
        data |= {"pictures": pictures, "task": task_text(header) if header.output_format is not None else ""}
    with replacing(path) as unfinished:
        unfinished.write_text(_page(data, text), encoding="utf-8", newline="\n")
        yield 1.0
    return notice


def _pictures(run: Recording) -> Generator[float, None, list[str]]:
    """Returns the pictures of the prompt as ``data:`` URLs, scaled down, without damaged ones; yields the share."""
    urls = []
    for picture in (yield from in_thread(lambda: run.pictures, 0.9)):
        with suppress(SafelightError):
            urls.append((yield from in_thread(partial(data_url, picture, PICTURE_SIDE), 0.9)))
    return urls


def _decision(decision: Decision, run: Recording, replay: Replay) -> dict[str, Any]:
    """Returns a decision's questions, the positions of their answers, and the answers so far after each read."""
    reads = replay.reads()
    return {
        "questions": [
            {"text": question.instructions, "options": [option.name for option in question.options]}
            for question in decision.questions
        ],
        "slots": [slot.position for slot in run.header.slots],
        "reads": [
            [
                {"shares": answer.probabilities, "said": answer_words(answer), "facts": fact_words(answer, own)}
                for answer, own in zip(
                    answers_of(decision, reads[:count]), zip(*map(label_reads, reads[:count]), strict=True), strict=True
                )
            ]
            for count in range(1, len(reads) + 1)
        ],
    }


def _board(run: Recording, record: BlockRecord, *, prompt: bool) -> dict[str, Any]:
    """Returns the place of the Sudoku in a block and the solver's verdict; empty for other blocks."""
    last = record.snapshots[-1]
    cells = board_in(run, record, prompt=prompt)
    if cells is None:
        return {}
    said = frame(cells.puzzle, last, run.piece, cells.positions).verdict if prompt else None
    board = {
        "puzzle": cells.puzzle,
        "positions": cells.positions,
        "verdict": "" if said is None else said.text,
        "wrong": () if said is None else said.wrong,
    }
    return {"board": board}


def _page(data: dict[str, Any], text: str) -> str:
    style = _colors() + _read("page.css")
    script = '(() => {\n"use strict";\n' + "\n".join(_read(name) for name in SCRIPTS) + "})();\n"
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "title": html.escape(f"{_printable(data['model'])} · Safelight"),
        "style": style,
        "text": html.escape(_printable(text)),
        "data": safe_json(data),
        "script": script,
    }
    page = _read("page.html")
    pieces = page.split("@@")  # filled at once, so that a part with a placeholder in it stays as it is
    return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def safe_json(value: Any) -> str:
    """Returns JSON in ASCII that no HTML parser can take for markup."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _read(name: str) -> str:
    return (files("app.export") / "page" / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _printable(text: str) -> str:
    """Replaces characters that HTML forbids or that change the reading direction."""
    return "".join("\ufffd" if unicodedata.category(c)[0] == "C" and c not in "\n\t" else c for c in text)


def _settings(run: Recording) -> list[tuple[str, str]]:
    config = run.config
    names = [name for name in config.__dataclass_fields__ if name not in HIDDEN_SETTINGS]
    return [(name.replace("_", " "), _plain(getattr(config, name))) for name in names]


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(item) for item in value)
    return tr("the model's own") if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _spelling(run: Recording, vocabulary: Vocabulary) -> dict[str, Any]:
    pieces = [run.piece(token) for token in vocabulary.tokens]
    special = [run.is_special(token) for token in vocabulary.tokens]
    glyphs = [glyph_of(piece, control) for piece, control in zip(pieces, special, strict=True)]
    return {
        "pieces": pieces,
        "special": [place for place, control in enumerate(special) if control],
        "names": {  # descriptions of tokens that cannot be shown literally
            place: token_words(piece)
            for place, (piece, glyph) in enumerate(zip(pieces, glyphs, strict=True))
            if special[place] or glyph.kind == "end"
        },
        "glyphs": {  # only if they differ from the piece with its spaces marked
            place: [glyph.text, glyph.kind]
            for place, (piece, glyph) in enumerate(zip(pieces, glyphs, strict=True))
            if glyph != (piece.replace(" ", "·"), "text")
        },
    }


def _ramp(theme: Theme) -> list[tuple[str, str]]:
    shades = [entropy_color(step / RAMP_STEPS, theme) for step in range(RAMP_STEPS + 1)]
    return [(shade.name(), readable_on(shade).name()) for shade in shades]


def _colors() -> str:
    def declared(theme: Theme) -> str:
        names = [name for name in theme.__dataclass_fields__ if name not in ("name", "dark")]
        return "".join(f"--{name.replace('_', '-')}: {getattr(theme, name)}; " for name in names)

    dark, light = declared(DARKROOM), declared(PAPER)
    return (
        f":root {{ color-scheme: dark; {dark}}}\n"
        f"@media (prefers-color-scheme: light) {{ :root {{ color-scheme: light; {light}}} }}\n"
        f":root[data-theme=dark] {{ color-scheme: dark; {dark}}}\n"
        f":root[data-theme=light] {{ color-scheme: light; {light}}}\n"
    )


MILLI = 1000
MAX_STORED = 2**16 - 1
PIECE_BYTES = 2**17  # bytes to deflate per step


@dataclass
class Vocabulary:
    """The tokens of a run in the order of the blocks they first occur in, within a block the frequent ones first."""

    tokens: list[int] = field(default_factory=list)
    _places: dict[int, int] = field(default_factory=dict)

    def place(self, token: int) -> int:
        place = self._places.setdefault(token, len(self.tokens))
        if place == len(self.tokens):
            self.tokens.append(token)
        return place

    def places(self, tokens: NDArray[np.int32]) -> NDArray[np.uint32]:
        """Returns an array with vocabulary indices in place of token numbers; adds new tokens."""
        values, inverse, counts = np.unique(tokens, return_inverse=True, return_counts=True)
        for token, _count in Counter(dict(zip(values.tolist(), counts.tolist(), strict=True))).most_common():
            self.place(token)
        table = np.array([self._places[token] for token in values.tolist()], dtype=np.uint32)
        return table[inverse.reshape(tokens.shape)] if len(values) else np.zeros(tokens.shape, dtype=np.uint32)


def pack(block: BlockRecord, vocabulary: Vocabulary, share: float = 0.0) -> Generator[float, None, dict[str, Any]]:
    """Returns a block for the page: small values as they are, its arrays deflated and in base 64.

    Yields ``share`` after each piece of work, since a long block takes seconds.
    """
    deflate = zlib.compressobj(9)
    data = []
    for plane in _planes(block, vocabulary):
        yield share
        for start in range(0, len(plane), PIECE_BYTES):
            data.append(deflate.compress(plane[start : start + PIECE_BYTES]))
            yield share
    data.append(deflate.flush())
    return {
        "length": block.length,
        "steps": block.steps,
        "width": 0 if block.top_tokens is None or block.top_probabilities is None else block.top_tokens.shape[2],
        "committed": block.final is not None,
        "textLength": block.text_length,
        "reason": block.reason,
        "pinned": np.flatnonzero(block.pinned).tolist(),
        "held": _held_from(block),
        "fits": np.flatnonzero(block.snapshots[-1].fitting_mask).tolist(),
        "rounds": [[one.number, one.step, one.pinned, one.new, one.written] for one in block.rounds],
        "filler": None if block.filler is None else vocabulary.place(block.filler),
        "temperature": [round(float(value), 4) for value in block.temperature],
        "data": base64.b64encode(b"".join(data)).decode("ascii"),
    }


def _held_from(block: BlockRecord) -> list[tuple[int, int]]:
    """Returns positions pinned by a fork or a round, each with the first step at which it was pinned.

    The commit counts as the step after the last.
    """
    held = np.vstack([block.held, block.snapshots[-1].pinned_mask[None]])
    positions = np.flatnonzero(held.any(axis=0) & ~block.pinned)
    return [(int(position), int(held[:, position].argmax())) for position in positions]


def _planes(block: BlockRecord, vocabulary: Vocabulary) -> Iterator[bytes]:
    """Yields the bytes of a block in the order of the table above."""
    argmax = vocabulary.places(block.argmax)
    candidates = vocabulary.places(block.candidates)
    following = vocabulary.places(block.following)
    yield _tokens(vocabulary.places(block.noise))
    if block.final is not None:
        yield _tokens(vocabulary.places(block.final))
    yield _tokens(argmax)
    yield _tokens(candidates ^ argmax)
    yield _tokens(following ^ candidates)
    yield block.accepted.astype(np.uint8).tobytes()
    yield _thousandths(block.entropy)
    if block.top_tokens is not None and block.top_probabilities is not None:
        top = np.moveaxis(vocabulary.places(block.top_tokens), 2, 0).copy()
        top[:1] ^= argmax
        yield _tokens(top)
        yield _thousandths(np.moveaxis(block.top_probabilities, 2, 0))


def _tokens(values: NDArray[np.uint32]) -> bytes:
    return b"".join(((values >> shift) & 255).astype(np.uint8).tobytes() for shift in (0, 8, 16))


def _thousandths(values: NDArray[np.float32]) -> bytes:
    finite = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=MAX_STORED / MILLI, neginf=0.0)
    rounded = np.clip(np.rint(finite * MILLI), 0, MAX_STORED).astype(np.uint16)
    return (rounded & 255).astype(np.uint8).tobytes() + (rounded >> 8).astype(np.uint8).tobytes()
