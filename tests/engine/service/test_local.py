"""A model on this machine as a backend: what is replied, and what is kept from run to run. No window, no thread."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine import (
    BASE,
    MINI,
    WEDLM,
    CanvasCommitted,
    CanvasStarted,
    Event,
    Fork,
    GenerationConfig,
    GenerationFinished,
    Mark,
    PrefillFinished,
    SafelightError,
    StepFinished,
    Trace,
)
from engine.catalog import resolve
from engine.errors import Sentence
from engine.layers.kv_cache import PIECE
from engine.service import (
    AdapterChanged,
    AdapterRequest,
    Backend,
    ChatRun,
    ForkRun,
    InfillRun,
    InfluenceRequest,
    LoadFailed,
    LoadProgress,
    LoadReply,
    LoadRequest,
    LoadStarted,
    LocalBackend,
    MemoryUsed,
    ModelLoaded,
    ModelUnloaded,
    PromptRead,
    PuzzleRun,
    RunAdvanced,
    RunEnded,
    RunReply,
    RunRequest,
    RunStarted,
    run_alone,
)
from engine.service.recorder import TOP_K
from tests.fake_engine import FakeEngine

MESSAGES = ({"role": "user", "content": "hello"},)
QUICK = GenerationConfig(max_new_tokens=100, max_denoising_steps=2)


def loaded(backend: Backend, path: str = MINI, title: str = "Skills") -> list[LoadReply]:
    replies: list[LoadReply] = []
    backend.load(LoadRequest(path, title), replies.append)
    return replies


def chat(config: GenerationConfig, seed: int = 7, prompt: str = "hello", **options: Any) -> RunRequest:
    return ChatRun(config, seed, ({"role": "user", "content": prompt},), **options)


def ended(backend: Backend, request: RunRequest) -> RunEnded:
    *_, last = run_alone(backend, request)
    assert isinstance(last, RunEnded)
    return last


def events(replies: list[RunReply]) -> list[Event]:
    return [reply.event for reply in replies if isinstance(reply, RunAdvanced)]


def trace_of(replies: list[RunReply]) -> Trace:
    return next(reply.trace for reply in replies if isinstance(reply, RunStarted))


@pytest.fixture
def fake() -> FakeEngine:
    made = FakeEngine()
    loaded(made)
    return made


def plain(event: Event) -> list[Any]:
    """All of an event but the time it took."""
    fields = {name: value for name, value in vars(event).items() if name not in ("seconds", "reused_tokens")}
    return [type(event), *(value.tolist() if hasattr(value, "tolist") else value for value in fields.values())]


def test_a_loaded_model_says_where_it_runs_and_why_and_what_it_can_do(fake: FakeEngine) -> None:
    replies = loaded(fake)
    assert [type(reply) for reply in replies] == [LoadStarted, *[LoadProgress] * 3, MemoryUsed, ModelLoaded]
    assert [reply.share for reply in replies if isinstance(reply, LoadProgress)] == [0.0, 0.5, 1.0]
    model = replies[-1].model  # type: ignore[union-attr]
    assert (model.device, model.device_reason) == ("cpu", "no CUDA device is available")
    assert model.kernels == "plain torch: the weights are not packed"
    assert model.capabilities == fake.capabilities
    assert model.capabilities.forks
    assert not model.capabilities.images
    assert fake.unload() == ModelUnloaded()
    assert "choose one first" in ended(fake, chat(QUICK)).message


def test_a_failure_is_one_line_and_no_model_is_left() -> None:
    backend = FakeEngine()
    assert loaded(backend, "missing")[-1] == LoadFailed("missing", "there is no model at missing")
    assert "no model is loaded" in ended(backend, chat(QUICK)).message  # nor the one from before
    failed = loaded(backend, "crash")[-1]
    assert isinstance(failed, LoadFailed)
    assert failed.message == "Something went wrong: unexpected. Try again; the details may say why."
    assert "RuntimeError: unexpected" in failed.details


def test_a_bad_folder_leaves_the_good_model_loaded(skills: LocalBackend, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((resolve(MINI) / "config.json").read_bytes())
    for path in (str(tmp_path), str(tmp_path / "none")):
        failed = loaded(skills, path)[-1]
        assert isinstance(failed, LoadFailed)
        assert failed.kept
    assert ended(skills, chat(QUICK)).message == ""


def test_an_adapter_comes_with_its_model() -> None:
    backend = LocalBackend()
    replies: list[LoadReply] = []
    backend.load(LoadRequest(BASE, "Base", adapter="sudoku-lora"), replies.append)
    assert replies[-1] == AdapterChanged("sudoku-lora", "Sudoku adapter")
    backend.load(LoadRequest(BASE, "Base", adapter="none"), replies.append)
    assert isinstance(replies[-2], ModelLoaded)
    assert isinstance(replies[-1], AdapterChanged)
    assert "there is no adapter at none" in replies[-1].message


def test_an_abandoned_load_falls_silent() -> None:
    request, replies = LoadRequest(MINI, "Skills"), list[LoadReply]()

    def note(reply: LoadReply) -> None:
        replies.append(reply)
        if isinstance(reply, LoadProgress) and reply.share:
            request.cancel.set()

    backend = FakeEngine()
    backend.load(request, note)
    assert [type(reply) for reply in replies] == [LoadStarted, LoadProgress, LoadProgress]
    assert "no model is loaded" in ended(backend, chat(QUICK)).message
    replies.clear()
    backend.load(request, note)
    assert replies == []


@pytest.mark.parametrize("kind", [ChatRun, PuzzleRun])
def test_every_reply_of_a_run_has_its_id(fake: FakeEngine, kind: type[ChatRun]) -> None:
    request = kind(fake.defaults, 7, MESSAGES)
    replies = [reply for reply in run_alone(fake, request) if not isinstance(reply, MemoryUsed)]
    assert {reply.run_id for reply in replies} == {request.run_id}  # type: ignore[union-attr]
    assert [type(reply) for reply in replies] == [RunStarted, *[RunAdvanced] * 7, RunEnded]
    assert trace_of(replies).events == events(replies)
    assert replies[-1] == RunEnded(request.run_id)
    other = kind(fake.defaults, 7, MESSAGES)
    assert other.run_id != request.run_id
    other.cancel.set()
    fake.prompts.clear()
    if kind is PuzzleRun:  # it was given up before it began
        assert list(run_alone(fake, other)) == [RunEnded(other.run_id)]
        assert fake.prompts == []


def test_runs_of_a_model_share_one_cache(fake: FakeEngine) -> None:
    def run() -> object:
        list(run_alone(fake, chat(fake.defaults)))
        return fake.caches[-1]

    first = run()
    assert run() is first
    fake.fail_at, fake.failure = 1, SafelightError("non-finite logits")
    assert run() is first
    fake.fail_at = None
    assert run() is first  # a foreseen failure leaves a cache in order
    fake.fail_at, fake.failure = 1, RuntimeError("the graphics card fell out")
    assert run() is first
    fake.fail_at = None
    second = run()
    assert second is not first  # of any other, nobody knows
    loaded(fake)
    assert run() not in (first, second)


OUT_OF_MEMORY = type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory.")


@pytest.mark.parametrize("failure", [MemoryError(), OUT_OF_MEMORY])
def test_memory_in_use_is_reported_before_each_block_until_it_runs_out(fake: FakeEngine, failure: Exception) -> None:
    fake.blocks = 2
    replies = list(run_alone(fake, chat(fake.defaults)))
    places = [place for place, reply in enumerate(replies) if isinstance(reply, MemoryUsed)]
    assert len(places) == 2
    assert all(isinstance(replies[place + 1].event, CanvasCommitted) for place in places)  # type: ignore[union-attr]
    fake.fail_at, fake.failure = 1, failure
    assert ended(fake, chat(fake.defaults)).message.startswith("Memory ran out. Close other programs")


def test_a_chat_with_tools_hands_them_to_the_template_and_records_what_was_said(fake: FakeEngine) -> None:
    question = {"role": "user", "content": "How cold?"}
    call = {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [{"function": {"name": "f"}}]}
    result = {"role": "tool", "content": "3", "name": "f", "tool_call_id": "1"}
    tool = {"type": "function", "function": {"name": "f", "description": "word " * 100}}
    trace = trace_of(list(run_alone(fake, ChatRun(fake.defaults, 0, (question, call, result), tools=(tool,)))))
    assert (fake.prompts[-1], fake.offered[-1]) == ([question, call, result], (tool,))
    assert trace.header.messages == (question, {"role": "assistant", "content": ""}, {"role": "tool", "content": "3"})
    assert trace.header.prompt == "How cold?"
    long = {"type": "function", "function": {"name": "f", "description": "word " * 2000}}
    found = ended(fake, ChatRun(fake.defaults, 0, (question,), reserve=8, tools=(long,)))
    assert "Shorten the prompt" in found.message


def test_a_prompt_that_does_not_fit_is_refused_in_a_sentence_that_can_be_translated(fake: FakeEngine) -> None:
    found = ended(fake, chat(fake.defaults, reserve=1000))
    assert "Choose a shorter answer" in found.message
    assert isinstance(found.message, Sentence)
    assert found.message.values == {"reserve": "1,000", "limit": "1,000"}
    assert fake.prompts == []


def test_a_run_that_is_not_read_to_its_end_is_given_up(tmp_path: Path) -> None:
    fake = FakeEngine(tmp_path)
    loaded(fake)
    run = run_alone(fake, chat(fake.defaults))
    started = next(run)
    assert isinstance(started, RunStarted)
    next(run)
    run.close()  # type: ignore[attr-defined]
    assert started.trace.failure == "The run was cancelled."
    assert ended(fake, chat(fake.defaults)).message == ""
    assert len(list(tmp_path.iterdir())) == 2


def test_a_fork_without_a_change_comes_out_as_the_run_and_knows_its_parent(skills: LocalBackend) -> None:
    root = trace_of(list(run_alone(skills, chat(QUICK, 3, "Count from 4 to 43."))))
    request = ForkRun.of(root, (Fork(1, 1),))
    replies = list(run_alone(skills, request))
    trace = trace_of(replies)
    assert replies[-1] == RunEnded(request.run_id)
    assert (request.seed, trace.header.messages) == (root.seed, root.header.messages)
    assert trace.header.parent is not None
    assert (trace.header.parent.id, trace.header.parent.block, trace.header.parent.step) == (root.header.id, 1, 1)
    assert trace.header.config.top_k == TOP_K
    of_blocks = [event for event in root.events if not isinstance(event, PrefillFinished)]
    in_fork = [event for event in trace.events if not isinstance(event, PrefillFinished)]
    assert [plain(event) for event in in_fork] == [plain(event) for event in of_blocks]
    assert len(events(replies)) < len(trace.events)  # the blocks before are in the trace alone


STALLED = {"stall_steps": 2, "max_denoising_steps": 4, "canvas_length": 16, "max_new_tokens": 32}


@pytest.mark.parametrize("how", [{}, STALLED])
def test_an_infill_keeps_the_other_blocks_in_their_order(skills: LocalBackend, how: dict[str, Any]) -> None:
    root = trace_of(list(run_alone(skills, chat(QUICK.replace(**how), 3, "Count from 4 to 43."))))
    request = InfillRun.of(root, (Mark(0, 2, 6),), seed=11)
    replies = list(run_alone(skills, request))
    assert replies[-1] == RunEnded(request.run_id)
    found = events(replies)
    blocks = [event.block_index for event in found if isinstance(event, CanvasStarted | StepFinished | CanvasCommitted)]
    assert blocks == sorted(blocks)
    assert trace_of(replies).header.marks == request.marks
    kept = [plain(event) for event in root.events if getattr(event, "block_index", 0) == 1]
    assert [plain(event) for event in found if getattr(event, "block_index", 0) == 1] == kept != []


def test_an_adapter_that_is_none_is_said_and_changes_nothing(skills: LocalBackend) -> None:
    loaded(skills, "safelight-base")
    put = skills.set_adapter(AdapterRequest("sudoku-lora"))
    assert put == AdapterChanged("sudoku-lora", "Sudoku adapter")
    refused = skills.set_adapter(AdapterRequest("nowhere/at-all"))
    assert "there is no adapter at" in refused.message
    trace = trace_of(list(run_alone(skills, chat(QUICK.replace(max_new_tokens=1)))))
    assert trace.header.model.adapter == "Sudoku adapter"
    assert skills.set_adapter(AdapterRequest(None)) == AdapterChanged(None)
    loaded(skills)


def test_influence_is_measured_or_refused_in_words(skills: LocalBackend) -> None:
    root = trace_of(list(run_alone(skills, chat(QUICK))))
    canvas = tuple(int(token) for token in root.committed[0].tokens)
    request = InfluenceRequest(root, 0, canvas, 1, 5, 1.0)
    measured = skills.measure(request)
    assert measured.influence is not None
    assert (measured.request, measured.message, len(measured.influence.kl)) == (request, "", len(canvas))
    refused = skills.measure(InfluenceRequest(root, 0, canvas, len(canvas), 5, 1.0))
    assert refused.influence is None
    assert "outside the canvas" in refused.message


def test_nothing_heavy_comes_with_the_service() -> None:
    """A window is painted before torch is there."""
    code = (
        "import sys, engine.service as s; s.LocalBackend();"
        "print([name for name in ('torch', 'PySide6', 'jinja2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_reading_of_a_long_prompt_is_reported_before_each_pass() -> None:
    long = LocalBackend()
    loaded(long, WEDLM)  # which has more positions than a pass reads
    request = chat(GenerationConfig(max_new_tokens=8), prompt="sort these words " * 40)
    replies = list(run_alone(long, request))
    total = len(trace_of(replies).header.prompt_ids)
    assert total > PIECE
    read = [reply for reply in replies if isinstance(reply, PromptRead)]
    assert read == [PromptRead(request.run_id, 0, total), PromptRead(request.run_id, PIECE, total)]
    assert [type(reply) for reply in replies[:4]] == [RunStarted, PromptRead, PromptRead, RunAdvanced]
    assert isinstance(events(replies)[-1], GenerationFinished)
    again = list(run_alone(long, chat(GenerationConfig(max_new_tokens=8), prompt="sort these words " * 40)))
    assert not any(isinstance(reply, PromptRead) for reply in again)  # the cache holds it
