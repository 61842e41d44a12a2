"""Presets: kept on the disk whatever happens to the file, edited without losing anything, picked."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData
from pytestqt.qtbot import QtBot

from app.design.text_field import LONGEST_LINE
from app.presets.editor import EDIT, PresetEditor, PresetPicker
from app.presets.store import (
    BUILT_IN_IDS,
    DEFAULT,
    FILE,
    LONGEST_NAME,
    MAX_PRESETS,
    MAX_PRESETS_BYTES,
    Preset,
    PresetStore,
    built_in,
    free_name,
    problem,
)
from app.settings.values import DecodingChoice, SettingsValues
from app.system.locks import locked
from engine import GenerationConfig, SafelightError

DEFAULTS = GenerationConfig()
POET = Preset("1", "Poet", "Answer in verse.", (("entropy_bound", 0.05), ("max_denoising_steps", 96)), True)
CLERK = Preset("2", "Clerk", "Be brief.")


@pytest.fixture
def store(tmp_path: Path) -> PresetStore:
    made = PresetStore(tmp_path / "data")
    made.put(POET)
    made.put(CLERK)
    return made


def again(store: PresetStore) -> PresetStore:
    """The store as the next start finds it."""
    return PresetStore(store.path.parent)


# ---------------------------------------------------------------- presets and their file


def test_the_presets_that_come_along_fit_the_models_defaults() -> None:
    assert tuple(preset.id for preset in built_in()) == BUILT_IN_IDS
    for preset in built_in():
        assert problem(preset, ()) == ""
        assert SettingsValues(dict(preset.overrides)).config(DEFAULTS)
    default, careful, quick = built_in()
    assert default.overrides == ()
    bounds = [dict(preset.overrides)["entropy_bound"] for preset in (careful, quick)]
    assert bounds[0] < DEFAULTS.entropy_bound < bounds[1]


def test_what_is_wrong_with_a_preset_is_one_sentence() -> None:
    assert problem(POET, ["Clerk"]) == ""
    assert problem(POET.replace(name="  "), ()) == "The preset has no name. Write one."
    assert "another preset called “Poet”" in problem(POET, [" POET "])
    assert "Shorten it" in problem(POET.replace(name="x" * (LONGEST_NAME + 1)), ())


def test_a_free_name_is_free_and_short_enough() -> None:
    assert free_name("Poet", ["Clerk"]) == "Poet"
    assert free_name("Poet", ["poet", "Poet 2"]) == "Poet 3"
    long = "x" * LONGEST_NAME
    assert free_name(long, ()) == long
    assert len(free_name(long, [long])) <= LONGEST_NAME


def test_presets_survive_a_restart(store: PresetStore) -> None:
    found = again(store)
    assert found.own == (POET, CLERK)
    assert found.presets == (*built_in(), POET, CLERK)
    assert found.problem == ""
    assert found.find("2") == CLERK
    assert found.find("gone").id == DEFAULT
    left = [path.name for path in store.path.parent.iterdir() if path.suffix != ".lock"]
    assert left == [FILE]
    letter = POET.replace(decoding=DecodingChoice("autoregressive", acceptance=""))
    quick = CLERK.replace(decoding=DecodingChoice(token_thoughts=True, acceptance="confidence_threshold"))
    store.put(letter)
    store.put(quick)
    assert (again(store).problem, again(store).own) == ("", (letter, quick))


@pytest.mark.parametrize(
    "damage",
    [b"{", b"\xff\xfe", b"[]", b'{"version": "x", "presets": []}', b"[" * 100_000],
)
def test_a_damaged_file_is_set_aside_and_never_lost(store: PresetStore, damage: bytes) -> None:
    store.path.write_bytes(damage)
    found = again(store)
    assert found.presets == built_in()
    assert found.set_aside is not None
    assert found.set_aside.read_bytes() == damage
    assert str(found.set_aside) in found.problem
    found.put(CLERK)
    assert again(store).own == (CLERK,)
    assert again(store).problem == ""
    assert found.set_aside.read_bytes() == damage


def test_what_can_be_read_of_a_damaged_file_is_kept(store: PresetStore) -> None:
    raw = json.loads(store.path.read_text(encoding="utf-8"))
    raw["presets"][0]["overrides"] |= {"entropy_bound": 99, "max_denoising_steps": 2.5, "t_max": 1, "smell": 3}
    raw["presets"] += ["nonsense", {"id": "3"}, {"id": DEFAULT, "name": "Fake"}, raw["presets"][1]]
    raw["presets"].append(
        {"id": "4", "name": "Odd", "system_prompt": 7, "overrides": [], "think": "yes", "answer_decoder": 7}
    )
    damaged = json.dumps(raw)
    store.path.write_text(damaged, encoding="utf-8")
    found = again(store)
    assert found.own == (POET.replace(overrides=(("t_max", 1.0),)), CLERK, Preset("4", "Odd"))
    assert found.set_aside is not None
    assert found.set_aside.read_text(encoding="utf-8") == damaged
    assert again(store).problem == ""  # put aside once, not at every start
    assert again(store).own == found.own


def test_a_file_of_a_newer_version_is_left_alone(store: PresetStore) -> None:
    newer = '{"version": 8, "presets": [], "more": "things"}'
    store.path.write_text(newer)
    found = again(store)
    assert "newer Safelight" in found.problem
    with pytest.raises(SafelightError, match="newer Safelight"):
        found.put(POET)
    assert store.path.read_text() == newer


def test_a_damaged_file_that_cannot_be_renamed_is_not_written_over(
    store: PresetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    store.path.write_text("{")
    monkeypatch.setattr(Path, "rename", refuse)
    found = again(store)
    assert "cannot be renamed (permission denied)" in found.problem
    with pytest.raises(SafelightError):
        found.put(POET)
    assert store.path.read_text() == "{"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other rights")
def test_presets_are_their_users_alone(store: PresetStore) -> None:
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    store.path.chmod(0o644)
    again(store)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def test_what_is_too_long_is_cut_and_half_characters_are_replaced(store: PresetStore) -> None:
    store.put(POET.replace(system_prompt="half \ud800"))
    assert again(store).own == (POET.replace(system_prompt="half ?"), CLERK)
    entries = [{"id": str(n), "name": "n" * 900, "system_prompt": "", "overrides": {}} for n in range(MAX_PRESETS + 3)]
    store.path.write_text(json.dumps({"version": 1, "presets": entries}), encoding="utf-8")
    assert len(again(store).own) == MAX_PRESETS
    assert {len(preset.name) for preset in again(store).own} == {LONGEST_NAME}
    assert "Shorten it" in problem(POET.replace(system_prompt="x" * 200_001), ())
    with pytest.raises(SafelightError, match="Delete one"):
        again(store).put(POET.replace(id="another"))
    store.path.unlink()
    with pytest.raises(SafelightError, match="Shorten the longest"):
        PresetStore(store.path.parent).put(POET.replace(system_prompt="x" * MAX_PRESETS_BYTES))


# ---------------------------------------------------------------- two windows


def test_windows_keep_each_others_presets(store: PresetStore) -> None:
    one, other = again(store), again(store)
    singer, scribe, kind = Preset("3", "Singer"), Preset("4", "Scribe"), CLERK.replace(system_prompt="Be kind.")
    one.put(singer)
    other.put(kind)
    other.put(scribe)
    one.put(singer.replace(think=True))
    assert again(store).own == one.own == (POET, kind, singer.replace(think=True), scribe)
    one.remove(POET.id)
    assert other.own[0] == POET
    other.put(POET)
    whole = (kind, singer.replace(think=True), scribe, POET)
    assert again(store).own == whole
    for damage in (lambda: other.path.unlink(), lambda: other.path.write_text("{")):
        damage()
        other.put(POET)  # what another window has lost is written again
        assert again(store).own == whole
    assert other.set_aside is not None


def test_a_lock_that_another_window_holds_is_not_waited_for(store: PresetStore) -> None:
    with locked(store.path.with_name(f"{FILE}.lock")), pytest.raises(SafelightError, match="Try again in a moment"):
        store.remove(POET.id)
    assert again(store).own == (POET, CLERK)
    store.remove(POET.id)
    assert again(store).own == (CLERK,)


# ---------------------------------------------------------------- the editor


NOW = SettingsValues({"max_new_tokens": 64, "max_denoising_steps": 12}, decoding=DecodingChoice("autoregressive"))
"""What the sampler shows."""


@pytest.fixture
def editor(qtbot: QtBot, store: PresetStore) -> PresetEditor:
    made = PresetEditor(store, NOW, POET.id)
    qtbot.addWidget(made)
    with qtbot.waitExposed(made):
        made.show()
    return made


def names(editor: PresetEditor) -> list[str]:
    return [editor.list.item(row).text() for row in range(editor.list.count())]


def test_the_editor_says_what_a_preset_sets(editor: PresetEditor) -> None:
    assert names(editor) == ["Default", "Careful", "Quick", "Poet", "Clerk"]
    assert editor.form.preset == POET
    assert editor.form.settings.text() == "Entropy bound 0.05 · Steps 96"
    mixed = DecodingChoice("wedlm", token_thoughts=True)
    editor.form.show_preset(CLERK.replace(decoding=mixed))
    assert editor.form.settings.text() == "Decoding Wedlm · Think token by token"
    editor.form.show_preset(CLERK)
    assert editor.form.settings.text() == "The model's defaults."


def test_changes_are_saved_before_another_is_shown_and_at_the_end(
    qtbot: QtBot, editor: PresetEditor, store: PresetStore
) -> None:
    form = editor.form
    form.name.setFocus()
    form.name.selectAll()
    qtbot.keyClicks(form.name, "Bard")
    form.think.click()
    form.system_prompt.setPlainText("Sing.")
    form.save_values.click()
    assert not form.save_values.isEnabled()  # nothing is left to save
    wanted = Preset("1", "Bard", "Sing.").with_values(NOW)
    editor.list.setCurrentRow(4)
    assert again(store).own == (wanted, CLERK)
    assert names(editor)[3] == "Bard"
    editor.list.setCurrentRow(3)
    form.clear_values.click()
    assert not form.clear_values.isEnabled()
    editor.accept()
    assert again(store).own == (Preset("1", "Bard", "Sing."), CLERK)
    assert not editor.isVisible()


def test_a_system_prompt_that_is_too_long_for_its_field_stays(editor: PresetEditor) -> None:
    form, long = editor.form, CLERK.replace(system_prompt="x" * (LONGEST_LINE + 1))
    form.show_preset(long)
    assert form.system_prompt.toPlainText() == ""
    assert "it is used" in form.too_long.text()
    assert form.preset == long
    form.system_prompt.insertPlainText("Sing.")
    assert form.preset == long.replace(system_prompt="Sing.")
    assert form.too_long.isHidden()
    form.show_preset(CLERK)
    assert form.preset == CLERK
    assert form.too_long.isHidden()
    data = QMimeData()
    data.setText(long.system_prompt)
    form.system_prompt.insertFromMimeData(data)
    assert form.preset == CLERK
    assert "was pasted" in form.too_long.text()


def test_what_is_invalid_is_said_and_waits(qtbot: QtBot, editor: PresetEditor, store: PresetStore) -> None:
    form = editor.form
    form.name.setFocus()
    form.name.selectAll()
    qtbot.keyClicks(form.name, "clerk")
    form.system_prompt.setPlainText("Half a thought")
    assert "another preset called “clerk”" in editor.message.text()
    assert not editor.list.isEnabled()
    editor.accept()
    assert editor.isVisible()
    assert form.name.hasFocus()
    assert again(store).own == (POET, CLERK)
    form.name.setText("Bard")
    form.name.textEdited.emit("Bard")
    assert editor.list.isEnabled()
    editor.accept()
    assert not editor.isVisible()
    bard = POET.replace(name="Bard", system_prompt="Half a thought")
    assert again(store).own == (bard, CLERK)
    editor.show()
    form.name.clear()
    form.name.textEdited.emit("")
    assert "has no name" in editor.message.text()
    editor.reject()  # drops what is invalid
    assert (editor.isVisible(), again(store).own) == (False, (bard, CLERK))


def confirm(editor: PresetEditor) -> None:
    editor.delete.click()
    assert editor.question is not None
    next(button for button in editor.question.buttons() if button.text() == "Delete").click()


def test_new_and_delete(editor: PresetEditor, store: PresetStore) -> None:
    editor.new.click()
    assert names(editor)[-1] == "New preset"
    assert editor.form.preset.replace(id=POET.id, name=POET.name) == POET.with_values(NOW)  # of the preset in use
    assert editor.form.name.hasFocus()
    assert editor.form.name.selectedText() == "New preset"
    editor.new.click()
    editor.list.setCurrentRow(3)
    assert editor.form.preset == POET
    confirm(editor)
    assert names(editor)[3:] == ["Clerk", "New preset", "New preset 2"]
    assert editor.form.preset == built_in()[0]
    assert again(store).own[0] == CLERK


def test_built_in_presets_can_only_be_read(qtbot: QtBot, editor: PresetEditor) -> None:
    editor.list.setCurrentRow(1)
    assert editor.form.note.isVisible()
    assert not editor.delete.isEnabled()
    editor.form.name.setFocus()
    qtbot.keyClicks(editor.form.name, "x")
    assert editor.form.preset == built_in()[1]
    assert not any(act.isEnabled() for act in (editor.form.save_values, editor.form.clear_values, editor.form.think))


def test_a_full_disk_is_said_and_what_is_written_stays(
    editor: PresetEditor, store: PresetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr(os, "fsync", full)
        editor.form.system_prompt.setPlainText("Sing.")
        editor.accept()
        assert editor.isVisible()
        assert "the disk is full" in editor.message.text()
        confirm(editor)
        assert names(editor)[3:] == ["Poet", "Clerk"]
        assert editor.form.system_prompt.toPlainText() == "Sing."
    editor.accept()
    assert not editor.isVisible()
    assert again(store).own == (POET.replace(system_prompt="Sing."), CLERK)


# ---------------------------------------------------------------- the picker


@pytest.fixture
def picker(qtbot: QtBot, store: PresetStore) -> PresetPicker:
    made = PresetPicker(store, NOW)
    qtbot.addWidget(made)
    made.show()
    return made


def choose(picker: PresetPicker, id: str) -> None:
    """Acts as a click or Enter in the list does."""
    index = picker.findData(id)
    picker.setCurrentIndex(index)
    picker.activated.emit(index)


def test_a_choice_is_reported_and_showing_one_is_not(qtbot: QtBot, picker: PresetPicker) -> None:
    assert picker.currentText() == "Default"
    with qtbot.assertNotEmitted(picker.chosen):
        picker.show_preset(CLERK.id)
        picker.show_changed(True)
    assert picker.currentText() == "Clerk, changed"
    with qtbot.waitSignal(picker.chosen) as chosen:
        choose(picker, POET.id)
    assert chosen.args == [POET]
    assert picker.current == POET
    assert [picker.itemText(row) for row in range(picker.count())] == [
        *("Default", "Careful", "Quick", "Poet", "Clerk"),
        *("", "Edit presets…"),
    ]


def test_the_preset_in_use_is_reported_again_when_it_was_edited(qtbot: QtBot, picker: PresetPicker) -> None:
    picker.show_preset(POET.id)
    choose(picker, EDIT)
    assert picker.currentText() == "Poet"
    editor = picker.editor
    assert editor is not None
    assert editor.form.preset == POET
    editor.form.think.click()
    with qtbot.waitSignal(picker.chosen) as chosen:
        editor.accept()
    assert chosen.args == [POET.replace(think=False)]
    assert picker.editor is None


def test_a_preset_that_was_made_of_the_current_values_is_used(qtbot: QtBot, picker: PresetPicker) -> None:
    picker.edit_presets()
    assert picker.editor is not None
    picker.editor.new.click()
    with qtbot.waitSignal(picker.chosen):
        picker.editor.accept()
    assert (picker.currentText(), picker.current.overrides) == ("New preset", picker.current.with_values(NOW).overrides)


def test_the_default_replaces_a_deleted_preset_in_use(qtbot: QtBot, picker: PresetPicker) -> None:
    picker.show_preset(CLERK.id)
    picker.edit_presets()
    assert picker.editor is not None
    confirm(picker.editor)
    with qtbot.waitSignal(picker.chosen) as chosen:
        picker.editor.accept()
    assert chosen.args == [built_in()[0]]
    assert picker.currentText() == "Default"
    assert picker.findData(CLERK.id) == -1
