"""The four places: the frame around each page, and how they are reached."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.context import CHAT, DECISIONS, INSPECTOR, MODELS, RACE, SERVER, SUDOKU
from app.settings.values import DecodingChoice
from app.window.main_window import MainWindow
from app.window.pages import PAGES, PLACES
from app.window.topbar import MANAGE

Open = Callable[..., MainWindow]
CONTROL = Qt.KeyboardModifier.ControlModifier


def lit(window: MainWindow) -> list[str]:
    """The highlighted places of the top bar."""
    return [name for name, tool in window.topbar.places.items() if tool.isChecked()]


class Watch(QObject):
    """Notes each widget that is shown as a window: one shown before it has a parent flashes as such."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Show and isinstance(watched, QWidget) and watched.isWindow():
            self.shown.append(type(watched).__name__)
        return False


def test_the_top_bar_has_four_places_and_keys_reach_every_page(qtbot: QtBot, open_window: Open) -> None:
    window, watch = open_window(), Watch()
    QApplication.instance().installEventFilter(watch)
    assert [entry.name for entry in PLACES] == [CHAT, INSPECTOR, SUDOKU, RACE]
    places = {DECISIONS: [RACE], MODELS: [], SERVER: []}
    for number, entry in enumerate(PAGES, start=1):
        qtbot.keyClick(window, Qt.Key(Qt.Key.Key_0 + number), CONTROL)
        assert window.pages.current is window.pages[entry.name]
        assert lit(window) == places.get(entry.name, [entry.name])
        QApplication.processEvents()
    QApplication.instance().removeEventFilter(watch)
    assert watch.shown == []


def test_the_pages_of_a_place_are_tabs(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    chooser, tabs = window.topbar.chooser, window.place_bar.tabs
    assert not window.place_bar.isVisible()
    window.topbar.places[RACE].click()
    assert window.pages.current is window.pages[RACE]
    assert [tabs.tabText(place) for place in range(tabs.count())] == ["Race", "Decisions"]
    tabs.setCurrentIndex(1)
    assert window.pages.current is window.pages[DECISIONS]
    chooser.activated.emit(chooser.findData(MANAGE))
    assert window.pages.current is window.pages[MODELS]
    assert [tabs.tabText(place) for place in range(tabs.count())] == ["Models", "Server"]
    assert (tabs.isVisible(), tabs.currentIndex()) == (True, 0)
    tabs.setFocus()
    qtbot.keyClick(tabs, Qt.Key.Key_Right)
    assert window.pages.current is window.pages[SERVER]
    assert tabs.hasFocus()
    window.show_page(CHAT)
    window.status.server_asked.emit()
    assert (window.pages.current, tabs.currentIndex()) == (window.pages[SERVER], 1)


def test_the_conversations_are_in_the_chat_only_and_nothing_moves(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    before = [tool.geometry() for tool in window.topbar.places.values()]
    assert window.sidebar.isVisible()
    for page in (INSPECTOR, RACE, MODELS):
        window.show_page(page)
        assert not window.sidebar.isVisible()
        assert not window.topbar.sidebar.isVisible()
        window.topbar.layout().activate()
        assert [tool.geometry() for tool in window.topbar.places.values()] == before
    qtbot.keyClick(window, Qt.Key.Key_B, CONTROL)
    assert window.pages.current is window.pages.chat()
    assert window.sidebar.isVisible()
    qtbot.keyClick(window, Qt.Key.Key_B, CONTROL)
    assert not window.sidebar.isVisible()
    window.show_page(SUDOKU)
    window.actions_by_name.run("search")
    assert window.sidebar.isVisible()
    assert window.sidebar.isAncestorOf(window.focusWidget())


def test_without_room_sampler_and_settings_are_in_the_place_menu(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    bar = window.topbar
    in_menu = {action.text(): action for action in bar.place_menu.menu().actions()}
    assert not in_menu["Sampler"].isVisible()
    window.appearance.set_text_percent(200)
    window.resize(700, 650)
    assert not bar.strip.isVisible()
    assert not bar.settings.isVisible()
    in_menu["Sampler"].trigger()
    assert window.strip.isVisible()
    with qtbot.waitSignal(bar.settings_asked):
        bar.settings_asked.disconnect(window.dialogs.open_settings)
        in_menu["Settings"].trigger()


def test_advanced_settings_stay_open(open_window: Open) -> None:
    window = open_window()
    window.topbar.strip.setChecked(True)
    window.context.values.decoding = DecodingChoice(acceptance="confidence_threshold")
    window.strip.refresh()
    advanced = window.strip.boxes["accept_probability"]
    assert window.strip.boxes["max_denoising_steps"].isVisible()
    assert not advanced.isVisible()
    window.strip.advanced.click()
    assert advanced.isVisible()
    assert open_window().strip.advanced.isChecked()
    window.strip.advanced.click()
    window.dialogs.sampler_asked.emit("accept_probability")  # from the palette
    assert window.focusWidget() is advanced


def place(window: QWidget, widget: QWidget) -> tuple[QPoint, int, int]:
    """The corner of a widget within its window, and its size."""
    return widget.mapTo(window, QPoint()), widget.width(), widget.height()


def test_a_message_is_over_the_page(qtbot: QtBot, open_window: Open) -> None:
    window = open_window()
    window.show_page(INSPECTOR)
    page, notice = window.pages.stack.currentWidget(), window.notices.notice
    qtbot.wait(1)
    before = place(window, page)
    window.context.say("Something went wrong. " * 20)
    qtbot.waitUntil(notice.isVisible)
    assert place(window, page) == before
    message = notice.message
    assert message.height() >= message.heightForWidth(message.width()) > 0
    window.show_page(DECISIONS)  # made now, so that it is the newest of the window's widgets
    window.context.say("Something else.")
    at = notice.mapTo(window, notice.rect().center())
    shown = window.childAt(at)
    assert shown is not None
    assert shown is notice or notice.isAncestorOf(shown)
    window.resize(window.width() - 60, window.height() - 40)
    qtbot.waitUntil(lambda: notice.width() == window.pages.stack.width())
    window.show_page(CHAT)
    assert not notice.isVisible()
