"""Training on a card, as far as it shows without one: rows made ahead, steps that wait for nothing, runs by the minute,
checkpoints that move. On the CPU the recipe of a card takes the same path; on a pretended card, whose tensors have a
device and no numbers, whatever reads a number or mixes devices fails."""

from __future__ import annotations

import dataclasses
import itertools
import json
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch._subclasses.fake_tensor import FakeTensorMode

from engine.errors import SafelightError
from engine.training import loop, producers, train, trainer
from engine.training.data.rollout import TrainingBatch
from engine.training.minimal import minimal_puzzles
from engine.training.producers import Producers, RowPlan
from engine.training.recipes.embedded import CARD_RECIPES, RECIPES, Recipe
from engine.training.trainer import Trainer

TINY: dict[str, Any] = {"hidden_size": 16, "layers": 2, "batch": 4, "puzzles": 5, "warmup_steps": 2}


def tiny(name: str, **changes: Any) -> Recipe:
    """A card's recipe, small."""
    return dataclasses.replace(CARD_RECIPES[name], **(TINY | {"steps": 4, "minutes": 0.0, "producers": 2} | changes))


def tiny_cpu(name: str, **changes: Any) -> Recipe:
    """The recipe of two cores, small."""
    return dataclasses.replace(RECIPES[name], **(TINY | {"steps": 4} | changes))


@pytest.fixture(scope="module")
def puzzles(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("puzzles") / "puzzles.txt"
    list(minimal_puzzles(5, path))
    return path.read_text()


def folder_with(puzzles: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "puzzles.txt").write_text(puzzles)
    return folder


class Ahead:
    """What ``Producers`` gives, made in this process."""

    opened = closed = 0

    def __init__(self, plan: RowPlan, device: torch.device) -> None:
        self.plan, self.blocks, self.sources, self.device = plan, plan.blocks(), plan.open(), device
        self.waited = 0.0
        type(self).opened += 1

    def draw(self, index: int, count: int) -> TrainingBatch:
        asked, block = next(self.blocks)
        batch = self.plan.make(self.sources[index], index, block)
        assert (asked, len(batch.ids)) == (index, count)
        return TrainingBatch(batch.ids.to(self.device), batch.present.to(self.device), batch.target.to(self.device))

    def set_step(self, step: int) -> None:
        pass

    def state(self) -> list[Any]:
        return []

    def close(self) -> None:
        type(self).closed += 1


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> type[Ahead]:
    """Rows are made ahead without processes."""
    monkeypatch.setattr(Ahead, "opened", 0)
    monkeypatch.setattr(Ahead, "closed", 0)
    monkeypatch.setattr(producers, "Producers", Ahead)
    return Ahead


# --- rows ----------------------------------------------------------------------------------------------------------


def test_blocks_come_in_the_order_of_their_use_also_from_the_middle() -> None:
    def first(step: int, count: int) -> list[tuple[int, int]]:
        return list(itertools.islice(RowPlan(tiny("base"), False, 0, Path(), step).blocks(), count))

    fills = [(0, 0), (1, 0), (2, 0)]
    assert first(0, 9) == [*fills, (0, 1), (1, 1), (2, 1), (0, 2), (0, 3), (1, 2)]  # the second feed every other step
    whole, later = first(0, 40), first(5, 20)
    assert later[:3] == [(0, 5), (1, 3), (2, 2)]  # what the pools were last given
    place = whole.index((0, 6))
    assert whole[place : place + 17] == later[3:]


def test_processes_make_the_rows_that_are_made_here_and_end(puzzles: str, tmp_path: Path) -> None:
    """Two processes; one is then killed, which is told in a line, and none is left behind."""
    path = folder_with(puzzles, tmp_path) / "puzzles.txt"
    plan = RowPlan(tiny("base"), False, 7, path, 3)
    sources = plan.open()
    rows = Producers(plan, torch.device("cpu"))
    processes = list(rows.processes)
    try:
        for index, block in itertools.islice(plan.blocks(), 8):
            found, expected = rows.draw(index, plan.feeds()[index].rows), plan.make(sources[index], index, block)
            for name in ("ids", "present", "target"):
                assert torch.equal(getattr(found, name), getattr(expected, name))
                assert getattr(found, name).dtype == getattr(expected, name).dtype
        os.kill(processes[0].pid or 0, signal.SIGKILL)
        drawn = (rows.draw(i, plan.feeds()[i].rows) for i, _ in itertools.islice(plan.blocks(), 8, 1000))
        with pytest.raises(SafelightError, match="a process that makes rows ended"):
            list(drawn)  # pipes hold a few
    finally:
        rows.close()
    assert processes[1].exitcode == 0  # it found its pipe closed
    assert not multiprocessing.active_children()


@pytest.mark.slow  # starts two more processes that import torch
def test_a_run_with_processes_makes_its_puzzles_by_them_and_ends_them(puzzles: str, tmp_path: Path) -> None:
    runner = Trainer(tiny("sudoku", puzzles=3, steps=2), tmp_path, seed=1)
    assert (tmp_path / "puzzles.txt").read_text().splitlines() == puzzles.splitlines()[:3]
    assert len(multiprocessing.active_children()) == 2
    runner.run()
    assert runner.step == 2
    assert not multiprocessing.active_children()


# --- a step --------------------------------------------------------------------------------------------------------


class Elsewhere(torch.Generator):
    """A generator of a card that is not there."""

    device = torch.device("cuda")

    def __new__(cls, device: object = "cpu") -> Elsewhere:  # noqa: ARG004
        return super().__new__(cls, "cpu")


@pytest.mark.filterwarnings("ignore:User provided device_type of 'cuda'")
def test_a_step_reads_nothing_back_and_stays_on_its_device(
    puzzles: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: type[Ahead]
) -> None:
    """Forward, renewal, clipping, both optimizers and averages; the backward pass alone is left out."""
    plain = trainer.DiffusionGemma

    class OnCard(plain):  # type: ignore[misc, valid-type]
        def __init__(self, config: Any) -> None:
            with torch.device("cuda"):
                super().__init__(config)

        def to(self, device: torch.device) -> OnCard:
            assert device.type == "cuda"
            return self

    def give_gradients(loss: torch.Tensor) -> None:
        assert loss.device.type == "cuda"
        for param in runner.named.values():
            param.grad = torch.zeros_like(param)

    def make_on_card(self: Ahead, index: int, count: int) -> TrainingBatch:
        feed, width = self.plan.feeds()[index], self.sources[index].prompt_length
        assert feed.rows == count
        wide = torch.zeros(count, width, dtype=torch.long, device="cuda")
        target = torch.ones(count, self.plan.recipe.canvas_length, dtype=torch.long, device="cuda")
        return TrainingBatch(wide, wide == 0, target)

    monkeypatch.setattr(trainer, "DiffusionGemma", OnCard)
    monkeypatch.setattr(torch, "Generator", Elsewhere)
    monkeypatch.setattr(torch.Tensor, "backward", give_gradients)
    monkeypatch.setattr(torch.Tensor, "exponential_", lambda self, generator: self.fill_(1.0))  # noqa: ARG005
    monkeypatch.setattr(torch, "multinomial", None)  # it waits for a GPU within, where nothing shows it
    monkeypatch.setattr(ahead, "draw", make_on_card)
    monkeypatch.setattr(trainer, "has_bf16", lambda _: False)
    with FakeTensorMode():
        runner = Trainer(tiny("base"), folder_with(puzzles, tmp_path), device="cuda")
        for _ in range(2):
            runner._take_step()
        assert {value.device.type for value in runner.sums.values()} == {"cuda"}
        assert {value.device.type for value in runner.average.values()} == {"cuda"}
        for optimizer in runner.optimizers.values():
            assert {v.device.type for state in optimizer.state.values() for v in state.values()} == {"cuda"}


def test_what_is_compiled_finds_the_models_frequencies_in_place(
    puzzles: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guard holds that they are as they were: were the first pass to fill them, the second would compile again."""
    kept: list[int] = []

    def compile_nothing(function: Any, dynamic: bool) -> Any:
        assert not dynamic
        kept.append(len(function.__self__.model._frequencies))
        return function

    monkeypatch.setattr(torch, "compile", compile_nothing)
    runner = Trainer(tiny_cpu("sudoku"), folder_with(puzzles, tmp_path), compiled=True)
    assert kept == [len(set(runner.model.config.layers))] == [2]


def test_a_loss_that_is_not_finite_ends_the_run_before_it_is_saved(
    puzzles: str, tmp_path: Path, ahead: type[Ahead]
) -> None:
    runner = Trainer(tiny("sudoku"), folder_with(puzzles, tmp_path))
    with torch.no_grad():
        runner.model.norm_weight.fill_(float("nan"))
    with pytest.raises(SafelightError, match="not finite at step 2"):
        runner.run(report_every=2)
    assert not (tmp_path / "state.safetensors").exists()
    assert ahead.closed == 1


# --- ends and returns ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError])
def test_what_makes_rows_is_closed_on_every_way_out(
    failure: type[BaseException],
    puzzles: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ahead: type[Ahead],
) -> None:
    def fails(*_: object) -> None:
        raise failure

    runner = Trainer(tiny("sudoku"), folder_with(puzzles, tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(runner, "forward", fails)
        with pytest.raises(failure):
            runner.run()
    assert (ahead.opened, ahead.closed) == (1, 1)
    monkeypatch.setattr(trainer, "Pool", fails)
    with pytest.raises(failure):
        Trainer(tiny("sudoku"), tmp_path)
    assert (ahead.opened, ahead.closed) == (2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sudoku", "base"])
def test_a_run_taken_up_again_ends_in_the_same_bits(
    name: str, puzzles: str, tmp_path: Path, ahead: type[Ahead]
) -> None:
    """Rows and noise follow from the seed and the step; nothing is kept of them."""
    ends = []
    for folder, parts in ((tmp_path / "whole", [4]), (tmp_path / "parts", [1, 2, 4])):
        folder_with(puzzles, folder)
        for steps in parts:
            # The length decides the rates: all parts have the whole run's.
            runner = Trainer(tiny(name, steps=4), folder, seed=3)
            while runner.step < steps:
                runner._take_step()
            runner.save()
            runner.close()
        ends.append(load_file(folder / "state.safetensors"))
    assert ahead.closed == 4
    assert ends[0].keys() == ends[1].keys()
    for key, tensor in ends[0].items():
        assert torch.equal(tensor, ends[1][key]), key


def test_a_run_moves_between_a_card_and_two_cores(puzzles: str, tmp_path: Path, ahead: type[Ahead]) -> None:
    """Weights, averages, moments, step and time move; pools of another batch begin afresh."""
    folder = folder_with(puzzles, tmp_path)
    for there, back in ((tiny("base", steps=3, batch=8), tiny_cpu("base", steps=5)), (tiny_cpu("base", steps=7),) * 2):
        for recipe in (there, back, tiny("base", steps=6, batch=8)):
            if (folder / "state.safetensors").exists():
                before = load_file(folder / "state.safetensors")
                runner = Trainer(recipe, folder, seed=2)
                assert runner.seconds_before > 0
                runner.save()
                after = load_file(folder / "state.safetensors")
                for key, tensor in before.items():
                    if key.startswith(("model", "average", "muon", "adam")):
                        assert torch.equal(tensor, after[key]), key
                assert [len(pool.step) for pool in runner.pools] == [f.rows for f in recipe.feeds(False)]
            else:
                runner = Trainer(recipe, folder, seed=2)
            runner.run()
            assert runner.step >= recipe.steps
    steps = [json.loads(line)["step"] for line in (folder / "log.jsonl").read_text().splitlines()]
    assert steps == [3, 5, 6, 7]
    assert ahead.opened == ahead.closed == 3


def test_a_card_does_not_make_rows_between_its_steps(tmp_path: Path) -> None:
    with pytest.raises(SafelightError, match="1 producer or more"):
        Trainer(tiny_cpu("sudoku"), tmp_path, device="cuda")


def test_another_models_run_is_not_gone_on_with(puzzles: str, tmp_path: Path) -> None:
    Trainer(tiny_cpu("sudoku", steps=1), folder_with(puzzles, tmp_path)).run()
    with pytest.raises(SafelightError, match="holds a run of sudoku"):
        Trainer(tiny_cpu("skills"), tmp_path)


def test_a_run_by_the_minute_ends_in_time_with_its_rates_at_zero(
    puzzles: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: type[Ahead]
) -> None:
    """A clock on which a step takes a second. The run of 20 is killed at 9 and saved at 8: the rest takes 12 more."""
    now = [100.0]
    monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])
    rates: list[float] = []

    class Clocked(Trainer):
        def _take_step(self) -> float:
            rates.append(super()._take_step())
            now[0] += 1.0
            if len(rates) == 9:
                raise KeyboardInterrupt
            return rates[-1]

    recipe = tiny("sudoku", steps=0, minutes=20 / 60)
    with pytest.raises(KeyboardInterrupt):
        Clocked(recipe, folder_with(puzzles, tmp_path)).run(report_every=4, save_every=2.0)
    now[0] += 1000.0  # nobody ran
    again = Clocked(recipe, tmp_path)
    assert (again.step, again.seconds) == (8, 8.0)
    again.run(report_every=4, save_every=2.0)
    assert (again.step, again.seconds) == (20, 20.0)
    assert rates[2:9] == [1.0] * 7  # after the warm-up
    assert rates[-7:] == pytest.approx([min(1.0, left / 7) for left in (7, 6, 5, 4, 3, 2, 1)])
    assert ahead.opened == ahead.closed == 2


# --- recipes and the command line ------------------------------------------------------------------------------------


def test_rates_follow_the_root_of_the_batch() -> None:
    recipe = RECIPES["sudoku"].with_batch(256)
    assert (recipe.batch, recipe.muon_lr, recipe.adam_lr) == pytest.approx((256, 0.04, 0.006))
    assert RECIPES["sudoku"].with_batch(64) == RECIPES["sudoku"]


def test_each_model_has_a_recipe_for_two_cores_and_one_for_a_card() -> None:
    assert RECIPES.keys() == CARD_RECIPES.keys()
    for name, recipe in RECIPES.items():
        card = CARD_RECIPES[name]
        assert recipe.producers == 0 < card.producers
        assert card.model_config() == recipe.model_config()
        assert card.model_config().vocab_size <= 256  # rows travel as bytes


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--device", "cuda"], "no CUDA device was found"),
        (["--steps", "0"], "so many steps or so many minutes"),
        (["--minutes", "-1"], "so many steps or so many minutes"),
        (["--batch", "1"], "the batch must be 2 or more"),
        (["--producers", "-1"], "the number of producers must be 0 or more"),
    ],
)
def test_bad_options_give_one_line(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["train", "sudoku", "--out", str(tmp_path / "run"), *arguments])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert train.main() == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: ")
    assert expected in said.err
    assert len(said.err.splitlines()) == 1
    assert not (tmp_path / "run").exists()
