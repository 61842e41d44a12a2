"""Model folders and records that a stranger made: nothing outside is touched, and nothing inside but what is ours."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import SafelightError
from engine.hub.client import Patience
from engine.hub.download import discard, download, is_verified, partial_of, partials, verify
from engine.hub.names import folder_name, is_repo, repo_of
from engine.hub.record import FILES, PART, RECORD, Record, RemoteFile
from engine.store_files import DRAFT_FOLDER
from tests.engine.hub.server import Hub, serving

REPO = "someone/a-model"
NAME = "someone--a-model"
WEIGHTS = "model.safetensors"
CONTENT = {"config.json": b"{}", WEIGHTS: b"w" * 100}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "thesis.txt").write_text("mine")
    return folder


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub({REPO: dict(CONTENT)})) as running:
        yield running


def listed(name: str, content: bytes) -> dict[str, Any]:
    return {"name": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(), "blob": ""}


def record(*more: dict[str, Any], **changes: Any) -> dict[str, Any]:
    files = [listed(name, content) for name, content in CONTENT.items()]
    whole = {"format": "safelight-download", "version": 1, "repo": REPO, "revision": "main", "files": [*files, *more]}
    return whole | changes


def planted(folder: Path, raw: object, **files: bytes) -> Path:
    """A folder with a record, the files of the record, and others."""
    folder.mkdir(parents=True)
    (folder / RECORD).write_text(raw if isinstance(raw, str) else json.dumps(raw))
    for name, content in (CONTENT | files).items():
        (folder / name).write_bytes(content)
    return folder


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def large(size: object) -> dict[str, Any]:
    return listed("b.safetensors", b"x") | {"bytes": size}


BROKEN: dict[str, object] = {
    "a path upwards": record(listed("../../thesis.txt", b"x")),
    "an absolute path": record(listed("/etc/passwd", b"x")),
    "a drive": record(listed("C:evil.safetensors", b"x")),
    "a folder": record(listed("a/b.safetensors", b"x")),
    "a name that no model needs": record(listed("thesis.txt", b"x")),
    "a record's own name": record(listed(RECORD, b"x")),
    "a part's name": record(listed(WEIGHTS + PART, b"x")),
    "the same name but for its case": record(listed("MODEL.safetensors", b"x"), listed("model.SAFETENSORS", b"x")),
    "a name twice": record(listed(WEIGHTS, b"x")),
    "no name": record({"name": None, "bytes": 1, "sha256": "0" * 64, "blob": ""}),
    "a size of 2^62": record(large(2**62)),
    "a size below zero": record(large(-1)),
    "a size that is no whole number": record(large(1.5)),
    "a size that is true": record(large(True)),
    "a hash that is none": record(listed("b.safetensors", b"x") | {"sha256": "../x"}),
    "no hash": record(listed("b.safetensors", b"x") | {"sha256": ""}),
    "more files than a model has": record(*(listed(f"{i}.safetensors", b"") for i in range(FILES))),
    "another repository": record(repo="someone/else"),
    "a repository that is a path": record(repo="../x"),
    "a revision that is a path": record(revision="../../x"),
    "no files": record(files=[]),
    "files that are no list": record(files=7),
    "an infinite size": json.dumps(record()).replace('"bytes": 2', '"bytes": 1e999'),
    "too deep": '{"format": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "half a character": json.dumps(record()).replace("main", "\\ud800"),
    "no JSON": "\x00",
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_record_that_we_did_not_write_is_none(what: str, models: Path, tmp_path: Path, hub: Hub) -> None:
    work = planted(models / f"{NAME}.partial", BROKEN[what], **{"notes.txt": b"foreign", WEIGHTS: b"other"})
    before = everything(tmp_path)
    assert Record.read(work) is None
    (found,) = partials(models)
    assert (found.repo, found.done_bytes, found.total_bytes) == (REPO, 0, 0)
    with pytest.raises(SafelightError, match=r"nothing in it is touched; move it away"):
        download(REPO, models, endpoint=hub.endpoint)
    with pytest.raises(SafelightError, match=r"nothing in it is touched; move it away"):
        discard(REPO, models)
    assert hub.requests == 0
    whole = work.rename(models / NAME)
    assert not is_verified(whole)
    with pytest.raises(SafelightError, match="cannot be verified"):
        verify(whole)
    with pytest.raises(SafelightError, match="is not a download of Safelight; move it away"):
        download(REPO, models, endpoint=hub.endpoint)
    whole.rename(work)
    assert everything(tmp_path) == before


def test_cancelling_removes_what_a_download_wrote_and_nothing_else(models: Path) -> None:
    work = planted(models / f"{NAME}.partial", record(), **{f"{WEIGHTS}.part": b"half", "thesis.txt": b"mine"})
    (work / "inside").mkdir()
    with pytest.raises(SafelightError, match=r"holds 'thesis.txt', which Safelight did not write"):
        discard(REPO, models)
    assert {path.name for path in work.iterdir()} == {"thesis.txt", "inside"}
    (work / "thesis.txt").unlink()
    with pytest.raises(SafelightError, match="nothing in it is touched"):
        discard(REPO, models)
    (work / "inside").rmdir()
    discard(REPO, models)
    assert list(models.iterdir()) == []


def test_a_linked_folder_is_not_ours(models: Path, tmp_path: Path, hub: Hub) -> None:
    elsewhere = planted(tmp_path / f"{NAME}.partial", record())
    (models / f"{NAME}.partial").symlink_to(elsewhere)
    before = everything(tmp_path)
    assert partials(models) == ()
    assert partial_of(models / f"{NAME}.partial") is None
    for attempt in (lambda: discard(REPO, models), lambda: download(REPO, models, endpoint=hub.endpoint)):
        with pytest.raises(SafelightError, match="nothing in it is touched"):
            attempt()
    assert everything(tmp_path) == before
    (models / f"{NAME}.partial").rename(models / NAME)
    assert not is_verified(models / NAME)


def test_a_link_in_place_of_the_draft_adapters_folder_is_not_followed(models: Path, tmp_path: Path, hub: Hub) -> None:
    name = f"{DRAFT_FOLDER}/adapter_config.json"
    work = planted(models / f"{NAME}.partial", record(listed(name, b"x")))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "adapter_config.json").write_bytes(b"x")
    (work / DRAFT_FOLDER).symlink_to(tmp_path / "elsewhere")
    for attempt in (lambda: discard(REPO, models), lambda: download(REPO, models, endpoint=hub.endpoint)):
        with pytest.raises(SafelightError, match="nothing in it is touched"):
            attempt()
    assert (tmp_path / "elsewhere" / "adapter_config.json").read_bytes() == b"x"


@pytest.mark.parametrize("name", ["config.json", f"{WEIGHTS}.part", WEIGHTS])
def test_links_in_a_folder_are_not_followed(name: str, models: Path, tmp_path: Path, hub: Hub) -> None:
    work = planted(models / f"{NAME}.partial", record())
    (work / WEIGHTS).unlink()
    (work / name).unlink(missing_ok=True)
    (work / name).symlink_to(tmp_path / "thesis.txt")
    with pytest.raises(SafelightError, match=r"is not part of this download; move it away"):
        download(REPO, models, endpoint=hub.endpoint)
    assert hub.requests == 0
    assert (tmp_path / "thesis.txt").read_text() == "mine"
    (work / name).unlink()
    assert download(REPO, models, endpoint=hub.endpoint) == "ready"


def test_a_finished_folder_with_a_link_in_it_stays_as_it_is(models: Path, tmp_path: Path, hub: Hub) -> None:
    whole = planted(models / NAME, record())
    (whole / WEIGHTS).unlink()
    (whole / WEIGHTS).symlink_to(tmp_path / "thesis.txt")
    for attempt in (lambda: discard(REPO, models), lambda: download(REPO, models, endpoint=hub.endpoint)):
        with pytest.raises(SafelightError, match=r"is not part of this download; move it away"):
            attempt()
    assert (whole / WEIGHTS).is_symlink()
    (whole / WEIGHTS).unlink()
    discard(REPO, models)
    assert list(models.iterdir()) == []


def test_a_part_that_is_another_name_of_a_file_elsewhere_is_not_written_to(
    models: Path, tmp_path: Path, hub: Hub
) -> None:
    work = planted(models / f"{NAME}.partial", record())
    (work / WEIGHTS).unlink()
    os.link(tmp_path / "thesis.txt", work / f"{WEIGHTS}.part")
    with pytest.raises(SafelightError, match="is not part of this download"):
        download(REPO, models, endpoint=hub.endpoint, patience=Patience(1))
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_pipe_in_a_folder_is_not_waited_for(models: Path, hub: Hub) -> None:
    work = planted(models / f"{NAME}.partial", record())
    (work / WEIGHTS).unlink()
    os.mkfifo(work / f"{WEIGHTS}.part")
    with pytest.raises(SafelightError, match="is not part of this download"):
        download(REPO, models, endpoint=hub.endpoint)
    (work / RECORD).unlink()
    os.mkfifo(work / RECORD)
    assert Record.read(work) is None


def test_verifying_keeps_what_lies_in_its_way(models: Path) -> None:
    model = planted(models / NAME, record(), **{WEIGHTS: b"v" * 100})
    thesis = models / f"{NAME}.partial" / "thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("mine")
    with pytest.raises(SafelightError, match=r"is damaged \(model.safetensors\), and .* is in the way"):
        verify(model)
    assert thesis.read_text() == "mine"
    assert (model / WEIGHTS).exists()


def test_verifying_reads_no_files_elsewhere(models: Path, tmp_path: Path) -> None:
    store = models / "x-packed"
    store.mkdir()
    digest = hashlib.sha256(b"mine").hexdigest()
    for name, size in (("../../thesis.txt", 4), ("a.safetensors", 2**62), ("a.safetensors", "4")):
        files = {name: {"bytes": size, "sha256": digest}}
        (store / "safelight-store.json").write_text(json.dumps({"files": files}))
        with pytest.raises(SafelightError, match=r"safelight-store.json is damaged .*convert the model again"):
            verify(store)
    (store / "safelight-store.json").write_text(
        json.dumps({"files": {"a.safetensors": {"bytes": 4, "sha256": digest}}})
    )
    (store / "a.safetensors").symlink_to(tmp_path / "thesis.txt")
    with pytest.raises(SafelightError, match=r"is damaged \(a.safetensors\)"):
        verify(store)


@pytest.mark.parametrize(
    "repo",
    [
        "",
        "x",
        "../x",
        "a/../b",
        "a/b/c",
        "/x",
        "a/",
        "a\\b",
        "a/b\x00",
        "a/b\n",
        "a--b/c",
        "a/b.partial",
        "con/.x",
        "é/x",
    ],
)
def test_a_repository_is_owner_and_name(repo: str, tmp_path: Path) -> None:
    assert not is_repo(repo)
    for attempt in (folder_name, lambda given: discard(given, tmp_path), lambda given: download(given, tmp_path)):
        with pytest.raises(SafelightError, match="looks like owner/name"):
            attempt(repo)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_tells_its_repository() -> None:
    for repo in (REPO, "google/diffusiongemma-26B-A4B-it", "a/b-c_d.e"):
        assert repo_of(folder_name(repo)) == repo_of(folder_name(repo) + ".partial") == repo
    assert repo_of("notes") is repo_of("..--..") is None


def test_a_record_comes_back(models: Path) -> None:
    files = (RemoteFile("config.json", 2, blob="0" * 40), RemoteFile(WEIGHTS, 2**45, "f" * 64))
    work = models / f"{NAME}.partial"
    work.mkdir()
    Record(REPO, "0" * 40, files).write(work)
    assert Record.read(work) == Record(REPO, "0" * 40, files)
