"""A tuning's core: the paired test, candidates, halving, the file of runs, own prompts, results as files."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from app.presets.store import PresetStore
from app.presets.tuned import save_tuned
from app.settings.decoders import DecodingChoice
from app.settings.values import SettingsValues
from app.state import intervals
from app.state.intervals import NORMAL_95, paired_difference
from app.state.tuning.candidates import (
    HOTTER,
    STALLING,
    Candidate,
    Variation,
    grid,
    read_rule,
    reference_of,
    variations,
    with_reference,
)
from app.state.tuning.plan import BEST, MORE, TuningPlan
from app.state.tuning.progress import TuningHeader, opened_log
from app.state.tuning.result import FILE, TuningResult
from app.state.tuning.scores import TunedRun, TuningRow, TuningScores, choice, frontier, least_count
from app.state.tuning.tasks import TuningTask, own_tasks
from engine import GenerationConfig, SafelightError
from engine.config import ACCEPTANCE
from engine.tasks.sudoku import GivenRange

USUAL = reference_of(GenerationConfig())
KEPT = Candidate("entropy_bound_kept", 0.2)
HOT = Candidate("entropy_bound_kept", 0.8, HOTTER)
HEADER = TuningHeader("small", "f00d", "", "float32", "held-out skills", "", 3, "{}")


def row(
    candidate: Candidate = KEPT, steps: float = 2.0, better: int = 0, worse: int = 0, count: int = 1000
) -> TuningRow:
    """The reference is right in 900 of 1000."""
    return TuningRow(candidate, count, 9 * count // 10 + better - worse, steps, better, worse, steps / 4, (0.4, 0.6))


def test_the_interval_of_a_paired_difference() -> None:
    """Fagerland, Lydersen and Laake (2014) give −0.517 to −0.026 for 1 and 7 of 21; without any, it is z²/(n + z²)."""
    assert paired_difference(1, 7, 21) == pytest.approx((-0.517, -0.026), abs=5e-4)
    even = NORMAL_95**2 / (200 + NORMAL_95**2)
    assert paired_difference(0, 0, 200) == pytest.approx((-even, even))
    assert paired_difference(0, 0, 0) == (-1.0, 1.0)
    rng = random.Random(5)
    for _ in range(100):
        count = rng.randint(1, 300)
        better = rng.randint(0, count)
        worse = rng.randint(0, count - better)
        low, high = paired_difference(better, worse, count)
        assert -1 <= low <= (better - worse) / count <= high <= 1
        assert paired_difference(worse, better, count) == (-high, -low)


def test_the_fewest_prompts_that_can_show_something() -> None:
    for margin in (0.005, 0.01, 0.03, 0.5):
        count = least_count(margin)
        assert paired_difference(0, 0, count)[0] > -margin
        assert paired_difference(0, 0, count - 1)[0] <= -margin + 1e-12
    assert least_count(0.01) == 381


def test_candidates_lie_around_the_defaults() -> None:
    found = grid(GenerationConfig(entropy_bound=0.2))
    assert found[0] == Candidate("entropy_bound", 0.2)
    assert {one.acceptance for one in found} == set(ACCEPTANCE)
    assert len(set(found)) == len(found)
    confident = [one.threshold for one in found if one.acceptance == "confidence_threshold"]
    assert confident == [0.7, 0.8, 0.9, 0.95, 0.97, 0.99]
    for one in (*found, *grid(GenerationConfig(entropy_bound=0.0, accept_probability=1.5, margin=0.0))):
        GenerationConfig().replace(**one.changes)
    kept = GenerationConfig(acceptance="confidence_threshold", accept_probability=0.5)
    assert grid(kept)[0].title == "confidence_threshold 0.5"


def test_rules_of_the_command_line() -> None:
    assert read_rule("margin=5,7.5") == (Candidate("margin", 5.0), Candidate("margin", 7.5))
    for wrong, why in {
        "margins=1": "is not a rule",
        "margin": "is not a rule",
        "margin=a": "are not numbers",
        "margin=-1": "margin",
        "margin=nan": "margin",
    }.items():
        with pytest.raises(SafelightError, match=why):
            read_rule(wrong)
    assert with_reference(GenerationConfig(), [KEPT, KEPT, USUAL]) == (USUAL, KEPT)
    for few in ([USUAL], [Candidate("margin", float(value)) for value in range(64)]):
        with pytest.raises(SafelightError, match="--rule"):
            with_reference(GenerationConfig(), few)


def test_a_rule_is_chosen_by_steps_among_those_that_are_not_lower() -> None:
    usual, fast, wrong = row(USUAL, 4.0), row(KEPT, 2.0, 1, 2), row(Candidate("margin", 5), 1.0, 0, 12)
    rows = [usual, wrong, fast]
    assert not wrong.may_pass(0.01, 1000)
    assert wrong.may_pass(0.02, 1000)
    few = row(KEPT, 2.0, 0, 1, 100)  # a standard error below the reference
    assert few.may_pass(0.007, 1000)
    assert not few.may_pass(0.006, 1000)
    assert not wrong.is_not_lower(0.01)
    assert choice(rows, 0.01) is fast
    assert choice(rows, 0.05) is wrong
    assert choice([usual, wrong], 0.01) is usual
    assert choice([usual, row(KEPT, 1.0, count=500)], 0.05) is usual  # it has not answered all prompts
    assert frontier(rows) == [wrong, fast, usual]
    assert frontier([*rows, row(Candidate("margin", 7), 3.0, 5)]) == [wrong, fast, row(Candidate("margin", 7), 3.0, 5)]


def test_the_better_half_may_pass_and_takes_few_steps() -> None:
    lost = (0, 1, 2, 3, 4, 5, 6, 12, 30, 90)
    plan = TuningPlan((USUAL,), 1000, 0.01, halves=True)
    rows = [row(Candidate("margin", float(place)), 3.0 - place / 10, 0, worse) for place, worse in enumerate(lost)]
    assert [one.candidate.threshold for one in plan.better_half(rows)] == [6.0, 5.0, 4.0, 3.0, 2.0]
    strict = replace(plan, margin=0.0025)
    assert [one.candidate.threshold for one in strict.better_half(rows[:5])] == [1.0, 0.0, 4.0, 3.0]


def finish(plan: TuningPlan, scores: TuningScores, stop_after: int = 10**9) -> list[tuple[Candidate, int]]:
    """Stand-in runs: the kept rules take fewer steps; those with a large threshold are wrong on each seventh prompt."""
    asked = []
    for candidate, index in plan.pairs(scores):
        if len(asked) == stop_after:
            break
        asked.append((candidate, index))
        is_wrong = candidate.threshold > 1 and index % 7 == 0
        scores.add(TunedRun(candidate, index, not is_wrong, 4 if candidate.acceptance == "entropy_bound" else 2))
    return asked


def test_halving_goes_on_where_it_was_stopped() -> None:
    plan = TuningPlan(grid(GenerationConfig())[::2], 160, 0.05, halves=True)
    assert plan.rungs == [20, 40, 80, 160]
    whole, parts = TuningScores(USUAL), TuningScores(USUAL)
    asked = finish(plan, whole)
    assert len(asked) == len(set(asked)) == plan.runs
    assert asked[: len(plan.candidates)] == [(candidate, 0) for candidate in plan.candidates]
    assert len(whole.runs[USUAL]) == 160
    assert sum(len(runs) == 160 for runs in whole.runs.values()) == 5  # the reference and four others
    again = finish(plan, parts, 133)
    again += finish(plan, parts, 400)
    assert again + finish(plan, parts) == asked
    assert finish(plan, parts) == []
    rows = parts.rows(plan.candidates, plan.count)
    assert choice(rows, plan.margin).candidate.acceptance != "entropy_bound"


def test_the_best_of_the_first_rung_are_varied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hotter canvas makes no mistakes here, and takes a step more; few of the cold ones are right often enough."""
    monkeypatch.setattr(intervals, "DRAWS", 20)
    made = variations(GenerationConfig())
    assert made == (HOTTER, STALLING)
    assert variations(GenerationConfig(t_max=1.2)) == (STALLING,)
    assert variations(GenerationConfig(t_max=1.0, t_min=0.8, stall_steps=3)) == ()
    plan = TuningPlan(grid(GenerationConfig()), 400, 0.01, halves=True, variations=made)

    def play(scores: TuningScores, stop_after: int = 10**9) -> list[tuple[Candidate, int]]:
        asked = []
        for candidate, index in plan.pairs(scores):
            if len(asked) == stop_after:
                break
            asked.append((candidate, index))
            is_hot = candidate.variation == HOTTER
            is_wrong = candidate.acceptance != "entropy_bound" and not is_hot and index % 31 == 0
            steps = 9 if candidate.acceptance == "entropy_bound" else 5 - candidate.threshold + is_hot
            scores.add(TunedRun(candidate, index, not is_wrong, max(1, round(steps))))
        return asked

    scores, parts = TuningScores(USUAL), TuningScores(USUAL)
    asked = play(scores)
    first, second = plan.rungs[:2]
    assert all(not candidate.variation for candidate, _ in asked[: first * len(plan.candidates)])
    found = plan.variants(scores)
    assert len(found) == len(made) * (1 + BEST)
    assert found[: len(made)] == tuple(replace(USUAL, variation=variation) for variation in made)
    assert {candidate for candidate, _ in asked if candidate.variation} == {*found}
    assert {*asked} >= {(candidate, index) for candidate in found for index in range(second)}
    assert max(index for candidate, index in asked if candidate.variation == STALLING) < second  # it gained nothing
    assert len(asked) <= plan.runs + MORE * plan.count
    assert choice(scores.rows(plan.tried(scores), 400), 0.01).candidate.variation == HOTTER
    for stop_after in (first * len(plan.candidates) - 1, 100, 1_000):  # within the first rung, and at variants
        asked = [*asked[stop_after:]] if play(parts, stop_after) == asked[:stop_after] else []
    assert play(parts) == asked != []
    assert plan.tried(parts) == plan.tried(scores)


@pytest.mark.parametrize("varied", [(), (STALLING,)], ids=["only the reference", "the reference, a little faster"])
def test_dropped_rules_get_a_chance_while_only_slower_ones_are_left(varied: tuple[Variation, ...]) -> None:
    """All of the last rung fail late, on prompts that the rungs before did not have."""
    many = tuple(Candidate("margin", float(place)) for place in range(1, 11))
    plan = TuningPlan((USUAL, *many), 400, 0.01, halves=True, variations=varied)
    scores = TuningScores(USUAL)
    for candidate, index in plan.pairs(scores):
        is_wrong = 0 < candidate.threshold - 1 < 5 and index >= 200 and index % 9 == 0
        steps = 3 if candidate.threshold < 1.5 or candidate.threshold > 5 else 2
        steps = 9 - len(candidate.variation) if candidate.acceptance == USUAL.acceptance else steps
        scores.add(TunedRun(candidate, index, not is_wrong, steps))
    chosen = choice(scores.rows(plan.tried(scores), 400), 0.01)
    assert (chosen.count, chosen.steps, chosen.exact) == (400, 3.0, 400)


def test_a_table_runs_all_on_all() -> None:
    plan = TuningPlan(grid(GenerationConfig()), 3, 0.01, halves=False)
    asked = finish(plan, TuningScores(USUAL))
    assert asked == [(candidate, index) for index in range(3) for candidate in plan.candidates]
    assert plan.runs == len(asked)


def test_a_row_compares_the_same_prompts() -> None:
    scores = TuningScores(USUAL)
    for index, (usual, own) in enumerate([(True, True), (True, False), (False, True), (False, True)]):
        scores.add(TunedRun(USUAL, index, usual, 4))
        scores.add(TunedRun(KEPT, index, own, 1))
    scores.add(TunedRun(KEPT, 4, True, 100))  # the reference has not answered it
    found = scores.row(KEPT, 10)
    assert found is not None
    assert (found.count, found.exact, found.better, found.worse, found.steps, found.ratio) == (4, 3, 2, 1, 1.0, 0.25)
    assert found.ratio_interval == (0.25, 0.25)
    assert scores.row(Candidate("margin", 5), 10) is None


def test_a_variant_gains_by_right_answers_or_a_20th_of_the_steps() -> None:
    for steps, is_exact, gains in ((96, True, False), (94, True, True), (94, False, True), (120, False, False)):
        scores = TuningScores(USUAL, {USUAL: {0: TunedRun(USUAL, 0, True, 100), 1: TunedRun(USUAL, 1, True, 1)}})
        scores.add(TunedRun(HOT, 0, is_exact, steps))
        assert scores.gains(HOT, USUAL) == gains
    scores.add(TunedRun(USUAL, 0, False, 100))
    scores.add(TunedRun(HOT, 0, True, 200))
    assert scores.gains(HOT, USUAL)


def test_runs_are_kept_and_read_again(tmp_path: Path) -> None:
    path, scores = tmp_path / "runs.jsonl", TuningScores(USUAL)
    hot = replace(KEPT, variation=(*HOTTER, *STALLING))
    runs = [TunedRun(USUAL, 0, True, 3), TunedRun(KEPT, 0, False, 1), TunedRun(hot, 0, True, 2)]
    with opened_log(path, HEADER, scores) as log:
        for run in runs:
            log.add(run)
    with open(path, "a") as file:
        file.write('["entropy_bou')  # what a crash has cut off
    with opened_log(path, HEADER, scores) as log:
        log.add(TunedRun(KEPT, 1, True, 1))
    again = TuningScores(USUAL)
    with opened_log(path, HEADER, again):
        kept = {0: runs[1], 1: TunedRun(KEPT, 1, True, 1)}
        assert again.runs == {USUAL: {0: runs[0]}, KEPT: kept, hot: {0: runs[2]}}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("[1]", "line 2 is damaged"),
        ('["other", 0.1, {}, 0, true, 1]', "line 2 is damaged"),
        ('["margin", 0.1, {}, -1, true, 1]', "line 2 is damaged"),
        ('["margin", 0.1, {}, 0, 1, 1]', "line 2 is damaged"),
        ('["margin", 0.1, 0, true, 1]', "line 2 is damaged"),
        ('["margin", NaN, {}, 0, true, 1]', "line 2 is damaged"),
        ('["margin", true, {}, 0, true, 1]', "line 2 is damaged"),
        ('["margin", 0.1, {"t_max": "1"}, 0, true, 1]', "line 2 is damaged"),
        ('["margin", 0.1, {"t_max": [1]}, 0, true, 1]', "line 2 is damaged"),
        ('["margin", 0.1, {"t_max": 0.1}, 0, true, 1]', "line 2 is damaged"),
        ('["margin", 0.1, {"top_k": 1}, 0, true, 1]', "line 2 is damaged"),
        ('["margin", 0.1, {"stall_steps": 1.5}, 0, true, 1]', "line 2 is damaged"),
        ("\x00", "line 2 is damaged"),
    ],
)
def test_a_damaged_file_of_runs_is_refused(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "runs.jsonl"
    with opened_log(path, HEADER, TuningScores(USUAL)):
        pass
    path.write_text(path.read_text() + line + "\n")
    before = path.read_bytes()
    with pytest.raises(SafelightError, match=why), opened_log(path, HEADER, TuningScores(USUAL)):
        pass
    assert path.read_bytes() == before


def test_a_file_of_another_tuning_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with opened_log(path, HEADER, TuningScores(USUAL)):
        pass
    with (
        pytest.raises(SafelightError, match="another seed"),
        opened_log(path, replace(HEADER, seed=4), TuningScores(USUAL)),
    ):
        pass
    path.write_text("some text\n")
    with pytest.raises(SafelightError, match="line 1 is damaged"), opened_log(path, HEADER, TuningScores(USUAL)):
        pass
    with pytest.raises(SafelightError), opened_log(tmp_path, HEADER, TuningScores(USUAL)):
        pass


def test_own_prompts_in_both_forms() -> None:
    lines = '{"prompt": "a?", "answer": " b ", "more": 1}\n\n{"prompt": "c", "answer": ""}\n'
    table = 'answer,prompt\n" b ",a?\n"",c\n'
    for text in (lines, table):
        found = own_tasks(text, "FILE")
        assert [(one.text, one.answer) for one in found] == [("a?", " b "), ("c", "")]
        assert [one.is_right("b\n") for one in found] == [True, False]
    tasks = [TuningTask("own", own=own_tasks(text, "FILE")) for text in (lines, table)]
    assert tasks[0].digest == tasks[1].digest != TuningTask("own", own=found[:1]).digest
    assert tasks[0].prompts(2)(1).text == "c"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "FILE has no columns prompt and answer"),
        ("prompt,answer\n", "FILE holds no prompts"),
        ("question,answer\na,b\n", "FILE has no columns"),
        ("prompt,answer\na\n", "FILE, line 2 has no prompt and answer"),
        ('{"prompt": "a"}', "FILE, line 1 has no prompt and answer"),
        ('{"prompt": 1, "answer": "b"}', "FILE, line 1 has no prompt"),
        ('{"prompt": " ", "answer": "b"}', "FILE, line 1 has no prompt"),
        ('{"prompt": "a", "answer": "b"}\n[1]', "FILE, line 2 is not a JSON object"),
        ('{"prompt": "a", "answer": "b"}\n{', "FILE, line 2"),
        ("{" * 5_000, "FILE, line 1"),
        (f'{{"prompt": "{"a" * 100_001}", "answer": "b"}}', "longer than 100,000 characters"),
        (f'prompt,answer\n"{"a" * 200_000}",b', "FILE, line 1"),
    ],
)
def test_own_prompts_that_are_wrong(text: str, why: str) -> None:
    with pytest.raises(SafelightError, match=why) as raised:
        own_tasks(text, "FILE")
    assert "\n" not in str(raised.value)


def test_prompts_do_not_depend_on_their_number() -> None:
    for task in (TuningTask("skills", 4), TuningTask("sudoku", 4, GivenRange(60, 60)), TuningTask("drawings", 4)):
        few, many = task.prompts(2), task.prompts(9)
        assert [few(index).text for index in range(2)] == [many(index).text for index in (0, 1)]
    assert TuningTask("sudoku", 0, GivenRange(25, 29)).title == "Sudokus with 25-29 givens"


def result(**changes: object) -> TuningResult:
    rows = (row(USUAL, 4.0), row(KEPT, 2.0, 1, 2), row(Candidate("margin", 5.0), 1.0, 0, 12, 500), row(HOT, 3.0, 2))
    return replace(TuningResult("Small", "held-out skills", 3, 0.01, rows), **changes)  # type: ignore[arg-type]


def test_a_result_as_a_file(tmp_path: Path) -> None:
    result().write(tmp_path / FILE)
    document = json.loads((tmp_path / FILE).read_text())
    assert document["chosen"] == "entropy_bound_kept 0.2"
    assert [one["frontier"] for one in document["rows"]] == [False, True, False, True]
    assert document["rows"][3]["variation"] == {"t_max": 1.0, "t_min": 0.8}
    assert document["rows"][1]["difference"] == -0.001


def test_the_choice_becomes_a_preset_and_is_changed_by_a_later_one(tmp_path: Path) -> None:
    """A preset has the user's settings, but for what the tuning varied and the chosen rule uses."""
    store = PresetStore(tmp_path)
    mine = SettingsValues({"t_max": 0.7, "max_new_tokens": 128, "margin": 9.0}, decoding=DecodingChoice(verify=True))
    name = save_tuned(store, result(), mine)
    assert name == "Small, tuned on held-out skills"
    assert mine.overrides == {"t_max": 0.7, "max_new_tokens": 128, "margin": 9.0}
    (made,) = PresetStore(tmp_path).own
    assert (made.name, made.decoding) == (name, DecodingChoice(verify=True, acceptance=KEPT.acceptance))
    assert dict(made.overrides) == {"entropy_bound": 0.2, "max_new_tokens": 128, "margin": 9.0}  # t_max was varied
    rows = (row(USUAL, 4.0), row(Candidate("margin", 7.5, (*HOTTER, *STALLING)), 2.0))
    assert save_tuned(store, result(rows=rows), SettingsValues()) == name
    (now,) = PresetStore(tmp_path).own
    assert (now.id, now.decoding) == (made.id, DecodingChoice(verify=True, acceptance="margin"))
    tuned = {"margin": 7.5, **dict(HOTTER), **dict(STALLING)}  # and the model's own bound, which the rule also uses
    assert dict(now.overrides) == {"max_new_tokens": 128, **tuned}
