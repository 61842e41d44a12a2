"""The page's list, from what lies on the disk, and what can be done with it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from app.models.entries import ModelEntry, actions, entries
from app.models.jobs import JobKind, JobProgress, Phase
from app.models.words import (
    action_text,
    amount,
    disk_line,
    download_tip,
    duration,
    machine_line,
    note_line,
    progress_line,
)
from engine import PUBLISHED, PublishedModel
from engine.catalog import DLLM_0_6B, GEMMA_4_BIT, SMALL, TALK, installed
from engine.hub.record import MARK, Record, RemoteFile
from engine.hub_cache import repo_folder
from engine.memory import footprint
from engine.models.opening import open_model
from engine.quant import Precision
from tests.app.models.machines import without


def by_key(folder: Path, *local: Path) -> dict[str, ModelEntry]:
    return {entry.key: entry for entry in entries(folder, local)}


def model(folder: Path, **config: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"12345678")
    return folder


def test_an_empty_disk_has_the_embedded_and_the_published(tmp_path: Path) -> None:
    found = by_key(tmp_path / "none")
    small = [SMALL, *sorted((m.id for m in installed()), key=lambda id: id != TALK.id)]  # Talk first
    assert list(found)[: len(small)] == small
    assert set(found) - set(small) == {m.repo for m in PUBLISHED}
    assert {e.state for e in found.values() if e.group == "embedded"} == {"ready"}
    assert {e.state for e in found.values() if e.group == "published"} == {"absent"}
    assert not (tmp_path / "none").exists()
    repo = PUBLISHED[0].repo
    place = model(tmp_path / repo.replace("/", "--"))  # as an earlier version downloaded it
    entry = by_key(tmp_path)[repo]
    assert (entry.state, entry.load_id) == ("ready", str(place))


def test_every_card_says_how_much_is_downloaded_and_how_that_is_known(tmp_path: Path) -> None:
    found = by_key(tmp_path)
    for known in PUBLISHED:
        card = found[known.repo]
        assert card.bytes_total > 0
        text, tip = action_text("download", card), download_tip(card)
        assert (text.startswith("Download about "), "reckoned" in tip) == (not known.listed,) * 2
        assert known.listed in tip
    assert action_text("download", found[GEMMA_4_BIT]) == "Download 17.2 GB"
    assert download_tip(found[GEMMA_4_BIT]) == "As the hub listed it on 2026-11-21"
    assert action_text("download", found[DLLM_0_6B]) == "Download about 1.2 GB"
    line = disk_line(found[DLLM_0_6B], 65_600_000_000, tmp_path)
    assert line == "✓ Disk: needs about 1.2 GB of 65.6 GB free"


@pytest.mark.parametrize("published", [model for model in PUBLISHED if not model.listed], ids=lambda one: one.repo)
def test_a_reckoned_size_is_that_of_the_parameters(published: PublishedModel) -> None:
    opened = open_model(published.shape, shapes=True)
    number = getattr(torch, json.loads((opened.path / "config.json").read_text())["torch_dtype"])
    counted = sum(footprint.weights(opened.family.build, opened.config, Precision(), number).values())
    assert abs(published.download_bytes - counted) <= 0.05e9


def test_a_download_is_ready_only_when_it_is_whole(tmp_path: Path) -> None:
    repo = PUBLISHED[0].repo
    record = Record(repo, "0" * 40, (RemoteFile("config.json", 2, "0" * 40), RemoteFile("a.safetensors", 10, "0" * 64)))
    record.write()
    (record.snapshot / "config.json").write_text("{}")
    part = record.part(record.files[1])
    part.parent.mkdir()
    part.write_bytes(b"1234")
    entry = by_key(tmp_path)[repo]
    assert (entry.state, entry.bytes_here, entry.bytes_total, entry.load_id) == ("unfinished", 6, 12, "")
    part.write_bytes(b"1234567890")
    assert by_key(tmp_path)[repo].state == "unfinished"  # all bytes, not verified
    blob = part.rename(part.with_suffix(""))
    assert by_key(tmp_path)[repo].bytes_here == 12  # where a kill comes before the link
    (record.snapshot / "a.safetensors").symlink_to(blob)
    (repo_folder(repo) / MARK).unlink()
    entry = by_key(tmp_path)[repo]
    assert (entry.state, entry.load_id) == ("ready", str(record.snapshot))
    part.with_suffix("").unlink()
    assert by_key(tmp_path)[repo].state == "absent"  # a link that leads nowhere is no file


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_weights_in_several_files_are_all_here_or_none(shards: int, tmp_path: Path) -> None:
    repo = PUBLISHED[0].repo
    place = repo_folder(repo) / "snapshots" / ("0" * 40)
    model(place)
    for name in ("model.safetensors", "weights.safetensors"):
        (place / name).unlink(missing_ok=True)
    for shard in range(shards):
        (place / f"model-{shard + 1:05}-of-00003.safetensors").write_bytes(b"x")
    (repo_folder(repo) / "refs").mkdir()
    (repo_folder(repo) / "refs" / "main").write_text("0" * 40)
    assert by_key(tmp_path)[repo].state == ("ready" if shards == 3 else "absent")


def test_other_things_in_the_data_folder(tmp_path: Path) -> None:
    model(tmp_path / "copied")
    packed = model(tmp_path / "google--big-packed")
    (packed / "safelight-store.json").write_text("{}")
    begun = model(tmp_path / "half-packed")
    (begun / "safelight-store.partial.json").write_text('{"source": "half"}')
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("no model")
    gone = tmp_path / ".old.deleted"
    model(gone)
    found = {e.key: e for e in entries(tmp_path, ()) if e.group == "stored"}
    assert set(found) == {str(tmp_path / "copied"), str(packed), str(begun)}
    assert (found[str(packed)].title, found[str(packed)].is_packed) == ("big, packed", True)
    assert (found[str(begun)].state, found[str(begun)].source) == ("unpacked", "half")


def test_folders_of_the_user(tmp_path: Path) -> None:
    plain = model(tmp_path / "plain")
    packed = model(tmp_path / "published", quantization_config={"format": "pack-quantized"})
    gone = tmp_path / "gone"
    found = by_key(tmp_path / "data", plain, packed, gone)
    assert found[str(plain)].state == found[str(packed)].state == "ready"
    assert (found[str(plain)].is_packed, found[str(packed)].is_packed) == (False, True)
    assert found[str(gone)].state == "missing"


DEEP = '{"quantization_config": ' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize(
    "text", [DEEP, '{"quantization_config": 1e999}', "[]", "\x00", "[" * 100_000, "{" + " " * 10**6]
)
def test_a_config_that_cannot_be_read_does_not_close_the_page(text: str, tmp_path: Path) -> None:
    for name in ("config.json", "safelight-store.partial.json", "safelight-download.json"):
        place = model(tmp_path / name.split(".")[0])
        (place / name).write_text(text)
    found = {e.folder.name: e.state for e in entries(tmp_path, ()) if e.group == "stored"}
    assert found == {"config": "ready", "safelight-store": "unpacked", "safelight-download": "ready"}


def test_a_record_of_another_name_makes_no_download(tmp_path: Path) -> None:
    files = (RemoteFile("config.json", 2, "0" * 40), RemoteFile("model.safetensors", 8, "0" * 64))
    record = Record("some/one", "0" * 40, files)
    record.write()
    for name in ("x", "..--x", "a--b--c", "a\nb--c", "a--\u202eb"):
        place = repo_folder("some/one").with_name(f"models--{name}")
        place.mkdir()
        (place / MARK).write_bytes((repo_folder("some/one") / MARK).read_bytes())
    assert [e.key for e in entries(tmp_path, ()) if e.group == "stored"] == ["some/one"]


def test_sizes_follow_no_links_out(tmp_path: Path) -> None:
    place = model(tmp_path / "inside" / "x")
    (place / "round").symlink_to(place)
    (place / "loop").symlink_to("loop")
    (tmp_path / "inside" / "gone").symlink_to("gone")
    assert by_key(tmp_path / "inside")[str(place)].bytes_here == 10


def entry(**given: Any) -> ModelEntry:
    return ModelEntry(
        **({"key": "k", "group": "stored", "state": "ready", "title": "T", "purpose": "", "folder": Path()} | given)
    )


@pytest.mark.parametrize(
    ("thing", "job", "loaded", "expected"),
    [
        (entry(group="embedded"), None, False, ("load",)),
        (entry(group="embedded"), None, True, ("unload",)),
        (entry(group="published", state="absent"), None, False, ("download",)),
        (entry(state="unfinished"), None, False, ("resume", "cancel")),
        (entry(state="unfinished"), ("download", "running"), False, ("pause", "cancel")),
        (entry(state="unfinished"), ("download", "queued"), False, ("cancel",)),
        (entry(state="unfinished"), ("download", "pausing"), False, ()),
        (entry(), None, False, ("load", "convert", "delete")),
        (entry(is_packed=True), None, False, ("load", "delete")),
        (entry(group="local"), None, False, ("load", "convert", "remove")),
        (entry(group="local", state="missing"), None, False, ("remove",)),
    ],
)
def test_what_can_be_done(
    thing: ModelEntry, job: tuple[JobKind, Phase] | None, loaded: bool, expected: tuple[str, ...]
) -> None:
    assert actions(thing, job, loaded=loaded, can_convert=True) == expected
    without = actions(thing, job, loaded=loaded, can_convert=False)
    assert without == tuple(action for action in expected if not action.startswith("convert"))


def test_a_computer_in_words() -> None:
    amd, apple = (without(16, maker, total_bytes=16 * 2**30) for maker in ("AMD", "Apple"))
    assert machine_line(without(16)) == "No graphics card found · 17.2 GB of memory"
    assert machine_line(amd) == "AMD graphics, 16 GB · 17.2 GB of memory"
    assert machine_line(apple) != machine_line(amd)
    assert "through a server" in note_line("AMD")
    assert note_line("no card").startswith("Models run on the processor here.")


def test_words() -> None:
    assert [amount(n) for n in (0, 3_190_088, 604_000_000, 17_220_000_000, 141_000_000_000)] == [
        "0.0 MB", "3.2 MB", "604 MB", "17.2 GB", "141 GB",
    ]  # fmt: skip
    assert [duration(s) for s in (0.2, 89, 100, 3600 * 2 + 60)] == ["1 s", "89 s", "2 min", "2 h 1 min"]
    running = JobProgress("k", "download", 0.25, 5_000_000_000, 20_000_000_000, 50_000_000.0, "downloading")
    assert progress_line(running) == "5.0 GB of 20.0 GB · 25% · 50 MB a second · about 5 min left"
    file = "model-00003-of-00012.safetensors"
    assert progress_line(replace(running, file=(file, 1_200_000_000, 4_900_000_000))) == (
        f"5.0 GB of 20.0 GB · 25% · 50 MB a second · about 5 min left · {file}: 1.2 GB of 4.9 GB"
    )
    half = entry(state="unfinished", bytes_here=5_000_000_000, bytes_total=20_000_000_000)
    assert disk_line(half, 16_000_000_000, Path("/data")) == (
        "✓ Disk: 5.0 GB are here; the other 15.0 GB fit into 16.0 GB free"
    )
    assert "needs 15.0 GB, and /data has 14.0 GB free. Free 1.0 GB" in disk_line(half, 14_000_000_000, Path("/data"))
