"""The status bar: figures with units, and what is left out in a narrow window."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.state.run.stats import rate_text, seconds_text
from app.system import i18n
from app.window.statusbar import FIELDS, StatusBar


@pytest.fixture
def bar(qtbot: QtBot) -> StatusBar:
    made = StatusBar()
    qtbot.addWidget(made)
    made.resize(1600, made.height())
    made.show()
    return made


def fill(bar: StatusBar) -> None:
    bar.show_unsaved("the disk is full")
    bar.show_offline(True)
    bar.show_server("Server on · 2 requests")
    bar.show_model("DiffusionGemma 26B-A4B in four bits", "cuda:0")
    bar.show_memory(17_600_000_000, 140_000_000_000)


def test_every_number_has_its_unit_and_a_narrow_bar_keeps_the_most_important(bar: StatusBar) -> None:
    fill(bar)
    assert {field.name: bar.labels[field.name].text() for field in FIELDS} == {
        "unsaved": "Not saved yet",
        "offline": "Offline",
        "device": "GPU 0",
        "device_memory": "GPU 17.6 GB of 140 GB",
        "model": "DiffusionGemma 26B-A4B in four bits",
        "server": "Server on · 2 requests",
    }
    bar.show_unsaved("")
    bar._saved.timeout.emit()
    bar.resize(640, bar.height())
    shown = {name for name, label in bar.labels.items() if label.isVisible()}
    assert {"offline", "device", "model", "device_memory"} <= shown
    assert bar.text("server") in bar.accessibleDescription()
    bar.show_model("Safelight skills", "cpu")
    assert bar.labels["device"].text() == "CPU"
    assert not bar.labels["device_memory"].isVisible()


def test_the_device_says_why_it_was_chosen_and_what_computes(bar: StatusBar) -> None:
    bar.show_model("Skills", "cpu", 4, "no CUDA device is available", "packed CPU kernels")
    tip = bar.labels["device"].toolTip()
    assert tip.startswith("Device, CPU, 4 threads. ")
    assert tip.endswith(" Reason for this device: no CUDA device is available. Computed by: packed CPU kernels.")
    assert "Reason for this device" not in bar.labels["model"].toolTip()
    bar.show_model("Skills", "cpu", 4)
    assert "Reason for this device" not in bar.labels["device"].toolTip()


def test_nothing_known_shows_nothing(bar: StatusBar) -> None:
    fill(bar)
    bar.show_unsaved("")
    assert bar.labels["unsaved"].text() == "Everything is saved"
    bar._saved.timeout.emit()
    bar.show_unsaved("")
    bar.show_offline(False)
    bar.show_server("")
    bar.show_model(None)
    assert [name for name, label in bar.labels.items() if label.isVisible()] == []


def test_figures_have_two_digits_or_so() -> None:
    times, rates = (0.0123, 0.42, 9.994, 75), (0.024, 9.76, 1234.5)
    assert [seconds_text(seconds) for seconds in times] == ["12 ms", "0.42 s", "9.99 s", "75 s"]
    assert [rate_text(rate) for rate in rates] == ["0.02", "9.8", "1,234.5"]
    sizes = (0, 999, 1_500, 604_000_000, 17_570_000_000, 14e10)
    assert [i18n.size(count) for count in sizes] == ["0 B", "999 B", "2 kB", "604 MB", "17.6 GB", "140 GB"]
