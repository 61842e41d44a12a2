"""Draws pictures of frames with the painters of canvases and of boards. Knows no clock and no file format but PNG.

A ``PictureSheet`` draws a frame between a heading and a legend. Its size depends only on the run and the options, so
all frames of a video have the same size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QFont, QFontMetrics, QFontMetricsF, QImage, QPainter, QPainterStateGuard

from app.board.geometry import BoardGeometry
from app.board.glyphs import BoardGlyphs
from app.board.legend import mark_entries
from app.board.paint import BoardPaintOptions, paint_board
from app.canvas.geometry import GAP, MARGIN, Geometry, line_lengths
from app.canvas.glyphs import CellGlyphs, Glyph, glyph_of
from app.canvas.legend import entry_width, paint_entry
from app.canvas.paint import (
    PaintOptions,
    legend_entries,
    legend_widths,
    paint_block,
    paint_legend,
)
from app.canvas.words import LegendKey
from app.design.fonts import TEXT_BODY, TEXT_CANVAS, TEXT_LEAD, TEXT_SMALL, canvas_font, ui_font
from app.design.tokens import DARKROOM, PAPER, Theme, color
from app.export.run import Options, Share, board_in, chosen, header_of, missing
from app.state.run.answers import answer_words, answers_of
from app.state.run.canvas import BlockState
from app.state.run.lines import line_ends
from app.state.run.replay import NOISE, Replay
from app.state.run.task_words import round_words
from app.state.sudoku.placing import Placed, is_puzzle
from app.state.sudoku.solve_frame import SolveFrame, frame
from app.system.i18n import tr, trn
from engine import Recording, SafelightError, step_number
from engine.files import replacing
from engine.tasks.decisions.questions import Decision

CELL = 54  # pixels; nine of the first are as wide as the narrowest picture


SHAPE = 1.6  # preferred width / height of a canvas
RAGGED = 0.7  # penalty of a last row with gaps, in units of the logarithm of width / height
LEAST_WIDTH = 520  # logical pixels of a picture, so that the heading fits
LEGEND_HEIGHT = 28
CAPTION_HEIGHT = 28
CAPTION_LINES = 4
MAX_ANSWERS = 8  # answers of a decision in a caption
LARGEST_SIDE = 16_000  # pixels; most programs refuse larger pictures
LARGEST_PIXELS = 2**27

_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_CAPTION = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom | Qt.TextFlag.TextWordWrap


@dataclass(frozen=True)
class PictureStyle:
    theme: Theme
    scale: int = 1
    calm: bool = True
    prompt: bool = True
    board: bool = True

    @staticmethod
    def of(options: Options) -> PictureStyle:
        themes = {"paper": PAPER, "darkroom": DARKROOM}
        return PictureStyle(themes[options.theme], options.scale, options.calm, options.prompt, options.board)


class PictureSheet:
    """Pictures of one size. Run ``measure``, which reads every frame once, before ``image``."""

    def __init__(self, run: Recording, replay: Replay, places: Sequence[int], style: PictureStyle) -> None:
        self.run, self.replay, self.places, self.style = run, replay, tuple(places), style
        self._glyphs = _Glyphs(_exactly(canvas_font(), TEXT_CANVAS))
        self._board, self._board_glyphs = BoardGeometry(0, 0, CELL), BoardGlyphs()
        self._found: dict[int, Placed | None] = {}  # by block: its Sudoku, if it is drawn as a board
        self._glyph: Callable[[int], Glyph] = cache(lambda token: glyph_of(run.piece(token), run.is_special(token)))
        self._texts: set[str] = set()
        self._blocks: dict[int, tuple[int, tuple[int, ...]]] = {}  # by block: number of cells, line ends
        self._slots = tuple(slot.position for slot in run.header.slots)
        self._legend: tuple[LegendKey, ...] = ()  # entries of all frames
        self._widest = 0  # pixels of the longest caption in one line

    def measure(self) -> Iterator[float]:
        """Reads all frames for the layout; yields the share done. Must be run to its end before ``image``."""
        metrics = QFontMetrics(_exactly(ui_font(), TEXT_SMALL))
        for number, place in enumerate(self.places):
            block = self.replay.snapshot(place)
            self._blocks[block.block_index] = block.length, line_ends(block, self.run.piece)
            self._legend = tuple(dict.fromkeys((*self._legend, *legend_entries(block, self._slots))))
            self._texts.update(self._glyph(token).text for token in set(block.tokens(calm=self.style.calm).tolist()))
            self._widest = max(self._widest, metrics.horizontalAdvance(self.caption(place)))
            yield (number + 1) / len(self.places)
        self._lay_out()

    def _lay_out(self) -> None:
        cell = self._glyphs.cell_width(sorted(self._texts)), self._glyphs.cell_height()
        self._cell = cell
        tokens = [index for index in self._blocks if self._sudoku(index) is None]
        self._columns = max((shapely(*self._blocks[index], *cell) for index in tokens), default=1)
        cells = self._columns * (cell[0] + GAP) - GAP + 2 * MARGIN if tokens else 0
        board = self._board.side + 2 * MARGIN if len(tokens) < len(self._blocks) else 0
        self.width = max(cells, board, LEAST_WIDTH)
        highest = max((self.grid(index).height for index in tokens), default=max(board, 2 * MARGIN))
        highest = max(highest, board)
        room = self.width - 2 * MARGIN
        self._captions = 1 if self._widest <= room else min(math.ceil(1.2 * self._widest / room), CAPTION_LINES)
        self._frame_height = highest - 2 * MARGIN + self._captions * CAPTION_HEIGHT
        self._states = self._legend if tokens else ()
        self._entries = [] if tokens else mark_entries(self._board_glyphs)
        widths = [entry_width(entry, QFontMetricsF(self._glyphs.label), int) for entry in self._entries]
        self._footer = Geometry.from_width(
            self.width,
            0,
            *cell,
            legend_widths=widths or legend_widths(self._glyphs, self._states),
            legend_height=LEGEND_HEIGHT,
        )
        self._heading = self._heading_lines(bool(tokens))
        self._heading_height = MARGIN + sum(height for _text, _font, height, _ink in self._heading)

    def grid(self, block: int) -> Geometry:
        """Returns the layout of a block's cells in its picture, the same in all of its frames."""
        count, ends = self._blocks[block]
        return Geometry.from_width(self.width, count, *self._cell, columns=self._columns, ends=ends)

    @property
    def top(self) -> int:
        """Layout pixels above the grid in a picture; the grid's margin is not included."""
        return self._heading_height + self._captions * CAPTION_HEIGHT - MARGIN

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of a picture in pixels, both even."""
        height = self._heading_height + self._frame_height + self._footer.height
        scale = self.style.scale
        return _even(self.width * scale), _even(height * scale)

    @property
    def has_boards(self) -> bool:
        """True if any block is drawn as a board."""
        return any(self._sudoku(index) is not None for index in self._blocks)

    def _sudoku(self, block: int) -> Placed | None:
        """Returns the place of the Sudoku in a block that is drawn as a board; None for other blocks."""
        if block not in self._found:
            record = self.replay.record(block)
            self._found[block] = board_in(self.run, record, prompt=self.style.prompt) if self.style.board else None
        return self._found[block]

    def _solving(self, place: int) -> SolveFrame | None:
        """Returns the state of the board at a frame; None for a block that is drawn as tokens."""
        block = self.replay.snapshot(place)
        cells = self._sudoku(block.block_index)
        return None if cells is None else frame(cells.puzzle, block, self.run.piece, cells.positions)

    def _heading_lines(self, tokens: bool) -> list[tuple[str, QFont, int, str]]:
        theme = self.style.theme
        header = header_of(self.run, prompt=self.style.prompt)
        title = _exactly(ui_font(), TEXT_LEAD)
        title.setBold(True)
        body, small = _exactly(ui_font(), TEXT_BODY), _exactly(ui_font(), TEXT_SMALL)
        room = self.width - 2 * MARGIN
        lines = [(_elided(one_line(header.model.title or header.model.name), title, room), title, 24, theme.ink)]
        if self.run.seed is not None:
            seed = tr("seed {seed}", seed=self.run.seed)
            lines.append((_elided(seed, small, room), small, 20, theme.faint_ink))
        if header.prompt.strip() and (tokens or not is_puzzle(header.prompt)):  # the board shows a puzzle
            lines.append((_elided(one_line(header.prompt), body, room), body, 22, theme.ink))
        return [*lines, ("", small, 8, theme.ink)]

    def caption(self, place: int) -> str:
        block, decision = self.replay.snapshot(place), header_of(self.run, prompt=self.style.prompt).decision
        if decision is not None:
            return self._read_caption(place, decision)
        name = [tr("Block {block}", block=block.block_index + 1)] if self.replay.blocks > 1 else []
        words = _caption_words(block)
        begins = self.replay.record(block.block_index).round_at(self.replay.frames[place].step)
        if begins is not None:
            words.append(round_words(begins))
        shown = self._solving(place)
        if shown is not None and block.step >= 0:
            words = [*words[: 0 if block.committed else 1], *self._board_words(shown)]
        return " · ".join([*name, *words])

    def _board_words(self, shown: SolveFrame) -> list[str]:
        """Returns the parts of a board's caption after its step."""
        if shown.verdict is not None:
            steps = trn("{count} step", "{count} steps", shown.steps)
            return [steps, shown.verdict.text] if self.style.prompt else [tr("finished"), steps]
        words = [tr("accepted {accepted} of {length}", accepted=shown.accepted, length=len(shown.cells))]
        if shown.entropy is not None:
            words.append(tr("mean entropy {entropy} nats", entropy=f"{shown.entropy:.3f}"))
        return words

    def _read_caption(self, place: int, decision: Decision) -> str:
        """Returns the caption of a read of a decision, with the answers so far."""
        frame, answers = self.replay.frames[place], answers_of(decision, self.replay.reads(place))
        read = tr("Read {read} of {reads}", read=frame.block + 1, reads=self.replay.blocks)
        if frame.step == NOISE:
            return tr("{read} · {what}", read=read, what=tr("noise at the slots"))
        words = [*map(answer_words, answers[:MAX_ANSWERS]), *(["…"] if len(answers) > MAX_ANSWERS else [])]
        return tr("{read} · {what}", read=read, what=tr(", ").join(words))

    def image(self, place: int) -> QImage:
        """Returns a picture of a frame. Raises SafelightError if it would be too large."""
        width, height = self.size
        if max(width, height) > LARGEST_SIDE or width * height > LARGEST_PIXELS:
            raise SafelightError("the picture would be too large; choose half the scale")
        image = QImage(width, height, QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(self.style.scale)
        theme = self.style.theme
        image.fill(color(theme.surface_sunken))
        with QPainter(image) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setRenderHint(QPainter.RenderHint.TextAntialiasing)
            self._paint_heading(painter)
            self._paint_frame(painter, place)
            painter.translate(0, self._heading_height + self._frame_height + GAP)
            self._paint_footer(painter)
        return image

    def _paint_heading(self, painter: QPainter) -> None:
        top = MARGIN
        for text, font, height, ink in self._heading:
            painter.setFont(font)
            painter.setPen(color(ink))
            painter.drawText(QRect(MARGIN, top, self.width - 2 * MARGIN, height), _LEFT, text)
            top += height

    def _paint_footer(self, painter: QPainter) -> None:
        theme = self.style.theme
        if not self._entries:
            paint_legend(painter, self._footer, theme, self._glyphs, self._states)
            return
        painter.setFont(self._glyphs.label)
        for entry, rect in zip(self._entries, self._footer.legend, strict=True):
            paint_entry(painter, entry, rect, theme, int)

    def _paint_frame(self, painter: QPainter, place: int) -> None:
        block, theme = self.replay.snapshot(place), self.style.theme
        with QPainterStateGuard(painter):
            painter.translate(0, self._heading_height)
            painter.setFont(_exactly(ui_font(), TEXT_SMALL))
            painter.setPen(color(theme.faint_ink))
            room = QRect(MARGIN, 0, self.width - 2 * MARGIN, self._captions * CAPTION_HEIGHT - 8)
            painter.drawText(room, _CAPTION, self.caption(place))
            painter.translate(0, self._captions * CAPTION_HEIGHT - MARGIN)
            shown = self._solving(place)
            if shown is not None:
                painter.translate(MARGIN, MARGIN)
                paint_board(painter, self._board, shown, theme, self._board_glyphs, BoardPaintOptions())
            else:
                look = PaintOptions(calm=self.style.calm, slots=self._slots)
                paint_block(painter, self.grid(block.block_index), block, theme, self._glyphs, self._glyph, look)


class _Glyphs(CellGlyphs):
    """The canvas's fonts, with labels at the fixed size of the type scale as well."""

    def __init__(self, font: QFont) -> None:
        super().__init__(font)
        self.label = self.faces["label"] = _exactly(ui_font(), TEXT_SMALL)
        self._metrics["label"] = QFontMetricsF(self.label)


def _caption_words(block: BlockState) -> list[str]:
    if block.committed:
        text = tr("{text} of {length} are text", text=block.text_length, length=block.length)
        if block.grows:
            text = trn("{count} token of text", "{count} tokens of text", block.text_length or 0)
        return [tr("finished"), trn("{count} step", "{count} steps", block.steps), text]
    if block.step < 0:
        return [tr("nothing is written yet") if block.has_masks else tr("noise, before the first step")]
    count = {"accepted": block.accepted_count, "length": block.length}
    words = [
        tr("step {step}", step=step_number(block.step)),
        tr("written {accepted}", **count)
        if block.grows
        else tr("written {accepted} of {length}", **count)
        if block.has_masks
        else tr("accepted {accepted} of {length}", **count),
    ]
    if block.taken_back_count:
        words.append(tr("{count} taken back", count=block.taken_back_count))
    if block.mean_entropy is not None:
        words.append(tr("mean entropy {entropy} nats", entropy=f"{block.mean_entropy:.3f}"))
    return words


def shapely(count: int, ends: Sequence[int], cell_width: int, cell_height: int) -> int:
    """Returns the number of columns whose shape is nearest to ``SHAPE``, for cells whose lines end at ``ends``.

    Without lines, prefers (nearly) full rows; with lines, prefers that few of them need a second row.
    """
    lines = line_lengths(count, ends)

    def off(columns: int) -> float:
        rows = sum(math.ceil(line / columns) for line in lines)
        ratio = (columns * cell_width) / (rows * cell_height)
        missing = rows * columns - count
        ragged = RAGGED + 4 * missing / count if missing else 0.0
        if ends:
            ragged = 2 * RAGGED * sum(line > columns for line in lines[: len(ends)]) / len(lines)
        return abs(math.log(ratio / SHAPE)) + ragged

    return min(range(1, count + 1), key=off, default=1)


def one_line(text: str) -> str:
    """Returns a text as one line without characters that could reverse the text after it."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def _elided(text: str, font: QFont, room: int) -> str:
    return QFontMetrics(font).elidedText(text, Qt.TextElideMode.ElideRight, room)


def _exactly(font: QFont, pixels: int) -> QFont:
    """Sets a font to a size of the type scale, since exported pictures ignore the user's text size."""
    font.setPixelSize(pixels)
    return font


def _even(pixels: int) -> int:
    return pixels + pixels % 2  # video codecs compress blocks of 2 x 2 pixels


def measured(run: Recording, options: Options, share: float) -> Generator[float, None, PictureSheet]:
    """Returns the measured pictures of the chosen frames; yields the share done, up to ``share``."""
    replay = Replay(run)
    sheet = PictureSheet(run, replay, chosen(replay, options), PictureStyle.of(options))
    for done in sheet.measure():
        yield share * done
    return sheet


def write(run: Recording, path: Path, options: Options) -> Share:
    """Writes one frame as PNG; yields the share done.

    Raises:
        SafelightError: there is no such frame, the picture would be too large, or the file cannot be written.
    """
    sheet = yield from measured(run, options, 0.5)
    image = sheet.image(sheet.places[0])
    with replacing(path) as unfinished:
        if not image.save(str(unfinished), "PNG"):  # type: ignore[call-overload]
            # Qt gives no reason; writing data raises the error.
            with unfinished.open("wb") as file:
                file.write(bytes(1 << 20))
            raise SafelightError(f"{path} could not be written as PNG. Choose another place")
        yield 1.0
    return missing(sheet.replay)
