"""The dialog that exports the open run to a file, in slices between events. Only the folder is remembered."""

from __future__ import annotations

import re
import time
from pathlib import Path

from PySide6.QtCore import QSettings, QStandardPaths, Signal, Slot
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QFileDialog,
    QFormLayout,
    QProgressBar,
    QWidget,
)

from app.design.controls import button, choice_of, introduce, label, restyle, show_line
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.export import FORMATS, ExportFormat
from app.export.run import FPS_HIGH, FPS_LOW, Options, Share, export, frames_of
from app.player.player import Player
from app.settings import store
from app.settings.fields import RealBox
from app.system.i18n import size, tr
from app.system.timers import every
from engine import SafelightError
from engine.settings import Setting

FOLDER_KEY = "export/folder"
SLICE_SECONDS = 0.02
DIALOG_WIDTH = 560  # pixels at 100 %


class ExportDialog(QDialog):
    """Exports the player's run. ``exported`` is emitted with the path of each written file."""

    exported = Signal(str)

    def __init__(self, player: Player, parent: QWidget | None = None, settings: QSettings | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Export the run"))
        self.setMinimumWidth(px(DIALOG_WIDTH))
        self._player = player
        self._settings = settings if settings is not None else store.default_settings()
        self._work: Share | None = None
        self._timer = every(self, self._slice)
        self._make_controls()
        self._lay_out()
        self._fit_format()

    def _make_controls(self) -> None:
        block = self._player.frame.block + 1 if self._player.frame is not None else 1
        formats = [(name, tr(format.title)) for name, format in FORMATS.items()]
        self.format = introduce(choice_of(formats), tr("Format"))
        which = [
            ("fitting", tr("As suits the format")),
            ("block", tr("All of block {block}", block=block)),
            ("here", tr("The step shown")),
        ]
        self.which = introduce(choice_of(which), tr("Steps"))
        self.theme = introduce(choice_of([("darkroom", tr("Darkroom")), ("paper", tr("Paper"))]), tr("Theme"))
        is_dark = self.palette().window().color().lightness() < 128
        self.theme.setCurrentIndex(0 if is_dark else 1)
        self.scale = introduce(choice_of([(1, "1×"), (2, "2×")]), tr("Scale"))
        self.fps = RealBox(Setting("Speed", "frames a second", "", FPS_LOW, FPS_HIGH, 1.0, 1))
        self.fps.setValue(Options().fps)
        self.fps.setSuffix(" " + tr("frames a second"))
        self.prompt = introduce(
            QCheckBox(tr("Include the prompt")),
            tip=tr("Without it, nothing that was asked is in the file. What was answered is."),
        )
        self.prompt.setChecked(True)
        self.message = label("", "caption", wrap=True, selectable=True)
        self.progress = introduce(QProgressBar(textVisible=False, maximum=1000), tr("Progress of the export"))
        self.close_button = button(tr("Close"), tr("Close the export"), role="plain", clicked=self.reject)
        self.go = button(tr("Export…"), tr("Name the file and write it"), role="primary", clicked=self.start)
        self.close_button.setAutoDefault(False)
        self.go.setDefault(True)
        self.format.currentIndexChanged.connect(self._fit_format)

    def _lay_out(self) -> None:
        self._form = form = QFormLayout(
            horizontalSpacing=16,
            verticalSpacing=8,
            fieldGrowthPolicy=QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow,
        )
        rows: tuple[tuple[str, QWidget], ...] = (
            (tr("Format"), self.format),
            (tr("Steps"), self.which),
            (tr("Theme"), self.theme),
            (tr("Scale"), self.scale),
            (tr("Speed"), self.fps),
            ("", self.prompt),
        )
        self._controls = [control for _words, control in rows]
        for words, control in rows:
            form.addRow(words, control)
        bottom = row_of(STRETCH, self.close_button, self.go, spacing=8)
        self.setLayout(
            column_of(form, self.message, self.progress, STRETCH, bottom, margins=(24, 24, 24, 24), spacing=16)
        )
        self.progress.hide()
        self.message.hide()

    @Slot()
    def _fit_format(self) -> None:
        for control in (self.which, self.theme, self.scale):
            self._form.setRowVisible(control, self._format.is_drawn)
        self._form.setRowVisible(self.fps, self._format.is_moving)
        self._say("")
        self.adjustSize()

    @property
    def _format(self) -> ExportFormat:
        return FORMATS[self.format.currentData()]

    def options(self) -> Options:
        """Returns the chosen options; noise or best guesses, board or tokens are those of the page."""
        return Options(
            format=self._format.name,
            prompt=self.prompt.isChecked(),
            theme=self.theme.currentData(),
            board=self._player.board,
            calm=self._player.calm,
            scale=self.scale.currentData(),
            fps=self.fps.value(),
            frames=self._frames() if self._format.is_drawn else None,
        )

    def _frames(self) -> tuple[int, ...] | None:
        player, which = self._player, self.which.currentData()
        if player.replay is None or player.frame is None:
            return None  # the writer reports that there is no run
        match which:
            case "here":
                return (player.place,)
            case "block":
                return frames_of(player.replay, player.frame.block)
        return (player.place,) if self._format.is_single else None

    def _folder(self) -> Path:
        kept = str(self._settings.value(FOLDER_KEY) or "")
        if kept and Path(kept).is_dir():
            return Path(kept)
        place = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
        return Path(place) if place and Path(place).is_dir() else Path.home()

    def _name(self) -> str:
        """Returns a file name that does not reveal the prompt."""
        trace = self._player.trace
        name, seed = ("", None) if trace is None else (trace.model_name, trace.seed)
        model = re.sub(r"[^\w.-]+", "-", name or "run").strip("-.") or "run"
        return f"{model[:60]}{'' if seed is None else f'-seed-{seed}'}{self._format.suffix}"

    @property
    def is_busy(self) -> bool:
        return self._work is not None

    @Slot()
    def start(self) -> None:
        suffix = self._format.suffix
        kinds = f"{self.format.currentText().replace('(', '').replace(')', '')} (*{suffix})"
        named = str(self._folder() / self._name())
        if chosen := QFileDialog.getSaveFileName(self, tr("Export the run"), named, kinds)[0]:
            path = Path(chosen)
            self.write(path if path.suffix else path.with_suffix(suffix))

    def write(self, path: Path) -> None:
        """Begins to write the file, in place of what was there."""
        if self.is_busy or self._player.trace is None:
            return
        self._player.pause()
        self._path = path
        self._work = export(self._player.trace, path, self.options())
        self._show_busy()
        self._timer.start(0)

    @Slot()
    def _slice(self) -> None:
        until = time.monotonic() + SLICE_SECONDS
        try:
            while self._work is not None and time.monotonic() < until:
                self.progress.setValue(round(1000 * next(self._work)))
        except StopIteration as end:
            self._end()
            self._settings.setValue(FOLDER_KEY, str(self._path.absolute().parent))
            said = tr("Written: {path} ({size})", path=str(self._path), size=size(self._path.stat().st_size))
            self._say("\n".join(filter(None, (said, end.value))))
            self.exported.emit(str(self._path))
            if not end.value:  # a remark about the file stays visible
                self.accept()
        except SafelightError as error:
            self._end()
            self._say(str(error), wrong=True)
        except BaseException:
            self._end()
            self._say(tr("The export failed. Try another format."), wrong=True)
            raise

    def _end(self) -> None:
        self._timer.stop()
        work, self._work = self._work, None
        if work is not None:
            work.close()
        self._show_busy()

    def _show_busy(self) -> None:
        busy = self.is_busy
        for control in self._controls:
            control.setEnabled(not busy)
        self.go.setEnabled(not busy)
        self.progress.setVisible(busy)
        self.progress.setValue(0)
        self.close_button.setText(tr("Cancel") if busy else tr("Close"))
        self.close_button.setAccessibleName(tr("Stop the export") if busy else tr("Close the export"))
        if busy:
            self._say("")
            self.close_button.setFocus()

    def _say(self, text: str, *, wrong: bool = False) -> None:
        restyle(self.message, "role", "error" if wrong else "caption")
        show_line(self.message, text)

    def reject(self) -> None:
        """Stops a running export, or closes the dialog."""
        if self.is_busy:
            self._end()
            self._say(tr("Stopped. Nothing was written."))
        else:
            super().reject()

    def closeEvent(self, event: QCloseEvent) -> None:
        if self.is_busy:
            self._end()
        super().closeEvent(event)
