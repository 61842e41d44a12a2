"""A gap between two texts: what the model reads, and what it writes there."""

from __future__ import annotations

import dataclasses
import json
import math
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from engine import GenerationConfig, GenerationFinished, Model, SafelightError, generate, infill, load_model
from engine.config import GAP_LENGTHS
from engine.decoding import gap_filling
from engine.decoding.gap_filling import Deadline, decode_gap
from engine.decoding.gap_plan import INSTRUCTION, GapCanvas, GapPlan, fills_gaps, plan_gap
from engine.decoding.performing import perform
from engine.decoding.protocols import Pass
from engine.decoding.run import Run
from engine.events import CanvasCommitted, CanvasStarted, Event, StepFinished
from engine.text.gap_markers import MARKERS, GapFile, TextGap
from tests.engine.decoding.seen import commits, end_of, steps_of
from tests.engine.gap_models import causal_folder

QWEN, CODESTRAL = MARKERS[0], MARKERS[-1]
ENDS = ("<|endoftext|>", "<|im_end|>", "<|fim_pad|>")
QUICK: dict[str, Any] = {"max_denoising_steps": 4}
GAP = TextGap("two 2, three 3, ", ", six 6.")


@pytest.fixture(scope="module")
def skills() -> Model:
    return load_model("safelight-mini")


@pytest.fixture(scope="module")
def coder(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load_model(causal_folder(tmp_path_factory.mktemp("coder"), (*ENDS, *QWEN.tokens), seed=4))


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model that reads whole texts; the third of its tokens is the mask."""
    folder = tmp_path_factory.mktemp("masked")
    causal_folder(folder, ("<end>", "<pad>", "<mask>"), 2, model_type="a2d-qwen2", mask_token_id=258, pad_token_id=257)
    template = "{% for message in messages %}Q: {{ message.content }}\nA: {% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}), encoding="utf-8")
    return load_model(folder)


@pytest.fixture
def padding(skills: Model, monkeypatch: pytest.MonkeyPatch) -> Model:
    """A model that was trained to pad a gap."""
    monkeypatch.setattr(skills.network, "config", dataclasses.replace(skills.config, pads_gaps=True))
    return skills


def quick(model: Model, **changes: Any) -> GenerationConfig:
    return model.generation_defaults.replace(**QUICK | changes)


def canvas_of(plan: GapPlan) -> GapCanvas:
    assert plan.canvas is not None
    return plan.canvas


def run_of(model: Model, plan: GapPlan, seed: int = 0, cancel: Any = None) -> Run:
    return Run.from_ids(model, plan.prompt, plan.config, seed, cancel)


def taken(model: Any, decoding: Iterable[Any]) -> list[Event]:
    found = list[Event]()
    for item in decoding:
        if not isinstance(item, Pass):
            found.append(item)
        else:
            perform(model, item)
    return found


# --- what the model reads ---------------------------------------------------------------------------------------------


def test_a_canvas_is_a_hole_and_the_text_behind_it_and_the_text_before_it_begins_the_answer(skills: Model) -> None:
    plan = plan_gap(skills, GAP, quick(skills, max_new_tokens=16))
    encode, end = skills.tokenizer.encode, skills.generation_defaults.eos_token_ids[0]
    question = skills.chat_ids([{"role": "user", "content": INSTRUCTION}])
    behind = encode(GAP.suffix)
    assert list(plan.prompt) == [*question, *encode(GAP.prefix)]
    canvas = canvas_of(plan)
    assert (canvas.hole, len(canvas)) == (16, skills.config.canvas_length)
    assert list(canvas.behind) == behind + [end] * (64 - canvas.hole - len(behind))


def test_text_that_is_not_on_a_canvas_and_other_files_are_in_the_message(skills: Model) -> None:
    long = "".join(f"{number} and " for number in range(30))
    gap = TextGap("a", long, "own.txt", (GapFile("one.txt", "first"), GapFile("", "second")))
    plan = plan_gap(skills, gap, quick(skills, max_new_tokens=8))
    read = skills.tokenizer.decode(plan.prompt, skip_special=False)
    canvas = canvas_of(plan)
    seen = skills.tokenizer.decode(canvas.behind)
    assert long.startswith(seen)
    assert len(seen) == 64 - canvas.hole
    for part in (INSTRUCTION, long[len(seen) : len(seen) + 40], "own.txt", "one.txt\nfirst", "second"):
        assert part in read
    assert read.endswith("a")
    assert "Translate this." in skills.tokenizer.decode(
        plan_gap(skills, gap, quick(skills), instruction="Translate this.").prompt
    )


def test_a_long_text_is_cut_at_its_far_ends(skills: Model, coder: Model) -> None:
    prefix = "".join(f"{number}, " for number in range(900))
    plan = plan_gap(skills, TextGap(prefix, "!"), quick(skills, max_new_tokens=8))
    positions = skills.config.max_position_embeddings
    assert len(plan.prompt) + 64 == positions
    assert skills.tokenizer.decode(plan.prompt).endswith(prefix[-200:])

    plan = plan_gap(coder, TextGap("a" * 900 + "b", "c" + "d" * 900), quick(coder, max_new_tokens=100))
    text = coder.tokenizer.decode(plan.prompt, skip_special=False)
    assert len(plan.prompt) == coder.config.max_position_embeddings - 100
    before, _, behind = text.removeprefix(QWEN.prefix).removesuffix(QWEN.middle).partition(QWEN.suffix)
    assert (before[-2:], behind[:2]) == ("ab", "cd")
    assert 2.9 < len(before) / len(behind) < 3.1
    assert len(plan_gap(coder, TextGap("a" * 900, "c"), quick(coder, max_new_tokens=100)).prompt) == 412


def test_a_short_gap_is_read_whole(coder: Model) -> None:
    """Between the markers of its model: ``text/test_gap_markers``."""
    gap = dataclasses.replace(GAP, path="own.py", files=(GapFile("a.py", "A = 1\n"), GapFile("b.py", "B = 2\n")))
    plan = plan_gap(coder, gap, quick(coder, max_new_tokens=8))
    assert coder.tokenizer.decode(plan.prompt, skip_special=False) == QWEN.render(gap)
    assert set(plan.config.eos_token_ids) >= {coder.tokenizer.token_id(token) for token in (*ENDS, QWEN.file)}
    assert plan.canvas is None


def test_a_gap_whose_markers_name_the_text_behind_it_first_is_cut_at_its_far_ends(tmp_path: Path) -> None:
    other = load_model(causal_folder(tmp_path, ("</s>", *CODESTRAL.tokens)))
    plan = plan_gap(other, TextGap("a" * 900 + "b", "c" + "d" * 900), quick(other, max_new_tokens=100))
    text = other.tokenizer.decode(plan.prompt, skip_special=False)
    assert text.startswith("[SUFFIX]cd")
    assert text.endswith("ab")


def test_files_that_do_not_fit_are_left_out_the_first_of_them_first(coder: Model) -> None:
    files = GapFile("a.py", "a" * 200), GapFile("b.py", "b" * 60)
    plan = plan_gap(coder, TextGap("x", "y", files=files), quick(coder, max_new_tokens=100))
    text = coder.tokenizer.decode(plan.prompt, skip_special=False)
    assert "b.py" in text
    assert "a.py" not in text


def test_markers_in_a_text_are_no_markers(coder: Model, skills: Model) -> None:
    plan = plan_gap(coder, TextGap(QWEN.middle, ENDS[0]), quick(coder, max_new_tokens=8))
    assert plan.prompt.count(coder.tokenizer.token_id(QWEN.middle)) == 1
    assert coder.tokenizer.token_id(ENDS[0]) not in plan.prompt
    piece = skills.tokenizer.piece(skills.generation_defaults.eos_token_ids[1])
    plan = plan_gap(skills, TextGap("", piece), quick(skills))
    assert skills.generation_defaults.eos_token_ids[1] not in canvas_of(plan).behind


@pytest.mark.parametrize(("most", "behind", "hole"), [(1, 4, 8), (9, 4, 16), (500, 4, 32), (30, 40, 16), (30, 99, 8)])
def test_a_model_that_pads_gets_one_hole(padding: Model, most: int, behind: int, hole: int) -> None:
    plan = plan_gap(padding, TextGap("", "x" * behind), quick(padding, max_new_tokens=most))
    canvas = canvas_of(plan)
    assert (canvas.hole, len(canvas), plan.is_padded, hole in GAP_LENGTHS) == (hole, 64, True, True)
    exact = plan_gap(padding, GAP, quick(padding), length=5)
    assert (canvas_of(exact).hole, exact.is_padded) == (5, False)


def test_larger_models_get_the_smallest_canvas_that_holds_the_text(skills: Model) -> None:
    config, found = quick(skills, max_new_tokens=16, smallest_canvas=16), list[tuple[int, int]]()
    for length in (4, 8, None):
        plan = plan_gap(skills, TextGap("a", "b" * 10), config, length=length)
        found.append((canvas_of(plan).hole, len(canvas_of(plan))))
        assert plan.config.canvas_length == len(canvas_of(plan))
    assert found == [(4, 16), (8, 32), (16, 32)]


@pytest.mark.parametrize(("most", "behind", "hole"), [(500, 4, 16), (6, 4, 6), (500, 99, 16), (1, 0, 1)])
def test_a_hole_without_a_length_has_the_usual_one(skills: Model, most: int, behind: int, hole: int) -> None:
    plan = plan_gap(skills, TextGap("", "x" * behind), quick(skills, max_new_tokens=most))
    assert (canvas_of(plan).hole, plan.is_padded) == (hole, False)


# --- what it writes ---------------------------------------------------------------------------------------------------


def test_the_events_are_of_one_block_with_the_text_alone(skills: Model) -> None:
    plan = plan_gap(skills, GAP, quick(skills, max_new_tokens=8))
    events = taken(skills, decode_gap(run_of(skills, plan), plan))
    started, committed = ([one for one in events if isinstance(one, kind)] for kind in (CanvasStarted, CanvasCommitted))
    assert (len(started), len(committed)) == (1, 1)
    canvas = canvas_of(plan)
    assert started[0].pinned_mask.tolist() == [False] * canvas.hole + [True] * len(canvas.behind)
    assert started[0].canvas[canvas.hole :].tolist() == list(canvas.behind)
    steps = [event for event in events if isinstance(event, StepFinished)]
    assert all(step.next_canvas[canvas.hole :].tolist() == list(canvas.behind) for step in steps)
    end = end_of(events)
    assert committed[0].steps == len(steps) == end.steps
    assert end.reason == "eos"
    assert committed[0].tokens[: committed[0].text_length].tolist() == end.tokens.tolist()
    forbidden = {*plan.config.eos_token_ids, plan.config.pad_token_id}
    assert not forbidden & set(end.tokens.tolist())


def test_a_hole_is_a_block_whose_other_places_are_pinned(skills: Model) -> None:
    plan = plan_gap(skills, GAP, quick(skills), length=6)
    forbidden = (*plan.config.eos_token_ids, plan.config.pad_token_id)
    pinned = tuple(enumerate(canvas_of(plan).behind, 6))
    config = plan.config.replace(pinned=pinned, banned_tokens=forbidden)
    committed = next(one for one in generate(skills, plan.prompt, config, 5) if isinstance(one, CanvasCommitted))
    found = infill(skills, GAP.prefix, GAP.suffix, length=6, config=quick(skills), seed=5)
    assert found is not None
    assert (found.text, found.length) == (skills.tokenizer.decode(committed.tokens[:6]), 6)
    other = infill(skills, GAP.prefix, GAP.suffix, length=6, config=quick(skills), seed=6)
    assert other != found


def test_padding_ends_the_text(padding: Model) -> None:
    pad = padding.generation_defaults.pad_token_id
    plan = plan_gap(padding, GAP, quick(padding, max_new_tokens=8))
    found = taken(padding, decode_gap(run_of(padding, plan), plan))
    committed = commits(found)[0]
    assert pad not in committed.tokens[: committed.text_length]
    last = steps_of(found)[-1].argmax_canvas[:8].tolist()
    ends = [place for place, token in enumerate(last) if token == pad]
    assert committed.tokens[: committed.text_length].tolist() == last[: ends[0] if ends else 8]


def test_a_causal_model_writes_behind_its_markers_until_one_of_its_ends(coder: Model) -> None:
    plan = plan_gap(coder, GAP, quick(coder, max_new_tokens=60))
    [end] = [event for event in generate(coder, plan.prompt, plan.config) if isinstance(event, GenerationFinished)]
    found = infill(coder, GAP.prefix, GAP.suffix, max_tokens=60)
    assert found is not None
    assert found.text == coder.tokenizer.decode(end.tokens)
    assert (found.length, found.steps) == (len(end.tokens), end.steps)
    assert len(end.tokens) > 3
    wanted = int(end.tokens[3])
    ends = plan.config.replace(eos_token_ids=(wanted,))
    stopped = infill(coder, GAP.prefix, GAP.suffix, max_tokens=60, config=ends)
    assert stopped is not None
    assert stopped.length == end.tokens.tolist().index(wanted)


def test_masks_are_filled_and_what_is_behind_them_stays(masked: Model) -> None:
    plan = plan_gap(masked, TextGap("ab", "cd"), quick(masked), length=6)
    assert plan.is_masked
    assert masked.tokenizer.decode(plan.prompt).endswith("A: ab")
    events = taken(masked, decode_gap(run_of(masked, plan), plan))
    steps = [event for event in events if isinstance(event, StepFinished)]
    behind, committed = canvas_of(plan).behind, next(one for one in events if isinstance(one, CanvasCommitted))
    assert committed.tokens[:6].tolist() == end_of(events).tokens.tolist() == steps[-1].next_canvas[:6].tolist()
    assert all(step.next_canvas[-len(behind) :].tolist() == list(behind) for step in steps)
    # each mask sees the text behind the gap
    one, other = (infill(masked, "ab", text, length=4, config=quick(masked)) for text in ("cd", "efghi"))
    assert one is not None
    assert other is not None
    assert one.text != other.text


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "passes"), [("skills", 1), ("skills", 3), ("coder", 2), ("masked", 2)])
def test_a_cancelled_gap_ends_within_one_pass(name: str, passes: int, request: pytest.FixtureRequest) -> None:
    model: Model = request.getfixturevalue(name)
    plan = plan_gap(model, GAP, quick(model, max_new_tokens=8, confidence_threshold=0.0))
    cancel, done, after = threading.Event(), 0, 0
    found = list[Any]()
    for item in decode_gap(run_of(model, plan, cancel=Deadline(cancel, None)), plan):
        if isinstance(item, Pass):
            perform(model, item)
            done += 1
            after += cancel.is_set()
            if done == passes:
                cancel.set()
        else:
            found.append(item)
    assert after == 0
    assert isinstance(found[-1], GenerationFinished)
    assert found[-1].reason == "cancelled"
    assert name == "coder" or not any(isinstance(item, CanvasCommitted) for item in found)
    assert infill(model, "a", "b", cancel=cancel) is None


def late(model: Model, plan: GapPlan, passes: int) -> list[Event]:
    """The events of a gap whose time is over after so many passes."""
    deadline, found, done = Deadline(None, None), list[Event](), 0
    for item in decode_gap(run_of(model, plan, cancel=deadline), plan):
        if isinstance(item, Pass):
            perform(model, item)
            done += 1
            deadline._end = 0.0 if done == passes else math.inf
        else:
            found.append(item)
    assert done == passes
    end = end_of(found)
    assert (end.reason, end.why) == ("length", gap_filling.LATE)
    return found


@pytest.mark.parametrize(("name", "length"), [("coder", 2), ("masked", 0)])
def test_no_step_is_taken_once_the_time_is_over(name: str, length: int, request: pytest.FixtureRequest) -> None:
    """The prompt takes the first pass of a causal one."""
    model: Model = request.getfixturevalue(name)
    plan = plan_gap(model, GAP, quick(model, max_new_tokens=8))
    assert len(end_of(late(model, plan, 3)).tokens) == length
    if name == "masked":
        assert infill(model, "a", "b", seconds=0.0) is None


def test_what_the_last_step_accepted_is_there_when_the_time_is_over(skills: Model) -> None:
    plan = plan_gap(skills, GAP, quick(skills, max_new_tokens=8, entropy_bound=30.0, max_denoising_steps=40))
    found, hole = late(skills, plan, 4), canvas_of(plan).hole
    committed, last, length = found[-2], steps_of(found)[-1], len(end_of(found).tokens)
    assert isinstance(committed, CanvasCommitted)
    settled = last.accepted_mask[:hole].tolist()
    assert 0 < length <= hole
    assert settled[:length] == [True] * length
    assert False in settled[length : length + 1] or length == hole
    assert last.next_canvas[:length].tolist() == end_of(found).tokens.tolist()
    assert (committed.text_length, committed.reason) == (length, "step_cap")
    assert infill(skills, "a", "b", seconds=0.0) is None


def test_a_deadline_begins_with_the_first_pass_or_by_its_flag() -> None:
    cancel = threading.Event()
    late = Deadline(cancel, 0.0)
    assert not late.is_set()  # the prompt is not read yet
    late.begin()
    assert late.is_set()
    assert not Deadline(cancel, 60.0).is_set()
    cancel.set()
    assert Deadline(cancel, 60.0).is_others


def test_models_that_cannot_see_behind_a_gap_say_which_can(tmp_path: Path, skills: Model, coder: Model) -> None:
    plain = load_model(causal_folder(tmp_path, ("<end>",)))
    for model in (plain, load_model("safelight-wedlm"), load_model("safelight-masked")):
        assert not fills_gaps(model)
        with pytest.raises(SafelightError, match=r"does not see what stands behind a gap; take .*Qwen2.5-Coder"):
            infill(model, "a", "b")
    with pytest.raises(SafelightError, match="this model writes by autoregressive"):
        infill(skills, "a", "b", config=quick(skills, decoder="autoregressive"))
    assert fills_gaps(skills)
    assert fills_gaps(coder)


def refused(model: Model, **options: Any) -> str:
    with pytest.raises(SafelightError) as caught:
        infill(model, "a", "b", **options)
    return str(caught.value)


def test_numbers_out_of_bounds_are_refused(skills: Model, coder: Model) -> None:
    assert "1 to 64 tokens, not 65" in refused(skills, length=65)
    assert "1 to 64 tokens, not 0" in refused(skills, length=0)
    assert "token by token; leave out the length" in refused(coder, length=4)
    assert "ask for fewer" in refused(coder, max_tokens=510)
    assert "max_new_tokens" in refused(coder, max_tokens=0)
