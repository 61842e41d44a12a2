"""The settings dialog and what it is derived from: storage, live changes, folders that cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

import pytest
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QCheckBox, QComboBox, QLineEdit, QPushButton, QSpinBox, QWidget
from pytestqt.qtbot import QtBot

from app.settings import store
from app.settings.dialog import SettingsDialog
from app.settings.preferences import ITEMS, KEYS, SECTIONS, Act, Preferences
from app.settings.strip import SettingsStrip
from app.settings.values import SAMPLER, DecodingChoice, SettingsValues, settings_of
from app.system.folders import default_data_folder
from engine import GenerationConfig
from engine.decoders import ACCEPTANCE as RULES

defaults = GenerationConfig()
T = TypeVar("T", bound=QWidget)


class Opened:
    """A dialog over its own settings, with what it emitted."""

    def __init__(self, qtbot: QtBot, settings: QSettings) -> None:
        self.preferences = store.read_preferences(settings)
        self.values = SettingsValues()
        self.folder = ""
        self.dialog = SettingsDialog(self.preferences, self.values, settings, ask_folder=lambda *_asked: self.folder)
        qtbot.addWidget(self.dialog)
        self.changed: list[str] = []
        self.asked: list[str] = []
        self.dialog.changed.connect(self.changed.append)
        self.dialog.act_requested.connect(self.asked.append)

    def control(self, kind: type[T], name: str) -> T:
        found = self.dialog.controls[name]
        assert isinstance(found, kind)
        return found

    def remark(self, name: str) -> str:
        label = self.dialog._remarks[name]
        return label.text() if not label.isHidden() else ""


@pytest.fixture
def opened(qtbot: QtBot, settings: QSettings) -> Opened:
    return Opened(qtbot, settings)


def test_every_declared_name_has_a_home() -> None:
    names = [item.name for section in SECTIONS for item in section.items if not isinstance(item, Act)]
    assert len(set(names)) == len(names)
    assert KEYS.keys() == ITEMS.keys() == {field.name for field in fields(Preferences)}
    assert all(hasattr(SettingsValues(), name) for name in names if name not in KEYS)


def test_every_declared_setting_is_shown_and_named(opened: Opened) -> None:
    dialog = opened.dialog
    assert [dialog.sections.item(row).text() for row in range(dialog.sections.count())] == [
        "Appearance",
        "Canvas",
        "Engine",
        "Storage and privacy",
        "Help",
    ]
    for section in SECTIONS:
        for item in section.items:
            assert dialog.controls[item.name].accessibleName()
            assert dialog.controls[item.name].accessibleDescription() == item.explanation
    assert all(control.accessibleName() for control in dialog.controls.values())


def test_a_change_holds_at_once_and_is_kept(opened: Opened, settings: QSettings) -> None:
    theme = opened.control(QComboBox, "theme")
    theme.setCurrentIndex(theme.findData("paper"))
    theme.activated.emit(theme.currentIndex())
    opened.control(QSpinBox, "text_percent").setValue(150)
    opened.control(QCheckBox, "offline").click()
    assert opened.changed == ["theme", "text_percent", "offline"]
    assert store.read_preferences(settings) == Preferences(theme="paper", text_percent=150, offline=True)
    opened.control(QCheckBox, "offline").click()
    assert settings.value("app/offline") is None  # as it comes, so nothing is written
    assert not store.read_preferences(settings).offline


def test_how_the_canvas_is_shown_goes_into_the_values(opened: Opened) -> None:
    view = opened.control(QComboBox, "view")
    view.setCurrentIndex(view.findData("calm"))
    view.activated.emit(view.currentIndex())
    opened.control(QCheckBox, "reduced_motion").click()
    assert opened.values == SettingsValues(calm=True, reduced_motion=True)
    assert opened.changed == ["view", "reduced_motion"]


def test_data_folder_is_chosen_and_given_back(opened: Opened, settings: QSettings, tmp_path: Path) -> None:
    shown, default = opened.control(QLineEdit, "data_folder"), opened.control(QPushButton, "data_folder_default")
    assert shown.text() == str(default_data_folder())
    assert not default.isEnabled()
    opened.folder = str(tmp_path / "elsewhere, with a comma")
    opened.control(QPushButton, "data_folder_choose").click()
    assert store.read_preferences(settings).data_folder == opened.folder == shown.text()
    assert "next" in opened.remark("data_folder")
    assert Path(opened.folder).is_dir()
    default.click()
    assert shown.text() == str(default_data_folder())
    assert store.read_preferences(settings).data_folder == ""
    opened.folder = ""  # the question was given up
    opened.control(QPushButton, "data_folder_choose").click()
    assert opened.changed == ["data_folder", "data_folder"]


def test_a_folder_that_cannot_be_used_is_refused(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    opened.folder = str(tmp_path / "file" / "below")
    opened.control(QPushButton, "data_folder_choose").click()
    assert "choose another folder" in opened.remark("data_folder")
    assert opened.preferences.data_folder == ""
    assert opened.changed == []


def test_acts_are_asked_for_and_answered(opened: Opened) -> None:
    for name in ("show_shortcuts", "open_logs"):
        opened.control(QPushButton, name).click()
    assert opened.asked == ["show_shortcuts", "open_logs"]
    opened.dialog.say("open_logs", "Opened.")
    assert opened.remark("open_logs") == "Opened."
    opened.dialog.accept()
    assert opened.remark("open_logs") == ""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("window/theme", "neon"),
        ("window/text_percent", "large"),
        ("app/data_folder", "not/absolute"),
        ("app/offline", "perhaps"),
    ],
)
def test_what_cannot_be_read_is_left_out(settings: QSettings, key: str, value: object) -> None:
    settings.setValue(key, value)
    assert store.read_preferences(settings) == Preferences()


# ---------------------------------------------------------------- the strip


Make = Callable[..., SettingsStrip]


@pytest.fixture
def make(qtbot: QtBot) -> Make:
    """Makes a strip for a model with these decoders."""

    def make_one(*decoders: str) -> SettingsStrip:
        strip = SettingsStrip(SettingsValues(decoders=decoders) if decoders else SettingsValues())
        qtbot.addWidget(strip)
        return strip

    return make_one


def shown(strip: SettingsStrip) -> set[str]:
    return {name for name, box in strip.boxes.items() if not box.parentWidget().isHidden()}


def stored(settings: QSettings, strip: SettingsStrip) -> SettingsValues:
    """Returns the strip's values as the next start reads them."""
    store.write_values(settings, strip._values, False, keep_seed=False)
    return store.read_values(settings, False)


def test_the_strip_shows_what_the_chosen_decoder_goes_by(make: Make, settings: QSettings) -> None:
    strip = make()
    values = strip._values
    assert strip.decoder.parentWidget().isHidden()
    assert shown(strip) == settings_of("block_diffusion") | {"entropy_bound"}
    values.decoders = ("causal_parallel", "autoregressive", "block_diffusion", "of a newer engine")
    strip.show_values(defaults)
    assert [strip.decoder.itemText(place) for place in range(4)] == [
        *("Causal parallel (WeDLM)", "Autoregressive", "Block diffusion", "Of a newer engine")
    ]
    assert not strip.decoder.parentWidget().isHidden()
    assert shown(strip) == {"sampling_temperature", "max_new_tokens"}
    strip.decoder.setCurrentIndex(1)
    assert shown(strip) == {"sampling_temperature", "sampling_top_p", "thinking_tokens", "max_new_tokens"}
    assert strip.about_decoder.text().startswith("One token at a time")
    strip.boxes["sampling_temperature"].setValue(0.7)
    assert values.config(defaults) == defaults.replace(decoder="autoregressive", sampling_temperature=0.7)
    read = stored(settings, strip)
    assert (read.decoding, read.overrides) == (DecodingChoice("autoregressive"), {"sampling_temperature": 0.7})
    assert read.config(defaults) == defaults  # of a model that has it not
    strip.decoder.setCurrentIndex(0)
    assert values.config(defaults) == defaults.replace(decoder="causal_parallel", sampling_temperature=0.7)
    strip.decoder.setCurrentIndex(3)
    assert shown(strip) == set(SAMPLER)


def test_the_strip_bounds_thoughts_where_the_decoder_can(make: Make, settings: QSettings) -> None:
    strip = make("autoregressive", "block_diffusion")
    values, box = strip._values, strip.boxes["thinking_tokens"]
    assert (box.text(), box.parentWidget().isHidden()) == ("No limit", False)
    box.stepUp()
    assert values.config(defaults) == defaults.replace(decoder="autoregressive", thinking_tokens=256)
    assert stored(settings, strip).overrides == {"thinking_tokens": 256}
    strip.decoder.setCurrentIndex(1)  # block diffusion
    assert box.parentWidget().isHidden()
    assert values.config(defaults).thinking_tokens is None
    strip.decoder.setCurrentIndex(0)
    box.stepDown()
    assert (box.text(), values.overrides) == ("No limit", {})
    assert stored(settings, strip).overrides == {}
    assert settings.value("sampler/thinking_tokens") is None
    settings.setValue("sampler/thinking_tokens", "0")
    assert store.read_values(settings, False).overrides == {}


def test_the_strip_offers_the_rules_of_acceptance_and_their_settings(make: Make, settings: QSettings) -> None:
    strip = make("block_diffusion", "autoregressive")
    values = strip._values
    box, knobs = strip.acceptance, ("entropy_bound", "accept_probability")
    assert [box.itemData(place) for place in range(box.count())] == ["", *RULES]
    live = []
    for place in range(box.count()):
        box.setCurrentIndex(place)
        live.append([name for name in knobs if not strip.boxes[name].parentWidget().isHidden()])
    assert live == [["entropy_bound"], *([rule.threshold] for rule in RULES.values())]
    box.setCurrentIndex(box.findData("confidence_threshold"))
    strip.boxes["accept_probability"].setValue(0.7)
    assert values.config(defaults) == defaults.replace(acceptance="confidence_threshold", accept_probability=0.7)
    assert stored(settings, strip).decoding == values.decoding
    strip.decoder.setCurrentIndex(1)
    assert box.parentWidget().isHidden()
    assert values.config(defaults).acceptance == "entropy_bound"


def test_the_strip_lets_a_model_that_thinks_do_so_token_by_token(make: Make, settings: QSettings) -> None:
    strip = make("block_diffusion", "autoregressive")
    values, flag = strip._values, strip.token_thoughts
    denoising = settings_of("block_diffusion") | {"entropy_bound"}
    assert not flag.parentWidget().isHidden()
    strip.allow(frozenset(SAMPLER) - {"thinking_tokens"})
    assert flag.parentWidget().isHidden()
    values.decoding = DecodingChoice(token_thoughts=True)  # by a preset
    strip.refresh()
    assert not flag.parentWidget().isHidden()
    values.decoding = DecodingChoice()
    strip.allow(frozenset(SAMPLER))
    strip.refresh()
    flag.click()
    assert shown(strip) == denoising | {"sampling_temperature", "sampling_top_p"}
    assert values.config(defaults) == defaults.replace(token_thoughts=True)
    assert stored(settings, strip).decoding == values.decoding
    strip.decoder.setCurrentIndex(1)  # nothing is denoised any more
    assert flag.parentWidget().isHidden()
    assert values.config(defaults) == defaults.replace(decoder="autoregressive")
    values.decoders = ("block_diffusion",)
    strip.show_values(defaults)
    assert values.config(defaults) == defaults  # the choice waits for its model
    strip.reset.click()
    stored(settings, strip)
    assert not [key for key in settings.allKeys() if "decoder" in key or "thoughts" in key]


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        ({"thought_decoder": "autoregressive"}, DecodingChoice(token_thoughts=True)),
        ({"thought_decoder": "autoregressive", "answer_decoder": "autoregressive"}, DecodingChoice("autoregressive")),
        ({"acceptance": "margin", "rescue": True, "decoder": "bidirectional"}, DecodingChoice("bidirectional")),
    ],
)
def test_the_decoding_that_earlier_versions_stored_is_read(raw: dict[str, object], read: DecodingChoice) -> None:
    assert DecodingChoice.read(raw) == read


def test_a_temperature_below_that_of_the_end_lowers_both() -> None:
    assert SettingsValues({"t_max": 0.2}).config(defaults) == defaults.replace(t_max=0.2, t_min=0.2)
