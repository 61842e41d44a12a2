"""The slim bar over everything: the name, which model, how it looks, and the settings switch."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QAction, QActionGroup, QResizeEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QMenu, QSizePolicy, QToolButton, QWidget

from app.controls import label
from engine import EMBEDDED

THEMES = (("darkroom", "Darkroom"), ("paper", "Paper"), ("system", "System"))
ROOM_FOR_FACTS = 800  # pixels
OPEN_FOLDER = "open-folder"  # the chooser's last entry


class TopBar(QWidget):
    """Emits choices; ``show_*`` reflect them without emitting."""

    model_chosen = Signal(str)  # an embedded model's id or a folder
    folder_asked = Signal()
    theme_chosen = Signal(str)
    settings_toggled = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("topbar")
        self.setFixedHeight(52)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.chooser = QComboBox()
        self.chooser.setAccessibleName("Model")
        self.chooser.setAccessibleDescription("Which model answers (Ctrl+M)")
        self.chooser.setToolTip("Which model answers (Ctrl+M)")
        self.chooser.setMinimumWidth(200)
        for model in EMBEDDED:
            self.chooser.addItem(model.title, model.id)
            self.chooser.setItemData(self.chooser.count() - 1, model.purpose, Qt.ItemDataRole.ToolTipRole)
        self.chooser.insertSeparator(self.chooser.count())
        self.chooser.addItem("Open folder…", OPEN_FOLDER)
        self.chooser.activated.connect(self._choose)
        self.facts = label("", "caption")

        self.theme = QToolButton()
        self.theme.setProperty("role", "quiet")
        self.theme.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.theme.setToolTip("Darkroom, Paper or as the system is (Ctrl+T takes the next)")
        menu = QMenu(self.theme)
        group = QActionGroup(menu)
        self._theme_actions: dict[str, QAction] = {}
        for value, text in THEMES:
            action = menu.addAction(text)
            action.setCheckable(True)
            action.setData(value)
            group.addAction(action)
            self._theme_actions[value] = action
        group.triggered.connect(self._choose_theme)
        self.theme.setMenu(menu)

        self.settings = QToolButton()
        self.settings.setProperty("role", "quiet")
        self.settings.setText("Settings")
        self.settings.setCheckable(True)
        self.settings.setAccessibleName("Settings strip")
        self.settings.setToolTip("Show or hide the settings (Ctrl+,)")
        self.settings.toggled.connect(self.settings_toggled)

        row = QHBoxLayout(self)
        row.setContentsMargins(24, 0, 16, 0)
        row.setSpacing(8)
        mark = label("●", "mark")
        mark.setAccessibleName("")
        row.addWidget(mark)
        row.addWidget(label("Safelight", "wordmark"))
        row.addSpacing(24)
        row.addWidget(self.chooser)
        row.addSpacing(4)
        row.addWidget(self.facts)
        row.addStretch(1)
        row.addWidget(self.theme)
        row.addWidget(self.settings)
        self.show_theme("system")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.facts.setVisible(self.width() >= ROOM_FOR_FACTS)

    def show_model(self, path_or_id: str, title: str) -> None:
        """Show which model is loaded or being loaded; an unknown folder gets an entry."""
        index = self.chooser.findData(path_or_id)
        if index < 0:
            index = len(EMBEDDED)
            self.chooser.insertItem(index, title, path_or_id)
        self.chooser.setCurrentIndex(index)

    def show_theme(self, choice: str) -> None:
        """Show which theme is chosen."""
        title = dict(THEMES)[choice]
        self._theme_actions[choice].setChecked(True)
        self.theme.setText(f"Theme: {title}")
        self.theme.setAccessibleName(f"Theme, {title}")

    def title_of(self, path_or_id: str) -> str:
        """What the chooser calls a model."""
        index = self.chooser.findData(path_or_id)
        return self.chooser.itemText(index) if index >= 0 else path_or_id

    @Slot(int)
    def _choose(self, index: int) -> None:
        chosen = self.chooser.itemData(index)
        if chosen == OPEN_FOLDER:
            self.folder_asked.emit()
        else:
            self.model_chosen.emit(chosen)

    @Slot(QAction)
    def _choose_theme(self, action: QAction) -> None:
        self.theme_chosen.emit(action.data())
