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


@pytest.fixture(scope="module")
def skills() -> LocalBackend:
    backend = LocalBackend()
    loaded(backend)
    return backend


def plain(event: Event) -> list[Any]:
    """All of an event but the time it took."""
    told = {name: value for name, value in vars(event).items() if name not in ("seconds", "reused_tokens")}
    return [type(event), *(value.tolist() if hasattr(value, "tolist") else value for value in told.values())]


# --- loading -----------------------------------------------------------------------------------------------------


def test_loading_reports_start_progress_memory_and_model() -> None:
    replies = loaded(FakeEngine())
    assert [type(reply) for reply in replies] == [LoadStarted, *[LoadProgress] * 3, MemoryUsed, ModelLoaded]
    assert [reply.share for reply in replies if isinstance(reply, LoadProgress)] == [0.0, 0.5, 1.0]


def test_a_loaded_model_says_where_it_runs_and_why_and_what_it_can_do(fake: FakeEngine) -> None:
    *_, last = loaded(fake)
    assert isinstance(last, ModelLoaded)
    model = last.model
    assert (model.device, model.device_reason) == ("cpu", "no CUDA device is available")
    assert model.kernels == "plain torch: the weights are not packed"
    assert model.capabilities == fake.capabilities
    assert model.capabilities.forks
    assert not model.capabilities.images


def test_a_foreseen_failure_is_reported_without_details() -> None:
    backend = FakeEngine()
    assert loaded(backend, "missing")[-1] == LoadFailed("missing", "there is no model at missing")
    assert "no model is loaded" in ended(backend, chat(QUICK)).message  # nor the one from before


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


def test_an_unforeseen_failure_is_one_line_with_details() -> None:
    failed = loaded(FakeEngine(), "crash")[-1]
    assert isinstance(failed, LoadFailed)
    assert failed.message == "Something went wrong: unexpected. Try again; the details may say why."
    assert "RuntimeError: unexpected" in failed.details


def test_an_abandoned_load_falls_silent() -> None:
    request, replies = LoadRequest(MINI, "Skills"), list[LoadReply]()

    def tell(reply: LoadReply) -> None:
        replies.append(reply)
        if isinstance(reply, LoadProgress) and reply.share:
            request.cancel.set()

    backend = FakeEngine()
    backend.load(request, tell)
    assert [type(reply) for reply in replies] == [LoadStarted, LoadProgress, LoadProgress]
    assert "no model is loaded" in ended(backend, chat(QUICK)).message
    replies.clear()
    backend.load(request, tell)
    assert replies == []


def test_a_model_can_be_let_go(fake: FakeEngine) -> None:
    assert fake.unload() == ModelUnloaded()
    assert "choose one first" in ended(fake, chat(QUICK)).message


# --- runs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ChatRun, PuzzleRun])
def test_every_reply_of_a_run_has_its_id(fake: FakeEngine, kind: type[ChatRun]) -> None:
    request = kind(fake.defaults, 7, MESSAGES)
    replies = [reply for reply in run_alone(fake, request) if not isinstance(reply, MemoryUsed)]
    assert {reply.run_id for reply in replies} == {request.run_id}  # type: ignore[union-attr]
    assert [type(reply) for reply in replies] == [RunStarted, *[RunAdvanced] * 7, RunEnded]
    assert trace_of(replies).events == events(replies)
    assert replies[-1] == RunEnded(request.run_id)
    assert kind(fake.defaults, 7, MESSAGES).run_id != request.run_id


def test_memory_in_use_is_reported_before_each_block(fake: FakeEngine) -> None:
    fake.blocks = 2
    replies = list(run_alone(fake, chat(fake.defaults)))
    places = [place for place, reply in enumerate(replies) if isinstance(reply, MemoryUsed)]
    assert len(places) == 2
    assert all(isinstance(replies[place + 1].event, CanvasCommitted) for place in places)  # type: ignore[union-attr]


def test_a_puzzle_that_was_given_up_is_not_begun(fake: FakeEngine) -> None:
    request = PuzzleRun(fake.defaults, 7, MESSAGES)
    request.cancel.set()
    assert list(run_alone(fake, request)) == [RunEnded(request.run_id)]
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


@pytest.mark.parametrize("name", ["OutOfMemoryError", "MemoryError"])
def test_memory_that_runs_out_is_said_in_plain_words(fake: FakeEngine, name: str) -> None:
    fake.fail_at = 1
    fake.failure = MemoryError() if name == "MemoryError" else type(name, (RuntimeError,), {})("CUDA out of memory.")
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


class Counting(FakeEngine):
    """Notes what is read from the disk; ``spare`` bytes are left."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []
        self.spare = 10**10

    def load_model(self, path: str, progress: Any = None, threads: int = 0) -> Any:
        self.read.append(path)
        return super().load_model(path, progress, threads)

    def spare_bytes(self, _model: Any) -> int:
        return self.spare


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


def test_the_real_engine_reads_a_prompt_only_from_where_it_is_new(skills: LocalBackend) -> None:
    quick = GenerationConfig(max_new_tokens=1, max_denoising_steps=2)
    counts = []
    loaded(skills)
    for prompt in ("What is 47 + 5?", "What is 47 + 8?", "What is 47 + 8?"):
        told = events(list(run_alone(skills, chat(quick, 0, prompt))))
        found = next(event for event in told if isinstance(event, PrefillFinished))
        counts.append((found.prompt_tokens, found.reused_tokens))
    (first, none), (second, shared), again = counts
    assert first == second
    assert none == 0
    assert len("What is 47 + ") < shared < second - len("?")
    assert again == (second, second)


# --- from a recorded run -----------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"stall_steps": 2, "max_denoising_steps": 4, "canvas_length": 16, "max_new_tokens": 32},
    ],
    ids=["plain", "stalled"],
)
def test_an_infill_keeps_the_other_blocks_in_their_order(skills: LocalBackend, how: dict[str, Any]) -> None:
    root = trace_of(list(run_alone(skills, chat(QUICK.replace(**how), 3, "Count from 4 to 43."))))
    request = InfillRun.of(root, (Mark(0, 2, 6),), seed=11)
    replies = list(run_alone(skills, request))
    assert replies[-1] == RunEnded(request.run_id)
    told = events(replies)
    blocks = [event.block_index for event in told if isinstance(event, CanvasStarted | StepFinished | CanvasCommitted)]
    assert blocks == sorted(blocks)
    assert trace_of(replies).header.marks == request.marks
    kept = [plain(event) for event in root.events if getattr(event, "block_index", 0) == 1]
    assert [plain(event) for event in told if getattr(event, "block_index", 0) == 1] == kept != []


# --- what else can be asked --------------------------------------------------------------------------------------


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
    assert measured.found is not None
    assert (measured.request, measured.message, len(measured.found.kl)) == (request, "", len(canvas))
    refused = skills.measure(InfluenceRequest(root, 0, canvas, len(canvas), 5, 1.0))
    assert refused.found is None
    assert "outside the canvas" in refused.message


def test_nothing_heavy_comes_with_the_service() -> None:
    """A window is painted before torch is there."""
    code = (
        "import sys, engine.service as s; s.LocalBackend();"
        "print([name for name in ('torch', 'PySide6', 'jinja2') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- a long prompt -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long() -> LocalBackend:
    """A model with more positions than a pass reads."""
    backend = LocalBackend()
    loaded(backend, WEDLM)
    return backend


def test_the_reading_of_a_long_prompt_is_reported_before_each_pass(long: LocalBackend) -> None:
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
