"""The status bar: device, memory and model; and what keeps it, the top bar and unsaved changes up to date."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QLayout, QProgressBar, QPushButton, QSizePolicy, QWidget

from app.bridge.remote_access import only_text
from app.context import AppContext
from app.design import motion
from app.design.controls import button, introduce, label
from app.design.fonts import TEXT_SMALL, px
from app.design.layouts import row_of
from app.design.tokens import Theme
from app.server.words import status_text
from app.session.turn_request import title_of
from app.settings.strip import SettingsStrip
from app.system.i18n import size, tr, trn
from app.system.timers import later
from app.window.topbar import TopBar
from engine.service import MemoryUsed, ServiceReply, is_remote

STATUSBAR_HEIGHT = 28  # pixels, at 100 %
MARGIN, GAP = 16, 16
SAVED_MS = 5000  # milliseconds for which "All is saved" is shown
MAX_MODEL = 320  # pixels at 100 %, of a name that is not elided


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
    Field("device_memory", "Graphics memory", "Memory in use on the graphics card, of all that it has.", 3),
    Field("model", "Model", "The model that answers.", 1),
    Field("server", "Local server", "Other programs can use the model. A click shows the server.", 6),
)


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
    if device == "remote":
        return tr("Remote")
    kind, _, number = device.partition(":")
    return "CPU" if kind == "cpu" else f"GPU {number}" if kind == "cuda" and number else "GPU"


class StatusBar(QWidget):
    """``show_*`` set figures; None removes them. In a narrow window some are hidden."""

    server_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        introduce(self, tr("Status"), id="statusbar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.labels: dict[str, QLabel | QPushButton] = {}
        self._device_tip = ""
        self._texts = dict.fromkeys((field.name for field in FIELDS), "")
        row = row_of(margins=(MARGIN, 1, MARGIN, 0), spacing=GAP)
        self.setLayout(row)
        row.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)  # the window may be narrower than the texts
        for field in FIELDS:
            server = field.name == "server"
            widget = button("", tr("Local server"), clicked=self.server_asked) if server else label()
            self.labels[field.name] = introduce(widget, tip=tr(field.meaning), id=field.name)
            widget.hide()
            row.addWidget(widget)
        row.addStretch(1)
        self._saved = later(self, partial(self._set_text, "unsaved", ""))
        self._fit_height()

    def show_server(self, text: str) -> None:
        """Shows that the local server is on; hides it for an empty text."""
        self._set_text("server", text)

    def show_offline(self, is_offline: bool) -> None:
        self._set_text("offline", tr("Offline") if is_offline else "")

    @Slot(str)
    def show_unsaved(self, problem: str) -> None:
        """Shows that something on the screen is not saved; with an empty ``problem``, briefly that everything is
        saved."""
        self._saved.stop()
        if problem:
            self._set_text("unsaved", tr("Not saved yet"))
        elif self._texts["unsaved"]:
            self._set_text("unsaved", tr("Everything is saved"))
            self._saved.start(SAVED_MS)

    def show_memory(self, used_bytes: int, total_bytes: int) -> None:
        """Shows the memory of a graphics card that is in use."""
        text = tr("{used} of {total}", used=size(used_bytes), total=size(total_bytes))
        self._set_text("device_memory", tr("GPU {text}", text=text))

    def show_model(
        self, title: str | None, device: str = "", threads: int = 0, reason: str = "", kernels: str = ""
    ) -> None:
        """Shows the loaded model and its device, on a CPU with the number of threads; None if no model is loaded.

        ``reason`` explains the choice of the device; ``kernels`` names the kernels in use.
        """
        self._texts["model"] = title or ""
        where = device_text(device)
        on = trn("{device}, {count} thread", "{device}, {count} threads", threads, device=where) if threads else where
        self._texts["device"] = on if title and device else ""
        why = [tr("Reason for this device: {reason}.", reason=tr(reason))] if reason else []
        how = [tr("Computed by: {kernels}.", kernels=tr(kernels))] if kernels else []
        self._device_tip = " ".join((*why, *how))
        if not device.startswith("cuda"):
            self._texts["device_memory"] = ""
        self._fit()

    def text(self, name: str) -> str:
        """Returns a figure's full text, even if there is no room for it; empty if unknown."""
        return self._texts[name]

    def _set_text(self, name: str, text: str) -> None:
        if self._texts[name] != text:
            self._texts[name] = text
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
        height = max(STATUSBAR_HEIGHT, px(STATUSBAR_HEIGHT) - 4)
        if self.height() != height or self.minimumHeight() != height:
            self.setFixedHeight(height)

    def _fit(self) -> None:
        """Hides figures for lack of room, and gives all of them to assistive technology."""
        known = [field for field in FIELDS if self._texts[field.name]]
        widths = {field.name: self._width(field) for field in known}
        for field in sorted(known, key=lambda field: -field.leaves):
            if len(widths) > 1 and sum(widths.values()) + GAP * (len(widths) - 1) > self.width() - 2 * MARGIN:
                del widths[field.name]
        descriptions = []
        for field in FIELDS:
            widget, text = self.labels[field.name], self._texts[field.name]
            widget.setVisible(field.name in widths)
            if not text:
                continue
            whole = f"{tr(field.label)}, {text}"
            descriptions.append(whole)
            widget.setAccessibleName(whole)
            more = f" {self._device_tip}" if field.name == "device" and self._device_tip else ""
            widget.setToolTip(f"{whole}. {tr(field.meaning)}{more}")
            room = min(widths.get(field.name, 0), self.width() - 2 * MARGIN)
            widget.setText(widget.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, room))
        self.setAccessibleDescription("; ".join(descriptions))

    def _width(self, field: Field) -> int:
        widget = self.labels[field.name]
        widget.ensurePolished()
        width = widget.fontMetrics().horizontalAdvance(self._texts[field.name]) + 1
        return min(width, px(MAX_MODEL)) if field.name == "model" else width


class Indicators(QObject):
    """Updates a top bar, a strip of settings, a status bar and ``progress``."""

    def __init__(self, context: AppContext, topbar: TopBar, strip: SettingsStrip, status: StatusBar) -> None:
        super().__init__()
        self._context, self._topbar, self._strip, self._status = context, topbar, strip, status
        self.progress = introduce(QProgressBar(textVisible=False), tr("Loading the model"))
        context.slot.changed.connect(self.show_model)
        context.busy_changed.connect(self._show_progress)
        context.settings_changed.connect(strip.refresh)
        context.slot.models_changed.connect(self._offer_models)
        context.offline_changed.connect(self._show_offline)
        context.server.changed.connect(self._show_server)
        context.server.requests_changed.connect(self._show_server)
        context.backend.pacing.noted.connect(self._note)
        context.session.saving.problem_changed.connect(status.show_unsaved)
        self.show_model()
        self._show_progress()
        self._show_offline()

    @Slot()
    def show_model(self) -> None:
        model, loading = self._context.model, self._context.loading
        if model is not None:
            self._topbar.chooser.show_model(model.path_or_id, model.title)
            size = parameters(model.parameter_count) if model.parameter_count else ""
            where = tr("remote") if is_remote(model.path_or_id) else model.device.upper()
            untried = tr("experimental") if model.is_news and model.device != "cpu" else ""
            text_alone = tr("text only") if only_text(model) else ""
            facts = (size, where, untried, text_alone, model.adapter_title)
            self._topbar.facts.setText(" · ".join(filter(None, facts)))
            self._strip.show_values(model.defaults)
            self._strip.allow(model.settings, only_text(model))
            self._status.show_model(title_of(model), model.device, model.threads, model.device_reason, model.kernels)
            return
        self._topbar.chooser.show_model(*(("", "") if loading is None else (loading.path_or_id, loading.title)))
        self._topbar.facts.clear()
        self._status.show_model(None)

    @Slot()
    def _show_progress(self) -> None:
        loading = self._context.loading
        self.progress.setVisible(loading is not None)
        if loading is not None:
            unknown = loading.share == 0.0 and not motion.is_reduced()
            self.progress.setRange(0, 0 if unknown else 100)  # an empty range: indeterminate progress
            self.progress.setValue(round(100 * loading.share))

    @Slot()
    def _offer_models(self) -> None:
        self._topbar.chooser.offer_models(self._context.slot.models)

    @Slot()
    def _show_offline(self) -> None:
        self._status.show_offline(self._context.preferences.offline)

    @Slot()
    def _show_server(self) -> None:
        server = self._context.server
        self._status.show_server(status_text(server.unfinished) if server.is_on else "")

    @Slot(object)
    def _note(self, reply: ServiceReply) -> None:
        if isinstance(reply, MemoryUsed):
            self._status.show_memory(reply.used, reply.total)


def parameters(number: int) -> str:
    """Returns a parameter count in short form, such as "2.6 B parameters"."""
    for scale, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if number >= scale:
            return tr("{number} parameters", number=f"{number / scale:.1f} {unit}")
    return trn("{count} parameter", "{count} parameters", number)
