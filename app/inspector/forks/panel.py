"""Changes at the current frame, from which the run is run on, and the tree of the runs made from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import (
    QGridLayout,
    QListWidget,
    QListWidgetItem,
    QSizePolicy,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from app.canvas.words import token_words
from app.design.controls import ChoiceBox, Elided, button, describe, introduce, label, show_line
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.inspector.forks.spans import Spans, fit_rows
from app.inspector.words import banned_in_words, capital, chance_words, pinned_in_words, put_in_words, what_comes_first
from app.player.player import NOTHING, Player
from app.settings.fields import SeedBox, number_box, number_in
from app.settings.values import SAMPLER, SEED, DecodingChoice
from app.system.i18n import tr
from engine import Fork, GenerationConfig, SafelightError, step_number
from engine.forks import MASK_SETTINGS, SETTINGS

Encode = Callable[[str], Sequence[int]]


KNOBS = tuple(name for name in SAMPLER if name in {*SETTINGS, *MASK_SETTINGS} - {"max_new_tokens"})
PIN, PUT, BAN = "pin", "put", "ban"


class TokenChoice(ChoiceBox):
    """An editable list of the candidates of the step that comes next. ``encode`` is None without the run's model."""

    def __init__(self, player: Player) -> None:
        super().__init__()
        self._player = player
        self.encode: Encode | None = None
        self.setEditable(True)
        self.setInsertPolicy(ChoiceBox.InsertPolicy.NoInsert)
        self.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(6)
        introduce(self, tr("Token"), tip=tr("One of the recorded candidates, or any text that is one token"))
        for signal in (player.opened, player.placed, player.selected):
            signal.connect(self._offer)
        self._offer()

    @Slot()
    def _offer(self, _position: int = 0) -> None:
        """Offers the selected cell's candidates; a text that was typed stays."""
        player, record, kept = self._player, self._player.block, "" if self.listed is not None else self.currentText()
        self.clear()
        position, frame = player.selection, player.frame
        if frame is not None and record is not None and record.steps and 0 <= position < record.length:
            tokens, shares = record.top_tokens, record.top_probabilities
            if tokens is not None and shares is not None:
                step = min(frame.step + 1, record.steps - 1)
                for token, share in zip(tokens[step, position], shares[step, position], strict=True):
                    self.addItem(f"{token_words(player.piece(int(token)))}  {chance_words(float(share))}", int(token))
        if kept or not self.count():
            self.setEditText(kept)

    @property
    def listed(self) -> int | None:
        """The candidate that is chosen from the list; None if a text was typed, or nothing was chosen."""
        index = self.currentIndex()
        is_listed = index >= 0 and self.currentText() == self.itemText(index)
        return int(self.itemData(index)) if is_listed else None

    def token(self) -> int:
        """Returns the token that is chosen or typed.

        Raises:
            SafelightError: the text is not one token.
        """
        if self.listed is not None:
            return self.listed
        text = self.currentText()
        if self.encode is None:
            raise SafelightError(tr("Load the model of this run to type a token, or choose a recorded one."))
        ids = self.encode(text) if text else []
        if len(ids) != 1:
            raise SafelightError(
                tr("{text} is {count} tokens; it must be one.", text=token_words(text), count=len(ids))
            )
        return int(ids[0])


@dataclass(frozen=True)
class Change:
    """A change to the run from a step on. ``position`` is -1 for a ban."""

    kind: str  # PIN, PUT or BAN
    position: int
    token: int


@dataclass(frozen=True)
class RunItem:
    """A run in the tree. ``parent`` is the id of the run it was forked from, empty for a root.

    ``key`` opens the run; it is empty if the run is not stored any more.
    """

    id: str
    parent: str
    key: str
    title: str


def knobs_of(config: GenerationConfig) -> tuple[str, ...]:
    """Returns the settings that a fork of a run can change with an effect."""
    live = DecodingChoice(config.decoder, acceptance=config.acceptance).settings
    can = SETTINGS if config.is_block_diffusion else MASK_SETTINGS
    return tuple(name for name in KNOBS if name in can and name in live)


class ForkPanel(QWidget):
    """Emits the requested forks. ``block`` sets why no fork can run now, ``spans.block`` the same for spans.

    ``spans`` and ``versions`` are laid out by the tab.
    """

    fork_asked = Signal(object)  # engine.Fork
    infill_asked = Signal(object)  # a tuple of engine.Mark
    run_chosen = Signal(str)  # key

    def __init__(self, player: Player) -> None:
        super().__init__(accessibleName=tr("Run on with a change"))
        self._player = player
        self._changes: list[Change] = []
        self._blocked = self._offer = ""
        self._shown: tuple[list[RunItem], str] = [], ""  # the tree, and the id of the current run
        self.place = Elided("setting")  # of one line: it does not move what is below
        self.token = TokenChoice(player)
        self.pin = button(tr("Pin"), tr("Pin the selected cell to the token"), tip=tr("It never changes from here on"))
        self.put = button(tr("Put"), tr("Put the token into the selected cell"), tip=tr("It may change again"))
        self.ban = button(tr("Ban"), tr("Ban the token"), tip=tr("It appears nowhere from here on"))
        self.changes = introduce(QListWidget(), tr("Changes"))
        self.remove = button(tr("Remove"), tr("Remove the selected change"), clicked=self._remove)
        self.boxes = {name: number_box(SAMPLER[name]) for name in KNOBS}
        self._names: dict[str, QWidget] = {}  # of the boxes
        self.seed = SeedBox()
        self.run = button(tr("Run with this change"), role="primary")
        self.reason = label("", "caption", wrap=True, name=tr("What stands in the way, or comes first"))
        self.spans = Spans(player)
        self.problem = label("", "error", wrap=True, name=tr("Problem"))
        self.problem.hide()
        self.tree = introduce(QTreeWidget(), tr("Versions of this run"))
        self.tree.setHeaderHidden(True)
        self.tree.setMinimumHeight(px(120))
        self._lay_out()
        self._connect()
        self._show_place()

    def _lay_out(self) -> None:
        tokens = row_of((self.token, 1), self.pin, self.put, self.ban, spacing=12)
        self.token.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)  # gets what the buttons leave
        grid = QGridLayout()
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(4)
        settings = [SAMPLER[name] for name in self.boxes]
        for row, setting in enumerate((*settings, SEED)):
            self._names[setting.name] = label(tr(setting.label), "caption", wrap=True)
            grid.addWidget(self._names[setting.name], row, 0)
            grid.addWidget(self.seed if setting is SEED else self.boxes[setting.name], row, 1)
        grid.setColumnStretch(0, 1)
        grid.setColumnStretch(1, 2)
        run, remove = (self.run, 0, Qt.AlignmentFlag.AlignLeft), (self.remove, 0, Qt.AlignmentFlag.AlignRight)
        changing = (self.place, tokens, grid)
        ending = (run, self.reason, self.problem, self.changes, remove)  # nothing that comes and goes moves the button
        self.setLayout(column_of(*changing, *ending, STRETCH, spacing=8))
        self.versions = boxed(column_of(label(tr("Versions"), "setting"), self.tree, spacing=8))

    def _connect(self) -> None:
        self.pin.clicked.connect(lambda: self._add(PIN))
        self.put.clicked.connect(lambda: self._add(PUT))
        self.ban.clicked.connect(lambda: self._add(BAN))
        self.run.clicked.connect(self._ask)
        self.spans.asked.connect(lambda: self.say(""))
        self.spans.asked.connect(self.infill_asked)
        self.tree.itemActivated.connect(lambda item: self.run_chosen.emit(item.data(0, Qt.ItemDataRole.UserRole)))
        self._player.opened.connect(self._opened)
        self._player.placed.connect(self._show_place)
        self._player.selected.connect(self._show_place)

    def block(self, reason: str, offer: str = "") -> None:
        """Sets the reason why no fork can run now; empty if one can. ``offer`` is the model to load first."""
        self._blocked, self._offer = reason, offer
        said = what_comes_first(offer, reason)
        show_line(self.reason, said)
        describe(self.run, said)
        self._show_place()

    def say(self, problem: str) -> None:
        """Shows why a fork could not be made; an empty text removes the message."""
        show_line(self.problem, problem[:1].upper() + problem[1:])

    def show_runs(self, runs: Sequence[RunItem], current: str) -> None:
        """Shows the tree of runs; ``current`` is the id of the open run."""
        if (list(runs), current) == self._shown:
            return
        self._shown = list(runs), current
        self.tree.clear()
        items = {run.id: QTreeWidgetItem([run.title]) for run in runs}
        for run in runs:
            item, parent = items[run.id], items.get(run.parent)
            item.setData(0, Qt.ItemDataRole.UserRole, run.key)
            item.setToolTip(0, run.title)
            item.setDisabled(not run.key)
            if parent is None or parent is item:
                self.tree.addTopLevelItem(item)
            else:
                parent.addChild(item)
        self.tree.expandAll()
        if current in items:
            self.tree.setCurrentItem(items[current])
            self.tree.scrollToItem(items[current])

    @Slot()
    def _opened(self) -> None:
        self._changes.clear()
        trace = self._player.trace
        if trace is not None:
            for name, box in self.boxes.items():
                box.setValue(getattr(trace.config, name))
            self.seed.setValue(trace.seed or 0)
            self._offer_what_applies(trace.config)
        self._show_changes()

    def _offer_what_applies(self, config: GenerationConfig) -> None:
        """Shows what can change a run. Over masks, a token that is put into a cell stays unless the run rewrites."""
        rewrites = config.decoder == "block_causal" and config.edit_probability < 1
        self.put.setVisible(config.is_block_diffusion or rewrites)
        for name, box in self.boxes.items():
            box.setVisible(name in knobs_of(config))
            self._names[name].setVisible(name in knobs_of(config))

    @Slot()
    def _show_place(self) -> None:
        frame, record, selection = self._player.frame, self._player.block, self._player.selection
        has_cell = record is not None and 0 <= selection < record.length
        for widget in (self.pin, self.put):
            widget.setEnabled(has_cell)
        self.ban.setEnabled(record is not None)
        self.run.setEnabled(frame is not None and (bool(self._offer) or not self._blocked))
        if frame is None or record is None:
            self.place.set_whole(tr("Open a run to change it."))
            return
        step = step_number(min(frame.step + 1, record.steps))
        is_long = self._player.replay is not None and self._player.replay.blocks > 1
        where = tr("From step {step} on", step=step)
        if is_long:
            where = tr("From block {block}, step {step} on", block=frame.block + 1, step=step)
        cell = self._player.name_of(selection) if has_cell else tr("select a cell to change it")
        self.place.set_whole(tr("{where}: {cell}", where=where, cell=cell))

    def _add(self, kind: str) -> None:
        try:
            change = Change(kind, NOTHING if kind == BAN else self._player.selection, self.token.token())
        except SafelightError as error:
            self.say(str(error))
            return
        self.say("")
        same = [old for old in self._changes if kind != BAN and old.kind != BAN and old.position == change.position]
        self._changes = [old for old in self._changes if old not in same and old != change] + [change]
        self._show_changes()

    @Slot()
    def _remove(self) -> None:
        row = self.changes.currentRow()
        if row >= 0:
            del self._changes[row]
            self._show_changes()

    def _show_changes(self) -> None:
        self.changes.clear()
        for change in self._changes:
            piece, cell = self._player.piece(change.token), self._player.name_of(change.position)
            said = {
                PIN: pinned_in_words(cell, piece),
                PUT: put_in_words(cell, piece),
                BAN: banned_in_words(piece),
            }
            self.changes.addItem(QListWidgetItem(capital(said[change.kind])))
        fit_rows(self.changes)
        self.changes.setVisible(bool(self._changes))
        self.remove.setVisible(bool(self._changes))

    @property
    def has_pin(self) -> bool:
        return any(change.kind == PIN for change in self._changes)

    def draft(self) -> Fork | None:
        """Returns the fork with the chosen changes at the current frame; None without a run.

        Raises:
            SafelightError: the fork cannot be made there.
        """
        frame, record, trace = self._player.frame, self._player.block, self._player.trace
        if frame is None or record is None or trace is None:
            return None

        def of(kind: str) -> tuple[tuple[int, int], ...]:
            return tuple((change.position, change.token) for change in self._changes if change.kind == kind)

        if record.has_masks and frame.step + 1 >= record.steps:
            raise SafelightError(tr("The block ends with this step; go to an earlier one to change it."))
        return Fork(
            block=frame.block,
            step=min(frame.step + 1, record.steps),
            pinned=of(PIN),
            edits=of(PUT),
            banned=tuple(token for _, token in of(BAN)),
            seed=None if self.seed.value() == trace.seed else self.seed.value(),
            settings=tuple(self._changed(trace.config)),
        )

    def _changed(self, config: GenerationConfig) -> Iterator[tuple[str, float]]:
        """Yields the settings that differ from the run's, by name."""
        for name, box in self.boxes.items():
            if name in knobs_of(config):
                before = getattr(config, name)
                value = number_in(box, SAMPLER[name], before)
                if value is not None and value != before:
                    yield name, value

    @Slot()
    def _ask(self) -> None:
        try:
            fork = self.draft()
        except SafelightError as error:
            self.say(str(error))
            return
        if fork is not None and (self._offer or not self._blocked):
            self.say("")
            self.fork_asked.emit(fork)
