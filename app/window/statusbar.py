"""The status bar: device, memory, model and the figures of the run. Knows plain values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QSize, Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QLayout, QPushButton, QSizePolicy, QWidget

from app.design.controls import button, label
from app.design.fonts import TEXT_SMALL, px
from app.design.layouts import row_of
from app.design.tokens import Theme
from app.state.run.figures import rate_text, seconds_text
from app.state.run.stats import RunStats
from app.system.i18n import tr, trn
from app.system.memory_use import size
from app.system.timers import later

HEIGHT = 28  # pixels, at 100 %
MARGIN, GAP = 16, 16
SAVED_MS = 5000  # milliseconds for which "All is saved" is shown
LEAST_MODEL = 72  # pixels; a name elided further is unreadable


@dataclass(frozen=True)
class Field:
    """A figure: its label, its meaning, and its rank in hiding for lack of room (highest first)."""

    name: str
    label: str
    meaning: str
    leaves: int


FIELDS = (
    Field(
        "unsaved",
        "Library",
        "Changes are saved as soon as possible. Free some disk space, or close the program that uses the library.",
        -1,
    ),
    Field("offline", "Network", "The network is not used. To change it: Settings, Storage and privacy.", 0),
    Field("device", "Device", "Where the model computes, and on how many CPU threads.", 2),
    Field("memory", "Memory", "Memory that Safelight uses, of all the memory in this computer.", 4),
    Field("device_memory", "Graphics memory", "Memory in use on the graphics card, of all that it has.", 3),
    Field("model", "Model", "The model that answers.", 1),
    Field("server", "Local server", "Other programs can use the model. A click shows the server.", 6),
    Field("steps", "Steps", "Steps of this answer so far, in all its blocks.", 6),
    Field("pace", "Time per block", "Average time for a block, full or not.", 7),
    Field("forward", "Tokens per pass", "Tokens of text for each pass of the model, on average.", 8),
    Field("speed", "Speed", "Tokens of text per second, without the time to read the prompt.", 5),
)


@dataclass(frozen=True)
class FigureText:
    """A figure's text, and a shorter text for a narrow window."""

    text: str
    short: str = ""

    @property
    def least(self) -> str:
        return self.short or self.text


NOTHING = FigureText("")


def style(theme: Theme) -> str:
    """Returns the bar's rules, for the window's style sheet."""
    return f"""
QWidget#statusbar {{ background: {theme.surface}; border-top: 1px solid {theme.line}; }}
QWidget#statusbar QLabel {{ font-size: {TEXT_SMALL}px; color: {theme.faint_ink}; }}
QWidget#statusbar QPushButton {{ font-size: {TEXT_SMALL}px; min-height: 0; padding: 0; border: none; }}
QWidget#statusbar QPushButton:hover, QWidget#statusbar QPushButton[ring="true"] {{ color: {theme.ink}; }}
QWidget#statusbar QLabel#offline, QWidget#statusbar QLabel#unsaved {{ color: {theme.ink}; font-weight: 600; }}
"""


def device_text(device: str) -> str:
    """Returns a device's display name."""
    if device == "remote":
        return tr("Remote")
    kind, _, number = device.partition(":")
    return "CPU" if kind == "cpu" else f"GPU {number}" if kind == "cuda" and number else "GPU"


class StatusBar(QWidget):
    """``show_*`` set figures; None removes them. In a narrow window they are shortened or hidden."""

    server_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("statusbar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName(tr("Status"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.labels: dict[str, QLabel | QPushButton] = {}
        self._device_tip = ""
        self._texts = dict.fromkeys((field.name for field in FIELDS), NOTHING)
        row = row_of(margins=(MARGIN, 1, MARGIN, 0), spacing=GAP)
        self.setLayout(row)
        row.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)  # the window may be narrower than the texts
        for field in FIELDS:
            made = self._server() if field.name == "server" else label()
            made.setObjectName(field.name)
            made.setToolTip(tr(field.meaning))
            made.hide()
            self.labels[field.name] = made
            if field.name == "steps":
                row.addStretch(1)
            row.addWidget(made)
        self._saved = later(self, self._forget_saved)
        self._fit_height()

    def _server(self) -> QPushButton:
        made = button("", tr("Local server"), role="link", clicked=self.server_asked)
        return made

    def show_server(self, text: str) -> None:
        """Shows that the local server is on; hides it for an empty text."""
        self._set_text("server", FigureText(text) if text else NOTHING)

    def show_offline(self, is_offline: bool) -> None:
        """Shows if the network is switched off."""
        self._set_text("offline", FigureText(tr("Offline")) if is_offline else NOTHING)

    @Slot(str)
    def show_unsaved(self, problem: str) -> None:
        """Shows that something on the screen is not saved; with an empty ``problem``, briefly that everything is
        saved."""
        self._saved.stop()
        if problem:
            self._set_text("unsaved", FigureText(tr("Not saved yet")))
        elif self._texts["unsaved"] != NOTHING:
            self._set_text("unsaved", FigureText(tr("Everything is saved")))
            self._saved.start(SAVED_MS)

    @Slot()
    def _forget_saved(self) -> None:
        self._set_text("unsaved", NOTHING)

    def show_memory(self, used_bytes: int, total_bytes: int, device: str) -> None:
        """Shows the memory in use: for ``cpu`` the process's share of the machine's, for ``cuda…`` that of a graphics
        card."""
        used, total = size(used_bytes), size(total_bytes)
        text = tr("{used} of {total}", used=used, total=total)
        if device.startswith("cuda"):
            self._set_text("device_memory", FigureText(tr("GPU {text}", text=text), tr("GPU {text}", text=used)))
        else:
            self._set_text("memory", FigureText(text, used))

    def show_model(
        self, title: str | None, device: str = "", threads: int = 0, reason: str = "", kernels: str = ""
    ) -> None:
        """Shows the loaded model and its device, on a CPU with the number of threads; None if no model is loaded.

        ``reason`` explains the choice of the device; ``kernels`` names the kernels in use.
        """
        self._texts["model"] = FigureText(title) if title else NOTHING
        where = device_text(device)
        on = trn("{device}, {count} thread", "{device}, {count} threads", threads, device=where) if threads else where
        self._texts["device"] = FigureText(on, where) if title and device else NOTHING
        why = [tr("Reason for this device: {reason}.", reason=tr(reason))] if reason else []
        how = [tr("Computed by: {kernels}.", kernels=tr(kernels))] if kernels else []
        self._device_tip = " ".join((*why, *how))
        if not device.startswith("cuda"):
            self._texts["device_memory"] = NOTHING
        self._fit()

    def show_run(self, stats: RunStats | None) -> None:
        """Shows the figures of the current run, or of the last one."""
        if stats is None:
            self.show_figures(0, 0, None, None, None)
        else:
            blocks = 0 if stats.canvases.grows else stats.blocks  # growing text has no blocks to count time by
            self.show_figures(
                stats.total_steps, blocks, stats.seconds, stats.tokens_per_forward, stats.tokens_per_second
            )

    def show_figures(
        self,
        steps: int,
        blocks: int,
        seconds: float | None,
        tokens_per_forward: float | None,
        tokens_per_second: float | None,
    ) -> None:
        """Shows the figures of a run from plain numbers; ``seconds`` are of all blocks. Unknown figures are omitted."""
        counted = tr("1 step") if steps == 1 else tr("{count} steps", count=f"{steps:,}")
        self._texts["steps"] = FigureText(counted) if steps else NOTHING
        self._texts["pace"] = self._texts["forward"] = self._texts["speed"] = NOTHING
        if steps and blocks and seconds is not None:
            each = seconds_text(seconds / blocks)
            self._texts["pace"] = FigureText(tr("{time} per block", time=each), tr("{time}/block", time=each))
        if tokens_per_forward is not None:
            count = rate_text(tokens_per_forward)
            self._texts["forward"] = FigureText(
                tr("{count} tokens per pass", count=count), tr("{count} tok/pass", count=count)
            )
        if tokens_per_second is not None and tokens_per_second >= 1:
            self._texts["speed"] = FigureText(tr("{count} tok/s", count=f"{tokens_per_second:,.0f}"))
        self._fit()

    def text(self, name: str) -> str:
        """Returns a figure's full text, even if there is no room for it; empty if unknown."""
        return self._texts[name].text

    def _set_text(self, name: str, figure: FigureText) -> None:
        if self._texts[name] != figure:
            self._texts[name] = figure
            self._fit()

    def sizeHint(self) -> QSize:
        return QSize(640, self.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._fit_height()
            self._fit()

    def _fit_height(self) -> None:
        height = max(HEIGHT, px(HEIGHT) - 4)
        if self.height() != height or self.minimumHeight() != height:
            self.setFixedHeight(height)

    def _fit(self) -> None:
        """Chooses texts for the width, and gives all of them to assistive technology."""
        known = [field for field in FIELDS if self._texts[field.name].text]
        widths = [(self._width(field, self._texts[field.name].text), self._least(field)) for field in known]
        shares = fit(widths, [field.leaves for field in known], self.width() - 2 * MARGIN, GAP)
        descriptions = []
        for field in FIELDS:
            made, figure = self.labels[field.name], self._texts[field.name]
            room = shares[known.index(field)] if field in known else 0
            made.setVisible(room > 0)
            if not figure.text:
                continue
            whole = f"{tr(field.label)}, {figure.text}"
            descriptions.append(whole)
            made.setAccessibleName(whole)
            more = f" {self._device_tip}" if field.name == "device" and self._device_tip else ""
            made.setToolTip(f"{whole}. {tr(field.meaning)}{more}")
            shown = figure.text if room >= self._width(field, figure.text) else figure.least
            if room:
                made.setText(made.fontMetrics().elidedText(shown, Qt.TextElideMode.ElideMiddle, room))
        self.setAccessibleDescription("; ".join(descriptions))

    def _width(self, field: Field, text: str) -> int:
        self.labels[field.name].ensurePolished()
        return self.labels[field.name].fontMetrics().horizontalAdvance(text) + 1

    def _least(self, field: Field) -> int:
        least = self._width(field, self._texts[field.name].least)
        return min(least, px(LEAST_MODEL)) if field.name == "model" else least


def fit(widths: Sequence[tuple[int, int]], leaves: Sequence[int], room: int, gap: int) -> list[int]:
    """Divides ``room`` pixels among parts with a full and a minimum width; 0 hides a part.

    Parts shrink to their minimum width in the order of ``leaves`` (highest first), and are hidden
    in that order once all have shrunk. Remaining room is given back, first to those hidden last.
    """
    shares = [full for full, _least in widths]
    order = sorted(range(len(widths)), key=lambda place: -leaves[place])

    def over() -> int:
        shown = [share for share in shares if share]
        return sum(shown) + gap * len(shown) - room

    for place in order:
        if over() > 0:
            full, least = widths[place]
            shares[place] = max(least, full - over())
    for place in order:
        if over() > 0:
            shares[place] = 0
    for place in reversed(order):
        if not shares[place] and over() + gap + widths[place][1] <= 0:
            shares[place] = widths[place][1]
    for place in reversed(order):
        if shares[place]:
            shares[place] += min(widths[place][0] - shares[place], max(0, -over()))
    return shares
