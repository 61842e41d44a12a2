"""Jobs of the page: they delete what is Safelight's and leave alone the rest; and they refuse what is no token."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
import torch

from app.models import tasks
from app.models.entries import ModelEntry, entries
from app.models.jobs import Control
from app.system.secret import Secret
from engine import SafelightError
from engine.models.folder import quantize
from engine.quant import INT8
from engine.store_files import MANIFEST
from engine.weights.packed_store import Manifest
from tests.engine.packing import SHAPE
from tests.engine.seeing import seeing

CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.txt").write_text("mine")
    return tmp_path / "models"


def do(job: tasks.Work) -> object:
    return job(Control("k", "delete", lambda _progress: None))


def only(folder: Path) -> ModelEntry:
    (found,) = (entry for entry in entries(folder, ()) if entry.group == "stored")
    return found


def model(place: Path) -> Path:
    place.mkdir()
    (place / "config.json").write_text("{}")
    return place


def test_deleting_a_model_follows_no_links(folder: Path, tmp_path: Path) -> None:
    (model(folder / "x") / "link").symlink_to(tmp_path / "thesis")
    do(tasks.delete(only(folder), folder))
    model(tmp_path / "elsewhere")
    (folder / "x").symlink_to(tmp_path / "elsewhere")
    do(tasks.delete(only(folder), folder))
    assert list(folder.iterdir()) == []
    assert (tmp_path / "elsewhere" / "config.json").exists()
    assert (tmp_path / "thesis" / "thesis.txt").read_text() == "mine"


def test_nothing_outside_the_data_folder_is_deleted(folder: Path, tmp_path: Path) -> None:
    local = next(entry for entry in entries(folder, (model(tmp_path / "mine"),)) if entry.group == "local")
    with pytest.raises(SafelightError, match=r"is not in .*, so it is not deleted"):
        do(tasks.delete(local, folder))
    assert (tmp_path / "mine" / "config.json").exists()


def test_interrupted_deletions_are_finished_and_nothing_else_is(folder: Path, tmp_path: Path) -> None:
    model(folder / f".{'0' * 16}.safelight-deleted")
    model(folder / ".old.deleted")
    model(folder / ".mine.safelight-deleted")
    (folder / f".{'1' * 16}.safelight-deleted").symlink_to(tmp_path / "thesis")
    do(tasks.sweep(folder))
    left = {path.name for path in folder.iterdir()}
    assert left == {".old.deleted", ".mine.safelight-deleted", f".{'1' * 16}.safelight-deleted"}
    assert (tmp_path / "thesis" / "thesis.txt").exists()


def test_a_conversion_goes_on_as_the_terminal_began_it(folder: Path, tmp_path: Path) -> None:
    source, stop = seeing(tmp_path / "x", **SHAPE), threading.Event()
    with pytest.raises(SafelightError, match="cancelled"):
        quantize(source, folder / "begun", "auto", CPU, lambda _: stop.set(), stop)
    do(tasks.convert(source, folder / "begun"))
    (begun,) = (entry for entry in entries(folder, ()) if entry.group == "stored")
    assert Manifest.read(begun.folder / MANIFEST).precision.vision == INT8


def test_cancelling_a_conversion_removes_what_it_wrote(folder: Path) -> None:
    place = model(folder / "x-packed")
    (place / "safelight-store.partial.json").write_text(json.dumps({"source": "x"}))
    half = (".layer-01.safetensors.0a1b2c3d.part", ".tmpN8djV0")  # what a kill leaves
    for name in ("layer-00.safetensors", "rest.safetensors", "rest.safetensors.tmp", "thesis.txt", *half):
        (place / name).write_text("x")
    with pytest.raises(SafelightError, match=r"holds 'thesis.txt', which Safelight did not write"):
        do(tasks.discard(only(folder)))
    assert [path.name for path in place.iterdir()] == ["thesis.txt"]
    entry = ModelEntry("k", "stored", "unpacked", "x", "", place)
    with pytest.raises(SafelightError, match="did not make the conversion"):
        do(tasks.discard(entry))
    (place / "thesis.txt").rename(place / "safelight-store.partial.json")
    do(tasks.discard(only(folder)))
    assert list(folder.iterdir()) == []


def test_what_is_no_token_is_not_kept() -> None:
    class Never(Secret):
        def write(self, token: str) -> str:  # type: ignore[override]
            raise AssertionError(token)

    for token in ("hf_ü", "a b", "a\nb"):
        with pytest.raises(SafelightError, match="This access token has invalid"):
            do(tasks.keep_token(Never("a name"), token))
