"""``safelight download`` against a hub on the loopback interface: paused by Ctrl+C, resumed, opened by its name."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.main import main
from engine import MINI
from engine.catalog import resolve
from engine.hub.record import size_of
from engine.hub_cache import repo_folder, snapshot_of
from tests.app.cli.calling import refused
from tests.engine.hub.server import Hub, serving

REPO = "someone/skills"
WEIGHTS = "model.safetensors"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(Hub({REPO: {path.name: path.read_bytes() for path in resolve(MINI).iterdir()}})) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.endpoint)
        yield running


def interrupt_in_the_middle() -> None:
    """Press Ctrl+C once a part of the weights is there."""
    for _ in range(2_000):
        if max(map(size_of, repo_folder(REPO).glob("blobs/*.incomplete")), default=0) > 900_000:
            break
        threading.Event().wait(0.01)
    os.kill(os.getpid(), signal.SIGINT)


def test_it_is_paused_and_goes_on_and_opens_by_its_name(hub: Hub, capsys: Capture) -> None:
    assert main(["generate", "Hi", "--model", REPO]) == 2
    assert f"or fetch it: safelight download {REPO}" in capsys.readouterr().err
    hub.stall_after = 1_000_000
    thread = threading.Thread(target=interrupt_in_the_middle)
    thread.start()
    assert main(["download", REPO, "--json"]) == 130
    thread.join()
    said = capsys.readouterr()
    assert said.err.endswith(f"safelight: paused; what is here is kept. To go on: safelight download {REPO}\n")
    assert (said.out, snapshot_of(REPO)) == ("", None)
    hub.gate.set()
    assert main(["download", REPO, "--json"]) == 0
    assert hub.sent_of(WEIGHTS)[-1].start > 900_000
    place = snapshot_of(REPO)
    assert place is not None
    size = sum(len(hub.files[REPO][path.name]) for path in place.iterdir())
    assert json.loads(capsys.readouterr().out) == {"model": REPO, "path": str(place), "bytes": size}
    assert main(["download", REPO]) == 0
    assert Path(capsys.readouterr().out.strip()) == place
    assert main(["plan", REPO, "--json"]) == 0


def test_what_cannot_be_fetched_is_one_line(hub: Hub, capsys: Capture) -> None:
    hub.token = "hf_right"
    refused(capsys, f"{REPO} is closed: accept its licence at {hub.endpoint}/", "download", REPO)
    refused(capsys, "is not the name of a repository", "download", "../x")
