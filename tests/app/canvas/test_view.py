"""The canvas widget: layout, painting, figures as colours, keys and motion."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from PySide6.QtCore import QAbstractAnimation, QEvent, QRect, Qt
from PySide6.QtGui import QColor, QHelpEvent, QImage, QPainter
from PySide6.QtWidgets import QToolTip

from app.canvas.geometry import GAP, MARGIN, Geometry
from app.canvas.glyphs import CellGlyphs, Glyph, glyph_of
from app.canvas.heat import NONE, Heat, places
from app.canvas.paint import SLOT, PaintOptions, paint_block
from app.canvas.view import CanvasView
from app.design import motion, themes
from app.design.fonts import canvas_font
from app.design.tokens import DARKROOM, entropy_color
from app.state.run.canvas import BlockState, CanvasState, CellState
from engine import CanvasCommitted, CanvasStarted, Event, StepFinished
from tests.app.canvas.pointing import THEMES, middle, pixels
from tests.looping import looped

LENGTH = 24


def letter(token: int) -> str:
    return chr(97 + token % 26)


def script(length: int = LENGTH, steps: int = 4, pinned: int = 2) -> list[Event]:
    """A made-up run in which every state occurs at step 2: accepted masks and tokens are written out by hand."""
    rng = np.random.default_rng(5)
    mask = np.zeros(length, dtype=np.bool_)
    mask[:pinned] = True

    def tokens() -> np.ndarray:
        return rng.integers(0, 26, length).astype(np.int32)

    guess = np.full(length, 12, dtype=np.int32)
    events: list[Event] = [CanvasStarted(0, tokens(), mask)]
    for step in range(steps):
        accepted = mask.copy()
        accepted[4:8] = True  # settles
        accepted[8:10] = step != 2  # taken back at step 2
        accepted[10:12] = step == 2  # accepted first at step 2
        entropy = np.linspace(0, 3, length).astype(np.float32)
        shown = np.where(accepted, guess, tokens())
        events.append(StepFinished(0, step, 0.8, guess, guess, entropy, accepted, shown, 0.1))
    events.append(CanvasCommitted(0, guess, length - 4, steps, "step_cap"))
    return events


def block_at(step: int, events: list[Event] | None = None) -> BlockState:
    """The block after a step; -1 is its noise."""
    events = script() if events is None else events
    return CanvasState.from_events(events[: step + 2]).blocks[0]


@pytest.fixture
def view(qtbot) -> CanvasView:
    made = CanvasView()
    qtbot.addWidget(made)
    made.set_piece(letter)
    motion.set_reduced(True)
    made.resize(640, made.heightForWidth(640))
    return made


def show(view: CanvasView, block: BlockState) -> None:
    view.set_block(block)
    view.resize(640, view.heightForWidth(640))


@looped("count, width, columns", product([1, 7, 64, 81, 96, 256], [60, 333, 640, 1400], [None, 1, 9]))
def test_hit_testing_goes_in_both_directions(count, width, columns):
    grid = Geometry.from_width(width, count, 18, 32, columns=columns)
    taken: set[tuple[int, int]] = set()
    for index in range(count):
        x, y, w, h = grid.rect_of(index)
        for dx, dy in ((0, 0), (w - 1, 0), (0, h - 1), (w - 1, h - 1), (w / 2, h / 2), (w + GAP - 0.5, h + GAP - 0.5)):
            assert grid.cell_at(x + dx, y + dy) == index
        assert (x, y) not in taken
        taken.add((x, y))
        assert y + h <= grid.height - MARGIN
    assert grid.rows * grid.columns >= count > (grid.rows - 1) * grid.columns


def test_rows_end_with_their_lines():
    grid = Geometry.from_width(400, 30, 18, 32, columns=8, ends=(3, 4, 16))
    assert grid.starts == (0, 4, 5, 13, 17, 25)
    assert [grid.place_of(index) for index in (3, 4, 5, 12, 13, 29)] == [(0, 3), (1, 0), (2, 0), (2, 7), (3, 0), (5, 4)]
    for index in range(30):
        x, y, _, _ = grid.rect_of(index)
        assert grid.cell_at(x, y) == index
    right = grid.rect_of(4)
    assert grid.cell_at(right.x + right.width + GAP, right.y) == -1
    moves = [(12, 0, 1), (12, 0, -1), (3, 1, 0), (0, 0, -1), (29, 0, 1), (29, 1, 0), (24, 0, 1)]
    assert [grid.moved(*move) for move in moves] == [16, 4, 4, 0, 29, 29, 29]
    assert grid.height == Geometry.from_width(400, 48, 18, 32, columns=8).height


def test_cells_glide_to_their_lines_and_stay_there(qtbot, view):
    view.set_piece(lambda token: "\n" if token == 12 else letter(token))
    motion.set_reduced(False)
    events = script()
    show(view, block_at(-1, events))
    before = view.grid
    view.set_block(block_at(0, events))  # accepts breaks at 0, 1 and 4 to 9
    assert view.grid.starts == (0, 1, 2, 5, 6, 7, 8, 9, 10)
    halfway = view.grid.moving_from(before, 0.5)
    for old, now, final in zip(before.cells, halfway.cells, view.grid.cells, strict=True):
        assert (now.x, now.y) == (old.x + round((final.x - old.x) / 2), old.y + round((final.y - old.y) / 2))
    assert len(running(view)) == 2  # the tint of what was accepted, and the glide
    qtbot.waitUntil(lambda: not running(view))
    for step, starts in ((1, 9), (2, 11), (3, 11)):  # what is doubted stays, what is accepted comes
        view.set_block(block_at(step, events))
        assert len(view.grid.starts) == starts
    assert view.grid.moving_from(before, 1.0).cells == view.grid.cells


@pytest.mark.parametrize(
    ("piece", "glyph"),
    [
        ("a", Glyph("a", "text")),
        (" the", Glyph("·the", "text")),
        ("\n", Glyph("↲", "sign")),
        ("\n\n", Glyph("↲↲", "sign")),
        (" ", Glyph("·", "sign")),
        ("\t", Glyph("⇥", "sign")),
        ("", Glyph("◇", "sign")),
        ("\x07", Glyph("◇", "sign")),
        ("\u202e", Glyph("◇", "sign")),  # would turn the line around
        ("\ud800", Glyph("◇", "sign")),
        ("<eos>", Glyph("", "end")),
        ("<pad>", Glyph("", "end")),
        ("<turn|>", Glyph("", "end")),
        ("<|turn>user", Glyph("◇", "sign")),
        ("<mask>", Glyph("◇", "sign")),
        ("<div>", Glyph("<div>", "text")),
        ("<", Glyph("<", "text")),
        ("<|", Glyph("◇", "sign")),
        ("\u0301", Glyph("◌\u0301", "text")),
        ("語", Glyph("語", "text")),
        ("🙂", Glyph("🙂", "text")),
    ],
)
def test_signs_for_what_cannot_be_seen(piece, glyph):
    assert glyph_of(piece) == glyph


@pytest.mark.parametrize(
    "piece", ["\U0010ffff", "\ue000", "ﷺ", "👩‍👩‍👧", "ไทย", "\ufffd", "a" * 500, "<b>bold</b>", "&amp;"]
)
def test_any_piece_is_painted_and_explained(view, piece):
    view.set_piece(lambda _: piece)
    show(view, block_at(2))
    assert not pixels(view).isNull()
    assert view.grid.cell_width <= 10 * math.ceil(CellGlyphs(canvas_font()).character_width) + 8
    assert view.cell_text(0)[0].startswith("Position 0: ")


def test_cells_are_as_wide_as_their_words_and_do_not_shrink_while_a_block_develops(view):
    show(view, block_at(2))
    narrow = view.grid.cell_width
    view.set_piece(lambda token: " word" + letter(token))
    assert view.grid.cell_width > 3 * narrow
    view.set_piece(letter)
    assert view.grid.cell_width == narrow
    view.set_piece(lambda token: letter(token) * (1 + token % 7))
    events = script()
    widths = []
    for step in range(-1, 4):
        view.set_block(block_at(step, events))
        widths.append(view.grid.cell_width)
    assert widths == sorted(widths)
    view.set_block(block_at(-1, events))
    assert view.grid.cell_width == widths[-1], "nor while it is looked back on"


def cell_image(state: CellState, theme) -> QImage:
    """One painted cell with one and the same token."""
    block = BlockState(0, np.array([3], dtype=np.int32), np.array([state == CellState.GIVEN]))
    block.entropy = np.array([1.5], dtype=np.float32)
    if state == CellState.MASKED:
        block = BlockState(0, block.shown, block.pinned_mask, filler=3)
    on = np.array([True])
    match state:
        case CellState.CANDIDATE:
            block.argmax_canvas = block.shown
        case CellState.ACCEPTED:
            block.accepted_mask = on
        case CellState.TAKEN_BACK:
            block.taken_back_mask = on
        case CellState.SETTLED:
            block.text_length = 1
        case CellState.PADDING:
            block.text_length = 0
        case CellState.FITTING:
            block.pinned_mask = block.fitting_mask = on
    assert block.cell(0, calm=True).state == state
    glyphs = CellGlyphs(canvas_font())
    geometry = Geometry.from_width(60, 1, glyphs.cell_width(["a"]), glyphs.cell_height())
    image = QImage(60, geometry.height, QImage.Format.Format_RGB32)
    image.fill(QColor(theme.surface_sunken))
    painter = QPainter(image)
    paint_block(painter, geometry, block, theme, glyphs, lambda _: Glyph("a", "text"), PaintOptions())
    painter.end()
    return image


@THEMES
def test_states_differ_in_shape_not_only_in_colour(theme):
    images = {state: cell_image(state, theme) for state in CellState}
    assert images[CellState.CANDIDATE] != images[CellState.SETTLED]
    shapes = {}
    for state, image in images.items():
        pixel = product(range(image.height()), range(image.width()))
        shapes[state] = bytes(image.pixel(x, y) != QColor(theme.surface_sunken).rgb() for y, x in pixel)
    del shapes[CellState.SETTLED]  # a candidate's, in an ink of another weight
    assert len(set(shapes.values())) == len(shapes)
    assert sum(shapes[CellState.PADDING]) < sum(shapes[CellState.NOISE]) < sum(shapes[CellState.CANDIDATE])


def test_slots_are_framed_named_and_explained(view):
    block = block_at(0)
    show(view, block)
    plain = pixels(view)
    view.frame_slots((2, 5))
    marked = pixels(view)
    accent, ratio = QColor(DARKROOM.accent).rgb(), plain.devicePixelRatio()
    for index in range(LENGTH):
        x, y, w, _ = view.grid.rect_of(index)
        edge = marked.pixel(round((x + w / 2) * ratio), round((y + 1) * ratio))
        assert (edge == accent) == (index in (2, 5)), index
    assert "Slot of question 2" in view.cell_text(5)
    assert not any("Slot" in line for line in view.cell_text(4))
    assert SLOT in view._legend()
    view.frame_slots(())
    assert pixels(view) == plain


def test_raw_and_calm_show_different_tokens(view):
    show(view, block_at(2))
    calm = pixels(view)
    assert "'m'" in view.cell_text(LENGTH - 1)[0]  # the guess
    view.set_calm(False)
    assert pixels(view) != calm
    assert view.cell_text(LENGTH - 1)[0] == f"Position {LENGTH - 1}: 'g'"


def test_keys_move_the_selection_which_outlives_steps_and_falls_with_the_canvas(view, qtbot):
    view.set_block(None)
    assert view.accessibleDescription() == "Empty canvas."
    assert view.grid.cell_at(MARGIN + 2, MARGIN + 2) == -1
    show(view, block_at(1))
    view.setColumns(8)
    path = [
        (Qt.Key.Key_Right, 0),
        (Qt.Key.Key_Right, 1),
        (Qt.Key.Key_Down, 9),
        (Qt.Key.Key_Down, 17),
        (Qt.Key.Key_Down, 17),
        (Qt.Key.Key_Left, 16),
        (Qt.Key.Key_Up, 8),
        (Qt.Key.Key_End, 23),
        (Qt.Key.Key_Right, 23),
        (Qt.Key.Key_Home, 0),
        (Qt.Key.Key_Left, 0),
        (Qt.Key.Key_Up, 0),
        (Qt.Key.Key_Escape, -1),
    ]
    for key, wanted in path:
        qtbot.keyClick(view, key)
        assert view.selected == wanted, key
    view.selected = 7
    view.set_block(block_at(2))
    assert view.selected == 7
    view.set_block(block_at(0, script(7)))
    assert view.selected == -1


def test_the_legend_says_what_its_words_mean(view):
    show(view, block_at(2))
    tips = [view.legend_tip(QRect(*rect).center()) for rect in view.grid.legend]
    assert len(set(tips)) == len(tips) >= 5
    assert "Sure enough to stay at this step" in tips
    assert view.legend_tip(middle(view, 8)) == ""
    where = QRect(*view.grid.legend[0]).center()
    view.event(QHelpEvent(QEvent.Type.ToolTip, where, view.mapToGlobal(where)))
    assert QToolTip.text() == tips[0]
    QToolTip.hideText()


def test_a_cell_in_words_has_everything(view):
    show(view, block_at(2))
    assert view.cell_text(8) == [
        "Position 8: 'm'",
        "State: taken back",
        f"Entropy: {view.block.entropy[8]:.3f} nats",
        "Accepted at 2 steps",
        "Taken back 1 time",
    ]
    with pytest.raises(IndexError):
        CanvasView().cell_text(0)


def running(view: CanvasView) -> list[QAbstractAnimation]:
    every = view.findChildren(QAbstractAnimation)
    return [animation for animation in every if animation.state() == QAbstractAnimation.State.Running]


def test_a_change_fades_and_ends(view, qtbot):
    motion.set_reduced(False)
    events = script()
    show(view, block_at(1, events))
    view.set_block(block_at(2, events))
    assert len(running(view)) == 1
    tinted = pixels(view)
    qtbot.waitUntil(lambda: not running(view), timeout=2000)
    settled = pixels(view)
    x, y, _, _ = view.grid.rect_of(8)  # taken back at this step
    assert tinted.pixelColor(x + 4, y + 4) != QColor(DARKROOM.surface_sunken)
    assert settled.pixelColor(x + 4, y + 4) == QColor(DARKROOM.surface_sunken)


def heat_of(*shares: float, **changes) -> Heat:
    return Heat(np.array(shares, dtype=np.float32), **({"name": "doubt", "low": "0", "high": "1 nat"} | changes))


def ground(view: CanvasView, index: int) -> QColor:
    x, y, w, _ = view.grid.rect_of(index)
    return pixels(view).pixelColor(x + w - 2, y + 2)


def test_places_on_the_ramp():
    assert places(np.array([0, 0.5, 1, 2, -1, np.nan], np.float32), 64) == [0, 32, 64, 64, 0, NONE]


@THEMES
def test_cells_take_the_colour_of_their_share(view, theme):
    themes.publish(theme)
    show(view, block_at(2, script(8)))
    view.set_heat(heat_of(0, 0.25, 0.5, 0.75, 1, np.nan, np.nan, 0))
    for index, share in enumerate((0, 0.25, 0.5, 0.75, 1)):
        assert ground(view, index) == entropy_color(share, theme)
    assert ground(view, 5) == QColor(theme.surface_sunken)


def test_the_legend_comes_and_goes_with_it(view):
    show(view, block_at(2))
    plain = view.heightForWidth(500)
    view.set_heat(heat_of(*[0.5] * LENGTH))
    assert view.heightForWidth(500) > plain
    view.set_heat(None)
    assert view.heightForWidth(500) == plain


def test_same_figures_are_the_same_picture():
    one, other = heat_of(0, np.nan), heat_of(0, np.nan)
    assert one.same_as(other)
    assert not one.same_as(heat_of(0, 0))
    assert not one.same_as(heat_of(0, np.nan, high="2 nats"))
    assert not one.same_as(None)
