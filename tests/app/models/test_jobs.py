"""Jobs in their two threads: order, stopping, failures."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from unittest.mock import Mock

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import app.models.jobs
from app.models.jobs import Control, JobEnded, Jobs, ModelJob
from engine import SafelightError


@pytest.fixture
def jobs(qtbot: QtBot) -> Iterator[Jobs]:  # noqa: ARG001 - it makes the application
    made = Jobs()
    yield made
    made.shutdown()
    assert not made.is_alive


def waiting(gate: threading.Event) -> object:
    def work(control: Control) -> object:
        while not gate.wait(0.005):
            if control.is_set():
                return "stopped"
        return "done"

    return work


def test_heavy_jobs_wait_for_each_other_and_light_ones_do_not(qtbot: QtBot, jobs: Jobs) -> None:
    gate, ended = threading.Event(), []
    jobs.ended.connect(lambda e: ended.append((e.key, e.result)))
    assert jobs.submit(ModelJob("a", "download", waiting(gate)))
    assert jobs.submit(ModelJob("b", "convert", lambda _control: "b done"))
    assert not jobs.submit(ModelJob("a", "download", waiting(gate)))
    assert jobs.submit(ModelJob("a", "plan", lambda _control: "counted"))
    assert (jobs.phase("a", "download"), jobs.phase("b", "convert")) == ("running", "queued")
    assert jobs.heavy_keys == ("a", "b")
    qtbot.waitUntil(lambda: ended == [("a", "counted")])
    gate.set()
    qtbot.waitUntil(lambda: ended == [("a", "counted"), ("a", "done"), ("b", "b done")])
    assert jobs.heavy_keys == ()


def test_stopping_what_runs_and_what_waits(qtbot: QtBot, jobs: Jobs) -> None:
    gate, ended = threading.Event(), []
    jobs.ended.connect(ended.append)
    jobs.submit(ModelJob("a", "download", waiting(gate)))
    jobs.submit(ModelJob("b", "download", waiting(gate)))
    jobs.cancel("b")
    assert [(e.key, e.stopped) for e in ended] == [("b", True)]
    jobs.pause("a")
    assert jobs.phase("a", "download") == "pausing"
    qtbot.waitUntil(lambda: len(ended) == 2)
    assert (ended[1].result, ended[1].stopped) == ("stopped", True)


def test_what_a_job_raises_comes_back(qtbot: QtBot, jobs: Jobs) -> None:
    ended: list[JobEnded] = []
    jobs.ended.connect(ended.append)
    for fault in (SafelightError("the disk is full; make room"), ValueError("a\nb")):
        jobs.submit(ModelJob(str(fault), "download", Mock(side_effect=fault)))
    qtbot.waitUntil(lambda: len(ended) == 2)
    assert (str(ended[0].failure), ended[0].details) == ("the disk is full; make room", "")
    assert str(ended[1].failure) == "Something went wrong: an unexpected fault, ValueError"
    assert "ValueError" in ended[1].details


def test_shutdown_pauses_and_forgets(qapp: QApplication, jobs: Jobs) -> None:
    ended: list[JobEnded] = []
    jobs.ended.connect(ended.append)
    jobs.submit(ModelJob("a", "download", waiting(threading.Event())))
    jobs.submit(ModelJob("b", "download", waiting(threading.Event())))
    jobs.shutdown()
    assert not jobs.is_alive
    assert not jobs.submit(ModelJob("c", "plan", lambda _control: None))
    qapp.processEvents()  # what was still sent arrives now, and is not passed on
    assert ended == []


def test_a_job_that_cannot_be_stopped_is_left_behind(qtbot: QtBot, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A keyring that waits for a password, say."""
    monkeypatch.setattr(app.models.jobs, "CLOSING_SECONDS", 0.05)
    begun, gate, ended = threading.Event(), threading.Event(), []
    jobs.ended.connect(ended.append)

    def hang(control: Control) -> object:
        begun.set()
        gate.wait()
        control.report(1.0, now=True)
        return None

    jobs.submit(ModelJob("a", "token", hang))
    assert begun.wait(20)
    jobs.shutdown()
    assert jobs.is_alive
    left = [thread for thread in threading.enumerate() if thread.name == "safelight-light-jobs"]
    assert [thread.daemon for thread in left] == [True]  # it does not keep the process alive
    gate.set()
    left[0].join()
    qtbot.wait(1)
    assert ended == []
