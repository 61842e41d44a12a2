"""The window says if the library cannot be written, and closes only at the second request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.session import saving
from app.window.main_window import MainWindow
from engine import SafelightError
from tests.app.desk import Lock, stored


def test_the_window_says_as_long_as_something_is_not_saved(open_window: Callable[..., MainWindow]) -> None:
    window = open_window()
    folder = window.context.session.library.folder
    assert folder is not None
    lock = Lock(folder)
    lock.hold()
    window.pages.chat().sending.send("hello")
    notice = window.pages.chat().page.notice
    assert window.status.text("unsaved") == "Not saved yet"
    assert "Safelight keeps trying" in notice.message.text()
    notice.hide()
    assert window.status.labels["unsaved"].isVisible()
    lock.let_go()
    window.context.session.saving.save()
    assert window.status.text("unsaved") == "Everything is saved"
    assert [summary.title for summary in window.context.session.library.summaries()] == ["hello"]
    lock.close()


def test_closing_is_put_off_once_where_nothing_can_be_saved(
    open_window: Callable[..., MainWindow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "CLOSING_SECONDS", 0.1)
    window = open_window()
    folder = window.context.session.library.folder
    assert folder is not None

    def full(path: Path, _text: str, *, private: bool) -> None:
        raise SafelightError(f"the disk is full, so {path} was not written ({private})")

    lock = Lock(folder)
    lock.hold()
    window.pages.chat().sending.send("hello")
    notice = window.pages.chat().page.notice
    with monkeypatch.context() as patched:
        patched.setattr(saving, "write_text", full)
        assert not window.close()
        assert window.isVisible()
        assert "if you close Safelight again, the rest is lost" in notice.message.text()
    assert window.close()
    lock.close()
    assert list(stored(folder)) == ["hello"]
