"""Downloads against a hub on the loopback interface: resumed to the byte, verified, explained."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from tqdm import tqdm

import engine.hub.client
import engine.hub_http
from engine import MINI, SafelightError
from engine.catalog import resolve
from engine.hub.download import discard, download, unfinished
from engine.hub.record import DownloadProgress, size_of
from engine.hub_cache import delete, repo_folder, snapshot_of
from engine.models.model import check_small_files
from engine.store_files import DRAFT_FOLDER
from tests.engine.hub.server import REVISION, Hub, serving

REPO = "someone/a-model"
ROOT = Path(__file__).resolve().parents[3]
WEIGHTS = "model.safetensors"
SIZE = 400_000
SOON = 20.0  # seconds; only a hanging test needs them


@pytest.fixture(autouse=True)
def in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that bytes are counted exactly, and nothing is slept for."""
    monkeypatch.setattr(engine.hub.client, "RECEIVED_BYTES", 5_000)
    monkeypatch.setattr("huggingface_hub.file_download.time", SimpleNamespace(sleep=lambda _: None, time=time.time))


@pytest.fixture
def hub() -> Iterator[Hub]:
    files = {
        "config.json": b'{"model_type": "diffusion_gemma"}',
        "tokenizer.json": b"{}" * 50,
        "chat_template.jinja": b"{{ messages }}",
        WEIGHTS: random.Random(7).randbytes(SIZE),
        "vocab.json": b"{}",
        "README.md": b"# not needed",
        "consolidated.pth": b"not needed either",
        "vision/model.safetensors": b"in another folder",
    }
    with serving(Hub({REPO: files})) as running:
        yield running


@pytest.fixture
def get(hub: Hub) -> Callable[..., bool]:
    def run(**options: object) -> bool:
        asked: dict[str, object] = {"endpoint": hub.endpoint} | options
        return download(REPO, **asked)  # type: ignore[arg-type]

    return run


def wait_for(happened: Callable[[], bool]) -> None:
    for _ in range(int(SOON / 0.01)):
        if happened():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not happen")


def break_off(hub: Hub, get: Callable[..., bool], at: int) -> None:
    """A download whose connection breaks behind so many bytes, and whenever it is tried again."""
    hub.drops = [at, *([0] * 20)]
    with pytest.raises(SafelightError, match="keeps breaking"):
        get()
    hub.drops.clear()
    hub.sent.clear()


def part_bytes() -> int:
    """The size of the weights' incomplete file."""
    return max(map(size_of, repo_folder(REPO).glob("blobs/*.incomplete")), default=0)


def model() -> Path:
    found = snapshot_of(REPO)
    assert found is not None
    return found


def everything() -> set[str]:
    """Returns all files of the repository in the cache, without the library's locks."""
    root = repo_folder(REPO)
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if not path.is_dir()}


def test_fetches_what_a_model_needs_and_nothing_else(hub: Hub, get: Callable[..., bool]) -> None:
    seen: list[DownloadProgress] = []
    assert get(progress=seen.append)
    names = {path.name for path in model().iterdir()}
    assert names == {"config.json", "tokenizer.json", "vocab.json", "chat_template.jinja", WEIGHTS}
    assert (model() / WEIGHTS).read_bytes() == hub.files[REPO][WEIGHTS]
    assert everything() == {
        "refs/main",
        *(f"snapshots/{REVISION}/{name}" for name in names),
        *(f"blobs/{path.name}" for path in (repo_folder(REPO) / "blobs").iterdir()),
    }
    total = sum(len(hub.files[REPO][name]) for name in names)
    assert {each.total_bytes for each in seen} <= {0, total}
    asked = hub.requests
    assert get()
    assert hub.requests == asked


def test_the_library_finds_what_was_downloaded(hub: Hub, get: Callable[..., bool]) -> None:
    """So do vLLM and transformers, which ask it."""
    assert get()
    cache = repo_folder(REPO).parent
    found = huggingface_hub.snapshot_download(REPO, cache_dir=cache, local_files_only=True)
    assert Path(found) == model().resolve()
    (repo,) = huggingface_hub.scan_cache_dir(cache).repos
    assert (repo.repo_id, [sorted(revision.refs) for revision in repo.revisions]) == (REPO, [["main"]])
    asked = hub.requests
    again = huggingface_hub.hf_hub_download(REPO, WEIGHTS, cache_dir=cache, endpoint=hub.endpoint, revision=REVISION)
    assert Path(again).read_bytes() == hub.files[REPO][WEIGHTS]
    assert hub.requests == asked


def test_what_the_library_has_is_not_fetched_again(
    hub: Hub, get: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tqdm, "monitor_interval", 0)  # else the library leaves a thread
    cache = repo_folder(REPO).parent
    kept = Path(huggingface_hub.hf_hub_download(REPO, WEIGHTS, cache_dir=cache, endpoint=hub.endpoint))
    hub.sent.clear()
    assert get()
    assert hub.sent_of(WEIGHTS) == []
    delete(model())
    kept = Path(huggingface_hub.hf_hub_download(REPO, WEIGHTS, cache_dir=cache, endpoint=hub.endpoint))
    flag = threading.Event()
    assert get(check=lambda _: flag.set(), stop=flag)  # nothing is left to stop
    delete(model())
    kept = Path(huggingface_hub.hf_hub_download(REPO, "config.json", cache_dir=cache, endpoint=hub.endpoint))
    assert not get(check=lambda _: flag.set(), stop=flag)
    discard(REPO)
    assert kept.exists()  # it was there before
    assert [path.name for path in kept.parent.iterdir()] == ["config.json"]


def test_a_file_that_another_program_receives_is_left_to_it(
    hub: Hub, get: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.hub_http, "SECONDS", 0.1)
    digest = hashlib.sha256(hub.files[REPO][WEIGHTS]).hexdigest()
    lock = repo_folder(REPO).parent / ".locks" / repo_folder(REPO).name / f"{digest}.lock"
    lock.parent.mkdir(parents=True)
    taken = huggingface_hub.utils.WeakFileLock(lock)  # as the library's own downloads do
    with taken, pytest.raises(SafelightError, match="another program downloads"):
        get()
    assert not hub.sent_of(WEIGHTS)
    assert get()


@pytest.mark.parametrize("variable", ["HF_HOME", "HF_HUB_CACHE"])
def test_the_variables_of_the_library_name_the_place(
    variable: str, get: Callable[..., bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    assert get()
    inside = "hub/models--someone--a-model" if variable == "HF_HOME" else "models--someone--a-model"
    assert (tmp_path / "elsewhere" / inside / "refs" / "main").read_text() == REVISION


def test_the_library_agrees_on_the_place_and_sends_nothing_about_this_computer(tmp_path: Path) -> None:
    code = (
        "import engine.hub.client\n"
        "from huggingface_hub import constants\n"
        "from engine.hub_cache import cache_folder\n"
        "print(constants.HF_HUB_CACHE == str(cache_folder()), constants.HF_HUB_DISABLE_TELEMETRY)"
    )
    own = os.environ | {"HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=own, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


@pytest.mark.parametrize(
    ("ranges", "sent"),
    [(True, [(0, 150_000), (150_000, 100_000), (250_000, 150_000)]), (False, [(0, 150_000), (0, SIZE)])],
)
def test_interruptions_cost_no_byte_twice_where_the_hub_has_ranges(
    ranges: bool, sent: list[tuple[int, int]], hub: Hub, get: Callable[..., bool]
) -> None:
    hub.ranges, hub.drops = ranges, [count for _, count in sent[:-1]]
    assert get()
    assert [(s.start, s.count) for s in hub.sent_of(WEIGHTS)] == sent
    assert (model() / WEIGHTS).read_bytes() == hub.files[REPO][WEIGHTS]


def test_goes_on_after_the_process_was_killed(hub: Hub, get: Callable[..., bool]) -> None:
    hub.stall_after = 200_000
    code = f"from engine.hub.download import download; download({REPO!r}, endpoint={hub.endpoint!r})"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=os.environ)
    wait_for(lambda: part_bytes() > 200_000 - 8_192)  # all that came, but for what the library has not written yet
    process.kill()
    process.wait()
    here = part_bytes()
    hub.gate.set()
    assert snapshot_of(REPO) is None
    assert get()
    assert sorted(sent.start for sent in hub.sent_of(WEIGHTS)) == [0, here]  # the stalled one may come last
    assert (model() / WEIGHTS).read_bytes() == hub.files[REPO][WEIGHTS]


def test_stops_in_the_middle_of_a_file_though_nothing_arrives(
    hub: Hub, get: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.hub.client, "SPEED_SECONDS", 0.1)
    hub.stall_after = 200_000
    flag, ended, seen = threading.Event(), [], list[DownloadProgress]()
    thread = threading.Thread(target=lambda: ended.append(get(stop=flag, progress=seen.append)))
    thread.start()
    wait_for(lambda: part_bytes() == 200_000 and bool(seen) and seen[-1].file_done == 200_000)
    wait_for(lambda: seen[-1].bytes_per_second == 0)  # progress is reported, though nothing arrives
    assert (seen[-1].file, seen[-1].file_bytes) == (WEIGHTS, SIZE)
    assert max(each.bytes_per_second for each in seen) > 0
    flag.set()
    thread.join(SOON)
    assert ended == [False]
    hub.gate.set()
    assert snapshot_of(REPO) is None
    wait_for(lambda: hub.sent_of(WEIGHTS)[0].count > 200_000)
    assert part_bytes() == 200_000  # bytes after the pause are not written
    assert get()
    assert hub.sent_of(WEIGHTS)[-1].start == 200_000
    assert hub.sent_of(WEIGHTS)[-1].count == SIZE - 200_000
    assert (model() / WEIGHTS).read_bytes() == hub.files[REPO][WEIGHTS]


def test_a_damaged_file_is_fetched_once_more_and_damaged_twice_is_no_model(hub: Hub, get: Callable[..., bool]) -> None:
    hub.flips["config.json"], hub.flips[WEIGHTS] = 1, 2
    with pytest.raises(SafelightError, match=r"model.safetensors arrived damaged twice"):
        get()
    assert snapshot_of(REPO) is None
    assert part_bytes() == 0
    assert len(hub.sent_of("config.json")) == 2
    hub.sent.clear()
    hub.flips[WEIGHTS] = 1
    assert get()
    assert [s.start for s in hub.sent_of(WEIGHTS)] == [0, 0]
    assert (model() / WEIGHTS).read_bytes() == hub.files[REPO][WEIGHTS]


@pytest.mark.parametrize("size", [SIZE, SIZE + 1])
def test_a_part_that_is_long_enough_is_verified_or_begun_anew(size: int, hub: Hub, get: Callable[..., bool]) -> None:
    break_off(hub, get, 1000)
    (part,) = repo_folder(REPO).glob("blobs/*.incomplete")
    part.write_bytes((hub.files[REPO][WEIGHTS] + b"x")[:size])
    assert get()
    assert [s.start for s in hub.sent] == ([] if size == SIZE else [0])
    assert (model() / WEIGHTS).read_bytes() == hub.files[REPO][WEIGHTS]


def test_a_server_that_fails(hub: Hub, get: Callable[..., bool]) -> None:
    hub.statuses = [500, 0, 503]  # the list, then a file
    for status in (500, 503):
        with pytest.raises(SafelightError, match=f"answers with error {status}; try again later"):
            get()
    assert get()


def test_a_closed_model_wants_a_licence_and_a_token(hub: Hub, get: Callable[..., bool]) -> None:
    hub.token = "hf_right"
    with pytest.raises(SafelightError, match=r"accept its licence at http://\S+/someone/a-model, then enter an access"):
        get()
    with pytest.raises(SafelightError, match=r"closed to this access token"):
        get(token="hf_wrong")
    assert hub.requests == 2  # no use in trying again
    assert get(token="hf_right")


def test_the_token_of_the_library_serves_stays_with_the_hub_and_is_not_logged(
    hub: Hub, get: Callable[..., bool], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    hub.token, hub.redirects, hub.drops = "hf_right", True, [100_000]
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert get()
    assert [(s.start, s.authorization) for s in hub.sent_of(WEIGHTS)] == [(0, ""), (100_000, "")]
    assert {s.authorization for s in hub.sent_of("config.json")} == {"Bearer hf_right"}
    assert capfd.readouterr() == ("", "")


def test_what_does_not_exist(hub: Hub) -> None:
    hub.files["some/text"] = {"config.json": b"{}"}
    for repo, message in (
        ("no/such", "there is no repository no/such at"),
        ("no/such/thing", "looks like owner/name"),
        ("some/text", "holds no model that Safelight reads"),
    ):
        with pytest.raises(SafelightError, match=message):
            download(repo, endpoint=hub.endpoint)
    assert not unfinished()


def test_an_unreachable_hub_or_proxy_is_reported_at_once(
    get: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        with pytest.raises(SafelightError, match=r"there is no connection to http://127.0.0.1"):
            get(endpoint=f"http://127.0.0.1:{port}")
        monkeypatch.setenv("ALL_PROXY", f"http://user:secret@127.0.0.1:{port}")
        with pytest.raises(
            SafelightError, match=r"no connection to http://hub.invalid; check the network, or the proxy"
        ):
            get(endpoint="http://hub.invalid")


def test_a_hub_that_does_not_answer_is_reported_soon_and_tried_once(
    get: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    stages: list[str] = []
    monkeypatch.setattr(engine.hub_http, "SECONDS", 0.3)
    monkeypatch.setattr(engine.hub.client, "SOON", 0.02)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(SafelightError, match="there is no connection"),
    ):
        get(
            endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}",
            progress=lambda progress: stages.append(progress.stage),
        )
    assert "waiting" in stages


def test_the_disk_is_looked_at_first(hub: Hub, get: Callable[..., bool], monkeypatch: pytest.MonkeyPatch) -> None:
    break_off(hub, get, 300_000)
    (left,) = unfinished()
    missing = left.total_bytes - left.done_bytes
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=missing - 1))
    with pytest.raises(SafelightError, match=r"needs 0.00 GB more and .* resume"):
        get()
    assert hub.sent == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=missing))  # what is here counts
    assert get()


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the name of an open file")
def test_a_disk_that_fills_up_is_reported_and_costs_nothing(
    get: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = os.fsync

    def full(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}").endswith(".incomplete"):
            raise OSError(errno.ENOSPC, "No space left on device")
        synced(handle)

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(SafelightError, match=r"the disk is full, .* Free some space, then try again"):
            get()
    assert get()


def test_offline_makes_no_socket(get: Callable[..., bool], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise AssertionError("a socket was made")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(SafelightError, match="HF_HUB_OFFLINE forbids downloads"):
        get()


def test_deleting_frees_what_the_library_says(get: Callable[..., bool]) -> None:
    assert get()
    size = sum(path.stat().st_size for path in model().iterdir())
    assert delete(model()) == size
    assert not repo_folder(REPO).exists()
    with pytest.raises(SafelightError, match="cannot be removed"):
        delete(repo_folder(REPO) / "snapshots" / REVISION)


def test_a_newer_commit_keeps_the_files_of_the_older_one(
    hub: Hub, get: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert get()
    older = model()
    monkeypatch.setattr("tests.engine.hub.server.REVISION", "f" * 40)
    hub.files[REPO]["config.json"] = b'{"model_type": "dream"}'
    (older / "config.json").unlink()  # so that it is not whole
    hub.sent.clear()
    assert get()
    assert [sent.file for sent in hub.sent] == ["config.json"]
    assert model() != older
    assert delete(model()) == len(hub.files[REPO]["config.json"])
    assert (older / WEIGHTS).read_bytes() == hub.files[REPO][WEIGHTS]


def test_a_repository_opens_by_its_name(get: Callable[..., bool]) -> None:
    with pytest.raises(SafelightError, match=f"or fetch it: safelight download {REPO}$"):
        resolve(REPO)
    assert get()
    assert resolve(REPO) == model()


def test_without_links_a_file_lies_in_the_snapshot(
    hub: Hub, get: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.file_download.are_symlinks_supported", lambda _: False)
    assert get()
    assert not (model() / WEIGHTS).is_symlink()
    assert everything() == {"refs/main", *(f"snapshots/{REVISION}/{path.name}" for path in model().iterdir())}
    assert delete(model()) > SIZE
    break_off(hub, get, 1000)
    discard(REPO)
    assert everything() == set()


def test_the_adapter_that_a_model_drafts_with_lies_in_a_folder_of_its_own(hub: Hub, get: Callable[..., bool]) -> None:
    draft = {f"{DRAFT_FOLDER}/adapter_config.json": b"{}", f"{DRAFT_FOLDER}/adapter_model.safetensors": b"d" * 50_000}
    hub.files[REPO] |= draft | {"other/adapter_config.json": b"{}", f"{DRAFT_FOLDER}/README.md": b"none of ours"}
    assert get()
    assert {name: (model() / name).read_bytes() for name in draft} == draft
    assert not (model() / "other").exists()
    delete(model())
    assert not repo_folder(REPO).exists()


def test_weights_are_not_asked_for_before_the_small_files_are_seen_to_be_good(
    hub: Hub, get: Callable[..., bool]
) -> None:
    small = ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json", "chat_template.jinja")
    files = {name: (resolve(MINI) / name).read_bytes() for name in small}
    weights = {"model-00001-of-00002.safetensors": b"tiny", "model-00002-of-00002.safetensors": bytes(SIZE)}
    refused = {
        "tokenizer.json": (b'{"model": 7}', r"tokenizer\.json is damaged"),
        "config.json": (b'{"model_type": "mamba"}', "mamba"),
        "chat_template.jinja": (b"{% for x in", "chat template is damaged"),
    }
    for name, (content, message) in refused.items():
        hub.files[REPO] = {**files, name: content, **weights}
        with pytest.raises(SafelightError, match=message):
            get(check=check_small_files)
        assert [sent.file for sent in hub.sent if sent.file in weights] == []
        assert [(part.done_bytes > 0, part.total_bytes > SIZE) for part in unfinished()] == [(True, True)]
        discard(REPO)
    hub.files[REPO] = {**files, **weights}
    assert get(check=check_small_files)
    assert [sent.file for sent in hub.sent][-2:] == list(weights)
