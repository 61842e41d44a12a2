"""Downloads against a hub on the loopback interface: resumed to the byte, verified, explained."""

from __future__ import annotations

import errno
import json
import random
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import engine.hub.client
from engine import SKILLS, SafelightError, load_model
from engine.catalog import resolve
from engine.hub.client import Patience
from engine.hub.download import (
    DownloadProgress,
    discard,
    download,
    is_verified,
    model_folder,
    partials,
    require_network,
    verify,
)
from engine.hub.progress import ByteCounter
from engine.hub.wire import has_route
from engine.models.model import check_small_files
from engine.store_files import DRAFT_FOLDER
from engine.text.published_patterns import QWEN2
from tests.engine.hub.server import Hub, serving

REPO = "someone/a-model"
ROOT = Path(__file__).resolve().parents[3]
WEIGHTS = "model.safetensors"
SIZE = 400_000
HASTY = Patience(tries=3, first_wait=0.001)
SOON = 20.0  # seconds; only a hanging test needs them


@pytest.fixture
def hub() -> Iterator[Hub]:
    files = {
        "config.json": b'{"model_type": "diffusion_gemma"}',
        "tokenizer.json": b"{}" * 50,
        "chat_template.jinja": b"{{ messages }}",
        WEIGHTS: random.Random(7).randbytes(SIZE),
        "vocab.json": b"{}",  # stands in for a tokenizer.json, and there is one
        "merges.txt": b"a b",
        "README.md": b"# not needed",
        "consolidated.pth": b"not needed either",
        "vision/model.safetensors": b"in another folder",
    }
    with serving(Hub({REPO: files})) as running:
        yield running


@pytest.fixture
def get(hub: Hub, tmp_path: Path) -> Callable[..., str]:
    def run(**options: object) -> str:
        asked: dict[str, object] = {"endpoint": hub.endpoint, "patience": HASTY} | options
        return download(REPO, tmp_path / "models", **asked)  # type: ignore[arg-type]

    return run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return model_folder(REPO, tmp_path / "models")


def wait_for(happened: Callable[[], bool]) -> None:
    for _ in range(int(SOON / 0.01)):
        if happened():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not happen")


def part(model: Path) -> Path:
    return model.with_name(model.name + ".partial") / (WEIGHTS + ".part")


def test_fetches_what_stands_in_for_a_tokenizer(hub: Hub, get: Callable[..., str], model: Path) -> None:
    del hub.files[REPO]["tokenizer.json"]
    assert get() == "ready"
    assert {"vocab.json", "merges.txt"} < {path.name for path in model.iterdir()}


def test_fetches_what_a_model_needs_and_nothing_else(hub: Hub, get: Callable[..., str], model: Path) -> None:
    told: list[DownloadProgress] = []
    assert get(progress=told.append) == "ready"
    names = {path.name for path in model.iterdir()}
    assert names == {"config.json", "tokenizer.json", "chat_template.jinja", WEIGHTS, "safelight-download.json"}
    assert (model / WEIGHTS).read_bytes() == hub.files[REPO][WEIGHTS]
    assert is_verified(model)
    assert partials(model.parent) == ()
    total = sum(len(hub.files[REPO][name]) for name in names - {"safelight-download.json"})
    assert (told[-1].done_bytes, told[-1].total_bytes, told[-1].share) == (total, total, 1.0)
    asked = hub.requests
    assert get() == "ready"
    assert hub.requests == asked


def test_two_interruptions_cost_no_byte_twice(hub: Hub, get: Callable[..., str], model: Path) -> None:
    hub.drops = [150_000, 100_000]
    assert get() == "ready"
    sent = hub.sent_of(WEIGHTS)
    assert [(s.start, s.count) for s in sent] == [(0, 150_000), (150_000, 100_000), (250_000, 150_000)]
    assert (model / WEIGHTS).read_bytes() == hub.files[REPO][WEIGHTS]


def test_goes_on_after_it_gave_up(hub: Hub, get: Callable[..., str], model: Path) -> None:
    hub.drops = [150_000, 0, 0]
    with pytest.raises(SafelightError, match=r"keeps breaking; resume later"):
        get()
    assert not model.exists()
    (left,) = partials(model.parent)
    assert left.repo == REPO
    assert 150_000 < left.done_bytes < left.total_bytes
    assert get() == "ready"
    assert hub.listed == 1  # the record is enough, and pins the revision
    assert sum(s.count for s in hub.sent_of(WEIGHTS)) == SIZE


def test_goes_on_after_the_process_was_killed(hub: Hub, get: Callable[..., str], model: Path) -> None:
    hub.stall_after = 200_000
    code = f"download({REPO!r}, Path({str(model.parent)!r}), endpoint={hub.endpoint!r})"
    code = f"from pathlib import Path; from engine.hub.download import download; {code}"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    wait_for(lambda: part(model).exists() and part(model).stat().st_size == 200_000)
    process.kill()
    process.wait()
    hub.gate.set()
    assert not model.exists()
    assert get() == "ready"
    assert sorted(sent.start for sent in hub.sent_of(WEIGHTS)) == [0, 200_000]  # the stalled one may be told last
    assert (model / WEIGHTS).read_bytes() == hub.files[REPO][WEIGHTS]


@pytest.mark.parametrize("which", ["pause", "cancel"])
def test_stops_in_the_middle_of_a_file(which: str, hub: Hub, get: Callable[..., str], model: Path) -> None:
    hub.stall_after = 200_000
    flag, ended = threading.Event(), []
    thread = threading.Thread(target=lambda: ended.append(get(**{which: flag})))
    thread.start()
    wait_for(lambda: part(model).exists() and part(model).stat().st_size == 200_000)
    flag.set()
    hub.gate.set()
    thread.join(SOON)
    assert not model.exists()
    if which == "cancel":
        assert ended == ["cancelled"]
        assert list(model.parent.iterdir()) == []
        return
    assert ended == ["paused"]
    here = part(model).stat().st_size
    assert 200_000 <= here < SIZE
    assert get() == "ready"
    assert hub.sent_of(WEIGHTS)[-1].start == here
    assert hub.sent_of(WEIGHTS)[-1].count == SIZE - here


def test_a_flag_set_before_asks_for_nothing(hub: Hub, get: Callable[..., str], model: Path) -> None:
    flag = threading.Event()
    flag.set()
    assert get(pause=flag) == "paused"
    assert hub.requests == 0
    assert not model.parent.exists()


def test_a_damaged_file_is_fetched_once_more(hub: Hub, get: Callable[..., str], model: Path) -> None:
    hub.flips[WEIGHTS] = hub.flips["config.json"] = 1
    assert get() == "ready"
    assert [s.start for s in hub.sent_of(WEIGHTS)] == [0, 0]
    assert len(hub.sent_of("config.json")) == 2
    assert (model / WEIGHTS).read_bytes() == hub.files[REPO][WEIGHTS]


def test_a_file_damaged_twice_is_no_model(hub: Hub, get: Callable[..., str], model: Path) -> None:
    hub.flips[WEIGHTS] = 2
    with pytest.raises(SafelightError, match=r"model.safetensors of someone/a-model arrived damaged twice"):
        get()
    assert not model.exists()
    assert not part(model).exists()
    assert get() == "ready"  # the hub has recovered


def test_a_part_that_is_no_beginning_is_replaced(hub: Hub, get: Callable[..., str], model: Path) -> None:
    hub.drops = [1000, 0, 0]
    with pytest.raises(SafelightError, match="keeps breaking"):
        get()
    part(model).write_bytes(b"x" * 1000)
    hub.sent.clear()
    assert get() == "ready"
    assert [s.start for s in hub.sent] == [1000, 0]
    assert (model / WEIGHTS).read_bytes() == hub.files[REPO][WEIGHTS]


def test_a_hub_without_ranges_starts_over(hub: Hub, get: Callable[..., str], model: Path) -> None:
    hub.ranges, hub.drops = False, [100_000]
    told: list[DownloadProgress] = []
    assert get(progress=told.append) == "ready"
    assert [s.count for s in hub.sent_of(WEIGHTS)] == [100_000, SIZE]
    assert told[-1].done_bytes == told[-1].total_bytes
    assert (model / WEIGHTS).read_bytes() == hub.files[REPO][WEIGHTS]


def test_a_server_that_recovers(hub: Hub, get: Callable[..., str]) -> None:
    hub.statuses = [503, 500, 0, 429]  # the list, twice refused; then a file
    assert get() == "ready"


def test_a_server_that_keeps_failing(hub: Hub, get: Callable[..., str]) -> None:
    hub.statuses = [500] * 3
    with pytest.raises(SafelightError, match=r"answers with error 500; try again later"):
        get()
    assert hub.requests == 3


def test_a_closed_model_wants_a_licence_and_a_token(hub: Hub, get: Callable[..., str]) -> None:
    hub.token = "hf_right"
    with pytest.raises(SafelightError, match=r"accept its licence at http://\S+/someone/a-model, then enter an access"):
        get()
    with pytest.raises(SafelightError, match=r"closed to this access token"):
        get(token="hf_wrong")
    assert hub.requests == 2  # no use in trying again
    assert get(token="hf_right") == "ready"


def test_the_token_stays_with_the_hub(hub: Hub, get: Callable[..., str]) -> None:
    hub.token, hub.redirects, hub.drops = "hf_right", True, [100_000]
    assert get(token="hf_right") == "ready"
    assert [(s.start, s.authorization) for s in hub.sent_of(WEIGHTS)] == [(0, ""), (100_000, "")]
    assert {s.authorization for s in hub.sent_of("config.json")} == {"Bearer hf_right"}


def test_what_does_not_exist(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(SafelightError, match=r"there is no repository no/such at"):
        download("no/such", tmp_path, endpoint=hub.endpoint)
    with pytest.raises(SafelightError, match=r"looks like owner/name"):
        download("no/such/thing", tmp_path, endpoint=hub.endpoint)
    hub.files["some/text"] = {"config.json": b"{}"}
    with pytest.raises(SafelightError, match=r"holds no model that Safelight reads"):
        download("some/text", tmp_path, endpoint=hub.endpoint)
    assert list(tmp_path.iterdir()) == []


def test_a_hub_that_nobody_reaches_is_told_at_once_and_tried_once(
    get: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ByteCounter, "wait", lambda *_: pytest.fail("it is tried again"))
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(SafelightError, match=r"there is no connection to http://127.0.0.1"):
            get(endpoint=f"http://127.0.0.1:{nobody.getsockname()[1]}", patience=Patience())


def test_a_hub_that_does_not_answer_is_told_soon_and_tried_once(get: Callable[..., str]) -> None:
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        patience = Patience(stall=0.2, soon=0.02)
        with pytest.raises(SafelightError, match=r"there is no connection to"):
            get(
                endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}",
                patience=patience,
                progress=lambda progress: told.append(progress.stage),
            )
    assert told == ["waiting"]
    assert Patience().soon < 1.0


def test_without_any_network_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.hub.client, "has_route", lambda: False)
    monkeypatch.setattr(engine.hub.client, "getproxies", dict)
    monkeypatch.setattr(engine.hub.client, "Exchange", lambda *_, **__: pytest.fail("a socket is opened"))
    for work in (require_network, lambda: download(REPO, tmp_path)):
        with pytest.raises(SafelightError, match="not connected to a network"):
            work()
    assert list(tmp_path.iterdir()) == []


def test_the_system_knows_whether_there_is_a_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", lambda *_: None)
    assert has_route()

    def unreachable(*_: object) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", unreachable)
    assert not has_route()


def test_the_disk_is_looked_at_first(
    hub: Hub, get: Callable[..., str], model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.drops = [300_000, 0, 0]
    with pytest.raises(SafelightError, match="keeps breaking"):
        get()
    (left,) = partials(model.parent)
    missing = left.total_bytes - left.done_bytes
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=missing - 1))
    hub.sent.clear()
    with pytest.raises(SafelightError, match=r"needs 0.00 GB more and .* resume"):
        get()
    assert hub.sent == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=missing))  # what is here counts
    assert get() == "ready"


def test_offline_makes_no_socket(get: Callable[..., str], model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise AssertionError("a socket was made")

    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(SafelightError, match="offline is on"):
        get(offline=True)
    assert not model.parent.exists()


def test_verify_finds_damage_and_the_rest_is_kept(hub: Hub, get: Callable[..., str], model: Path) -> None:
    get()
    told: list[DownloadProgress] = []
    assert verify(model, told.append)
    assert told[-1].share == 1.0
    weights = bytearray((model / WEIGHTS).read_bytes())
    weights[5] ^= 1
    (model / WEIGHTS).write_bytes(weights)
    flag = threading.Event()
    flag.set()
    assert not verify(model, cancel=flag)
    with pytest.raises(SafelightError, match=r"damaged: model.safetensors; resume the download"):
        verify(model)
    assert not model.exists()
    hub.sent.clear()
    assert get() == "ready"
    assert [sent.file for sent in hub.sent] == [WEIGHTS]
    assert verify(model)


def test_verify_needs_hashes() -> None:
    with pytest.raises(SafelightError, match="came without hashes"):
        verify(resolve(SKILLS))


def test_what_is_in_the_way_is_not_touched(get: Callable[..., str], model: Path) -> None:
    model.mkdir(parents=True)
    (model / "thesis.txt").write_text("mine")
    with pytest.raises(SafelightError, match="is not a download of Safelight"):
        get()
    assert (model / "thesis.txt").read_text() == "mine"


def test_a_file_that_somebody_removed_is_fetched_again(hub: Hub, get: Callable[..., str], model: Path) -> None:
    get()
    (model / WEIGHTS).unlink()
    assert not is_verified(model)
    hub.sent.clear()
    assert get() == "ready"
    assert [sent.file for sent in hub.sent] == [WEIGHTS]


def test_discard(hub: Hub, get: Callable[..., str], model: Path) -> None:
    hub.drops = [1000, 0, 0]
    with pytest.raises(SafelightError):
        get()
    discard(REPO, model.parent)
    assert list(model.parent.iterdir()) == []
    discard(REPO, model.parent)


def test_the_adapter_that_a_model_drafts_with_lies_in_a_folder_of_its_own(
    hub: Hub, get: Callable[..., str], model: Path
) -> None:
    draft = {f"{DRAFT_FOLDER}/adapter_config.json": b"{}", f"{DRAFT_FOLDER}/adapter_model.safetensors": b"d" * 50_000}
    hub.files[REPO] |= draft | {"other/adapter_config.json": b"{}", f"{DRAFT_FOLDER}/README.md": b"none of ours"}
    hub.drops = [1000, 0, 0]
    with pytest.raises(SafelightError):
        get()
    inside = model.with_name(model.name + ".partial") / DRAFT_FOLDER
    assert [path.name for path in inside.iterdir()] == ["adapter_config.json", "adapter_model.safetensors.part"]
    assert get() == "ready"
    assert {name: (model / name).read_bytes() for name in draft} == draft
    assert not (model / "other").exists()
    assert verify(model)
    (model / next(iter(draft))).unlink()
    assert not is_verified(model)
    discard(REPO, model.parent)
    assert list(model.parent.iterdir()) == []


def test_a_downloaded_model_loads(hub: Hub, tmp_path: Path) -> None:
    hub.files["safelight/skills"] = {path.name: path.read_bytes() for path in resolve(SKILLS).iterdir()}
    hub.drops = [1_000_000, 500_000]
    assert download("safelight/skills", tmp_path, endpoint=hub.endpoint, patience=HASTY) == "ready"
    model = load_model(model_folder("safelight/skills", tmp_path), device="cpu")
    assert model.parameter_count > 0


def test_weights_are_not_asked_for_before_the_small_files_are_seen_to_be_good(
    hub: Hub, get: Callable[..., str], model: Path, tmp_path: Path
) -> None:
    source = resolve(SKILLS)
    small = ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json", "chat_template.jinja")
    files = {name: (source / name).read_bytes() for name in small}
    weights = {"model-00001-of-00002.safetensors": b"tiny", "model-00002-of-00002.safetensors": bytes(SIZE)}
    raw = json.loads(files["tokenizer.json"])
    raw["pre_tokenizer"] = QWEN2.split | {"pattern": {"Regex": r"\d+(a+)+$"}}
    refused = {
        "tokenizer.json": (json.dumps(raw).encode(), r"the regular expression .*\(a\+\)\+.*; choose a model"),
        "config.json": (b'{"model_type": "mamba"}', "mamba"),
        "chat_template.jinja": (b"{% for x in", "chat template is damaged"),
    }
    for name, (content, said) in refused.items():
        hub.files[REPO] = {**files, name: content, **weights}
        with pytest.raises(SafelightError, match=said):
            get(check=check_small_files)
        assert [sent.file for sent in hub.sent if sent.file in weights] == []
        assert [(part.done_bytes > 0, part.total_bytes > SIZE) for part in partials(model.parent)] == [(True, True)]
        discard(REPO, tmp_path / "models")
    hub.files[REPO] = {**files, **weights}
    assert get(check=check_small_files) == "ready"
    assert [sent.file for sent in hub.sent][-2:] == list(weights)
