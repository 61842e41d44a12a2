"""The processes that match answers: what takes too long or too much ends with its process, and nothing else does."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from engine import MINI, catalog
from engine.errors import SafelightError
from engine.text import matching
from engine.text.grammar import GrammarState
from engine.text.grammar_tokens import GrammarTokens
from engine.text.matching import MatcherPool, MatcherProcess, MatchingEndedError
from engine.text.output_format import OutputFormat
from engine.text.tokenizer import Tokenizer

ENDLESS = '{"allOf":[{"type":"integer","multipleOf":9973},{"type":"integer","multipleOf":9967}]}'
BYTES = [bytes([byte]) for byte in range(256)]


class AfterLooks:
    """A flag that is set once it was looked at so often."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def is_set(self) -> bool:
        self.looks -= 1
        return self.looks < 0


@pytest.fixture
def pool() -> Iterator[MatcherPool]:
    made = MatcherPool(BYTES, [0], [0], list)
    yield made
    while made._kept:
        made._kept.pop().close()


@contextmanager
def lent(pool: MatcherPool) -> Iterator[MatcherProcess]:
    process = pool.lend(None)
    yield process
    pool.give_back(process)


def is_over(process: MatcherProcess) -> bool:
    return process._process.poll() is not None


@pytest.mark.parametrize("why", ["time", "memory", "cancel"])
def test_a_grammar_that_takes_too_much_ends_with_its_process(
    pool: MatcherPool, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(matching, "ANSWER_SECONDS", 0.2 if why == "time" else 3_600.0)
    monkeypatch.setattr(matching, "POLL_SECONDS", 0.01)
    with lent(pool) as process, monkeypatch.context() as patch:
        if why == "memory":
            patch.setattr(matching, "MEMORY", process._memory() + 10 * 2**20)
        if why == "cancel":
            process.start_answer(AfterLooks(3))
        with pytest.raises(MatchingEndedError, match="." if why == "cancel" else "it is too complex; make it simpler"):
            process.make("json", ENDLESS)
        assert is_over(process)
    assert not pool._kept
    with lent(pool) as other:
        assert other.make("lark", 'start: "a"').forced() == [ord("a")]


def test_the_system_ends_an_unwatched_process(pool: MatcherPool) -> None:
    with lent(pool) as process:
        if sys.platform == "linux":
            limit = psutil.Process(process._process.pid).rlimit(psutil.RLIMIT_AS)
            assert 0 < limit[0] <= 2**31
        process._jobs.close()  # as where whoever started it is gone
        process._process.wait(60)


def test_ctrl_c_ends_a_process_that_would_answer_too_late(pool: MatcherPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupts(_process: MatcherProcess, _ends: float) -> bool:
        raise KeyboardInterrupt

    with lent(pool) as process:
        with monkeypatch.context() as patch:
            patch.setattr(MatcherProcess, "_wait", interrupts)
            with pytest.raises(KeyboardInterrupt):
                process.make("lark", 'start: "a"')
        assert is_over(process)
    assert not pool._kept


def test_an_answer_that_grows_may_take_more(pool: MatcherPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "TOKEN_SECONDS", 1.0)
    with lent(pool) as process:
        process._left = 0.5
        process.make("lark", "start: /a{9}/").take([ord("a")] * 2)
        assert 2.0 < process._left < 2.5
        process.allow(100)
        assert process._left == matching.ANSWER_SECONDS


def test_a_process_serves_one_answer_after_the_other_and_never_two(pool: MatcherPool) -> None:
    with lent(pool) as first, lent(pool) as second:
        assert first is not second
        assert first.make("lark", 'start: "ab"').forced() == [*b"ab"]
    assert pool._kept == [second]
    assert is_over(first)  # one is kept
    with lent(pool) as again:
        assert again is second
        assert again.make("lark", 'start: "c"')._number == 0  # the matchers before are forgotten


def test_one_that_has_ended_or_has_grown_is_not_kept(pool: MatcherPool, monkeypatch: pytest.MonkeyPatch) -> None:
    with lent(pool) as process:
        process._process.kill()
        process._process.wait()
        with pytest.raises(MatchingEndedError):
            process.make("lark", 'start: "a"')
    assert not pool._kept
    monkeypatch.setattr(matching, "KEPT_MEMORY", -(2**30))
    with lent(pool) as process:
        pass
    assert not pool._kept
    assert is_over(process)


def test_a_process_that_was_forked_off_starts_its_own(pool: MatcherPool, monkeypatch: pytest.MonkeyPatch) -> None:
    with lent(pool) as process:
        pass
    with monkeypatch.context() as patch:
        patch.setattr("os.getpid", lambda: 1)
        other = pool.lend(None)
        other.close()
    assert other is not process
    process._process.wait(60)  # in a real fork its pipes stay open on the other side


def test_what_does_not_start_says_so_in_a_line(pool: MatcherPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_program", lambda: [sys.executable, "-c", "raise SystemExit(1)"])
    with pytest.raises(SafelightError, match="does not start; try again"):
        pool.lend(None)
    monkeypatch.setattr(matching, "_program", lambda: ["/no/such/program"])
    with pytest.raises(SafelightError, match="cannot be started"):
        pool.lend(None)


def test_processes_end_with_their_vocabulary() -> None:
    pool = MatcherPool(BYTES, [0], [0], list)
    with lent(pool) as process:
        pass
    del pool
    gc.collect()
    assert is_over(process)


def test_the_process_starts_with_the_library_alone() -> None:
    """Reading what the engine is takes many times as long."""
    path = Path(matching.__file__).with_name("matcher_process.py")
    code = f"import runpy, sys; runpy.run_path({str(path)!r}); sys.exit('engine' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0


@pytest.fixture(scope="module")
def tokens() -> GrammarTokens:
    tokenizer = Tokenizer.from_folder(Path(catalog.resolve(MINI)))
    return GrammarTokens.from_tokenizer(tokenizer, 128, (1, 8))


def test_a_format_that_takes_too_long_is_refused_in_a_line(
    tokens: GrammarTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "ANSWER_SECONDS", 0.001)
    large = {"type": "object", "properties": {f"a{at}": {"type": "string"} for at in range(800)}}
    with pytest.raises(SafelightError, match="this format cannot be followed: it is too complex"):
        GrammarState(OutputFormat("json_schema", large), tokens)


@pytest.mark.parametrize("kind", ["regex", "json_object"])
def test_an_answer_whose_process_ends_says_why_and_goes_no_further(tokens: GrammarTokens, kind: str) -> None:
    wanted = OutputFormat("json_object") if kind == "json_object" else OutputFormat("regex", pattern="[ab]{2,9}")
    for ask in (GrammarState.forced, GrammarState.allowed, lambda state: state.take([11])):
        with closing(GrammarState(wanted, tokens)) as state:
            state._matchers[0]._process.close()
            ask(state)
            assert state.failure == "the answer can no longer follow its format: it is too complex; make it simpler"
            assert state.take([11, 1]) == 0
            assert state.forced() == []
            assert not state.allowed().any()
            assert [state.must_end, state.may_end, state.has_ended] == [False] * 3


def test_a_second_matcher_goes_on_where_the_first_one_fails(tokens: GrammarTokens) -> None:
    with closing(GrammarState(OutputFormat("json_object"), tokens)) as state:
        first, second = state._matchers
        first.error = "it fell out"
        assert state._keep([first, second])
        assert state._matchers == [second]
        assert not state.failure
        assert state.allowed().any()
