"""Adapter training: gradients through packed weights, the two recipes, and runs that go on."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

import engine
from engine import GenerationConfig, SafelightError, kernels
from engine.adapters.lora import attach, new_adapters
from engine.config import GELU, Activation
from engine.layers.packed_linear import PackedLinear, packed_weights
from engine.models.diffusion_gemma.config import TARGETS
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import INT4, INT8, NF4, Scheme, pack, unpack
from engine.tasks import sudoku
from engine.training import finetune
from engine.training.adapter import (
    AdapterRecipe,
    AdapterRun,
    TrainingEnded,
    TrainingMeasured,
    TrainingProgress,
    TrainingRecord,
    TrainingStarted,
    recipe_for,
)
from engine.training.finetune import LOG, STATE, measure, train_adapter
from engine.training.loss import Draws, denoise, draw, encode, uniform_loss
from engine.training.memory import adapter_parameters
from engine.training.puzzles import Format, TrainingBatch, made_pairs
from engine.weights.safetensors import Checkpoint
from tests.engine.packing import SHAPE, released
from tests.engine.small import write_checkpoint
from tests.engine.tiny import CANVAS, VOCABULARY, network, tokens
from tests.engine.training.teaching import PAIRS, write_base

EXACT = {"atol": 1e-6, "rtol": 1e-5}


def trained(model: DiffusionGemma, causal: int = 2, seed: int = 3) -> list[nn.Parameter]:
    """Attach adapters whose matrices are all random; returns these, in order."""
    draws = torch.Generator().manual_seed(seed)
    adapters = new_adapters(model, TARGETS, 3, causal, draws)
    attach(model, adapters)
    found = [p for adapter in adapters.values() for p in adapter.parameters()]
    for parameter in found:
        parameter.data.normal_(std=0.1, generator=draws)
    return found


def batch_of(count: int, length: int = 14, padded: bool = False) -> TrainingBatch:
    present = torch.ones(count, length, dtype=torch.bool)
    if padded:
        present[0, :3] = False
    target = torch.stack([tokens(CANVAS, 30 + row) for row in range(count)])
    target[:, CANVAS - 3 :] = 1
    return TrainingBatch(torch.stack([tokens(length, row) for row in range(count)]), present, target)


# --- gradients through packed weights ------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", [NF4, INT4, INT8], ids=str)
def test_gradients_through_packed_weights_are_those_of_the_unpacked(
    scheme: Scheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.kernels.reference.AT_ONCE", 5 * 64)  # several pieces a matrix
    draws = torch.Generator().manual_seed(0)

    def random(*shape: int, grad: bool = False) -> Tensor:
        return torch.randn(shape, generator=draws).requires_grad_(grad)

    matrix = pack(random(12, 64), scheme)
    x, wanted = random(2, 3, 64, grad=True), random(2, 3, 12)
    out = kernels.linear(x, matrix)
    torch.testing.assert_close(
        torch.autograd.grad(out, x, wanted), torch.autograd.grad(F.linear(x, unpack(matrix)), x, wanted), **EXACT
    )
    p, wanted = random(4, 12, grad=True), random(4, 64)
    torch.testing.assert_close(
        torch.autograd.grad(kernels.expectation(p, matrix), p, wanted),
        torch.autograd.grad(p @ unpack(matrix), p, wanted),
        **EXACT,
    )
    gate_up, down = pack(random(5, 128, 64), scheme), pack(random(5, 64, 64), scheme)
    x, weights, wanted = random(7, 64, grad=True), torch.rand(7, 2, generator=draws).requires_grad_(), random(7, 64)
    chosen = torch.stack([torch.randperm(4, generator=draws)[:2] for _ in range(7)])  # the fifth has nothing to do
    gate, up = torch.einsum("nh,edh->ned", x, unpack(gate_up)).chunk(2, dim=-1)
    forms: dict[Activation, Tensor] = {GELU: F.gelu(gate, approximate="tanh"), "silu": F.silu(gate)}
    for activation, bent in forms.items():
        found = kernels.experts(x, weights, chosen, gate_up, down, activation)
        every = torch.einsum("nei,ehi->neh", bent * up, unpack(down))
        picked = every.gather(1, chosen[:, :, None].expand(-1, -1, 64))
        expected = (picked * weights[:, :, None]).sum(1)
        torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-4)
        ours, theirs = (torch.autograd.grad(out, (x, weights), wanted, retain_graph=True) for out in (found, expected))
        torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=1e-4)


def unpacked_twin(model: DiffusionGemma) -> DiffusionGemma:
    """The network whose weights are those that packed ones stand for."""
    twin = network(**SHAPE)
    state = {name: tensor for name, tensor in model.state_dict().items() if not name.endswith((".codes", ".scales"))}
    for path, module in model.named_modules():
        if any(module is weight for weight in packed_weights(model)):
            state[path] = unpack(module.packed)  # type: ignore[union-attr, operator]
    twin.load_state_dict(state)
    return twin


def test_a_packed_base_trains_as_its_unpacked_twin(tmp_path: Path) -> None:
    """The whole loss: its gradients to the matrices, through packed layers, experts, table and head."""
    loaded = engine.load_model(released(tmp_path), device="cpu", dtype="float32", quantization="nf4")
    assert isinstance(loaded.network.layers[0].self_attn.q_proj, PackedLinear)  # type: ignore[union-attr]
    batch, found = batch_of(3), []
    draws = Draws(batch.target.roll(1, dims=1), torch.tensor([True, False, True]))
    for model in (loaded.network, unpacked_twin(loaded.network)):
        matrices = trained(model)
        loss = uniform_loss(model, batch, draws, eos=1, recompute=model is loaded.network)
        found.append((loss, torch.autograd.grad(loss.total, matrices)))
    (ours, our_gradients), (theirs, their_gradients) = found
    torch.testing.assert_close(ours.total, theirs.total, **EXACT)
    for one, other in zip(our_gradients, their_gradients, strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-3)


# --- the passes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [(14, 14, 14), (30, 1, 8)])
def test_left_padded_batches_equal_single_rows(lengths: tuple[int, ...]) -> None:
    """Prompts within and beyond the window of 8; one row without self-conditioning."""
    model, width = network(), max(lengths)
    rows = [tokens(length, length + 40) for length in lengths]
    ids, present = torch.zeros(3, width, dtype=torch.long), torch.zeros(3, width, dtype=torch.bool)
    for row, prompt in enumerate(rows):
        ids[row, width - len(prompt) :], present[row, width - len(prompt) :] = prompt, True
    canvas = torch.stack([tokens(CANVAS, seed) for seed in range(3)])
    conditioning = torch.randn(3, CANVAS, VOCABULARY, generator=torch.Generator().manual_seed(1)) * 3
    soft = model.soft_embedding(torch.softmax(conditioning, dim=-1))
    soft[0] = 0.0
    for mask in (present, None) if present.all() else (present,):
        hidden, prefix = encode(model, ids, mask)
        logits = model.head(denoise(model, canvas, soft, prefix, mask))
        for row, prompt in enumerate(rows):
            cache = model.new_cache()
            alone = model.prefill(prompt, cache)
            torch.testing.assert_close(hidden[row, width - len(prompt) :], alone, atol=1e-4, rtol=0)
            expected = model.denoise(canvas[row], cache, conditioning[row] if row else None)
            torch.testing.assert_close(logits[row], expected, atol=1e-4, rtol=0)


# --- the loss: its gradients are those of ``golden/test_training_loss`` ----------------------------------------------


def test_corruption_is_uniform_in_level_and_in_tokens() -> None:
    target = torch.full((4000, 50), 7)
    draws = draw(target, 20, torch.Generator().manual_seed(0))
    kept = (draws.canvas == 7).float().mean(dim=1)  # 1 - t, and a twentieth of t by chance
    assert kept.mean().item() == pytest.approx(0.5 + 0.5 / 20, abs=0.02)
    assert kept.quantile(torch.tensor([0.1, 0.9])).tolist() == pytest.approx([0.145, 0.905], abs=0.03)
    assert draws.conditioned.float().mean().item() == pytest.approx(0.5, abs=0.03)
    others = torch.bincount(draws.canvas[draws.canvas != 7], minlength=20).float()
    assert others[7] == 0
    assert (others[others > 0] / others.sum()).tolist() == pytest.approx([1 / 19] * 19, abs=0.004)
    again = draw(target, 20, torch.Generator().manual_seed(0))
    assert torch.equal(draws.canvas, again.canvas)
    assert torch.equal(draws.conditioned, again.conditioned)


def test_recomputing_changes_no_gradient() -> None:
    model = network(num_experts=16)
    matrices, batch = trained(model), batch_of(4, padded=True)
    draws = Draws(batch.target.roll(1, dims=0), torch.tensor([True, False, True, False]))
    found = []
    for recompute in (False, True):
        loss = uniform_loss(model, batch, draws, eos=1, recompute=recompute)
        found.append([loss.total.detach(), *torch.autograd.grad(loss.total, matrices)])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


# --- data ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_base(tmp_path_factory.mktemp("models") / "base")


kept_pairs = cache(made_pairs)  # runs of one seed train on the same puzzles, which take most of their time to be made


@pytest.fixture(autouse=True)
def _pairs_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetune, "made_pairs", kept_pairs)


def test_puzzles_have_one_solution_and_are_those_of_their_name() -> None:
    made = made_pairs("a", 3, (27, 52))
    assert made == made_pairs("a", 3, (27, 52)) != made_pairs("b", 3, (27, 52))
    for board, solution in made:
        assert sudoku.solutions(board) == [solution]
        assert 27 <= sudoku.givens(board) <= 52
        assert not sudoku.is_held_out(solution)
    assert all(sudoku.is_held_out(solution) for _, solution in made_pairs("a", 2, (40, 50), held_out=True))


@pytest.mark.parametrize("form", ["rows", "digits"])
def test_examples_in_both_formats(form: Any, base: Path) -> None:
    model = engine.load_model(base, device="cpu")
    batch = Format(model, form).batch(PAIRS[:5])
    assert batch.target.shape == (5, 96)
    breaks = "\n" if form == "rows" else ""
    for ids, present, target in zip(batch.ids, batch.present, batch.target, strict=True):
        assert present.all()
        row = target.tolist()
        length = 89 if form == "rows" else 81
        assert row[length:] == [1] * (96 - length)
        answer = model.tokenizer.decode(row[:length])
        asked = model.tokenizer.decode(ids.tolist()).strip().removeprefix("user").strip()
        lines = [text.replace("\n", "") for text in (asked, answer)]
        assert answer == breaks.join(lines[1][start : start + 9] for start in range(0, 81, 9))
        assert (lines[0][-81:], lines[1]) in PAIRS


def test_an_answer_too_long_for_the_canvas(tmp_path: Path) -> None:
    folder = tmp_path / "short"
    write_checkpoint(network(canvas_length=85), folder, GenerationConfig())
    model = engine.load_model(folder, device="cpu")
    with pytest.raises(SafelightError, match="takes 89 tokens of this model, its canvas has 85; use the format digits"):
        Format(model, "rows").target(PAIRS[0][1])
    assert len(Format(model, "digits").target(PAIRS[0][1])) == 85


def test_measuring_reads_what_was_written(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = engine.load_model(base, device="cpu")
    form = Format(model, "rows")
    score = measure(form, PAIRS[:2])
    assert score is not None
    assert (score.count, score.exact, score.steps_mean) == (2, 0.0, 2.0)
    board, solution = PAIRS[0]
    given = next(cell for cell in range(81) if board[cell] != "0")
    blank = next(cell for cell in range(81) if board[cell] == "0")
    answers = {0: solution, 1: _changed(solution, blank), 2: _changed(solution, given)}
    turn = iter(answers.values())

    def written(*_: object, **__: object) -> list[engine.GenerationFinished]:
        ids = torch.tensor(model.tokenizer.encode(sudoku.rows(next(turn))))
        return [engine.GenerationFinished(tokens=ids.numpy(), reason="eos", blocks=1, steps=4, seconds=0.0)]

    monkeypatch.setattr("engine.training.finetune.generate", written)
    score = measure(form, [(board, solution)] * 3)
    assert score is not None
    blanks = board.count("0")
    assert score.exact == pytest.approx(1 / 3)
    assert score.givens_kept == pytest.approx(2 / 3)
    assert score.cells == pytest.approx((3 * blanks - 1) / (3 * blanks))
    assert score.steps_mean == 4.0


def _changed(solution: str, cell: int) -> str:
    return solution[:cell] + str(int(solution[cell]) % 9 + 1) + solution[cell + 1 :]


# --- runs ------------------------------------------------------------------------------------------------------------

TINY = AdapterRecipe(rank=2, batch=2, rate=3e-3, warmup_steps=2, eval_count=2, recompute=False)


def stop_after(count: int, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A flag that is set when so many steps were taken."""
    flag, real, taken = threading.Event(), finetune.AdapterTrainer._take_step, []

    def take(self: finetune.AdapterTrainer) -> Any:
        found = real(self)
        taken.append(self.step)
        if len(taken) == count:
            flag.set()
        return found

    monkeypatch.setattr(finetune.AdapterTrainer, "_take_step", take)
    return flag


def run_of(base: Path, out: Path, recipe: AdapterRecipe, **options: Any) -> AdapterRun:
    return AdapterRun(base, out, recipe, **{"steps": 4, "eval_every": 0, "device": "cpu", **options})


def go(run: AdapterRun, cancel: threading.Event | None = None) -> list[TrainingRecord]:
    return list(train_adapter(run, cancel))


def test_a_stopped_run_goes_on_and_ends_in_the_same_bits(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measuring before its end leaves no trace."""
    ends = []
    for name in ("whole", "parts"):
        out = tmp_path / name
        if name == "parts":
            with monkeypatch.context() as patch:
                records = go(run_of(base, out, TINY), stop_after(2, patch))
            assert records[-1] == TrainingEnded(2, 4, out)
        records = go(run_of(base, out, TINY, eval_every=3 if name == "whole" else 0))
        started = next(record for record in records if isinstance(record, TrainingStarted))
        assert (started.step > 0) is (name == "parts")
        assert records[-1] == TrainingEnded(4, 4, out)
        ends.append([load_file(out / STATE), load_file(out / "adapter_model.safetensors")])
    for whole, parts in zip(*ends, strict=True):
        assert whole.keys() == parts.keys()
        for key, tensor in whole.items():
            assert torch.equal(tensor, parts[key]), key
    assert any(tensor.any() for key, tensor in ends[0][1].items() if ".lora_B." in key)


def test_a_run_killed_before_its_last_adapter_was_written_writes_it(base: Path, tmp_path: Path) -> None:
    run = run_of(base, tmp_path / "out", TINY, steps=1)
    go(run)
    adapter = run.out / "adapter_model.safetensors"
    whole = adapter.read_bytes()
    adapter.unlink()
    assert go(run)[-1] == TrainingEnded(1, 1, run.out)
    assert adapter.read_bytes() == whole


def test_the_adapter_of_a_run_loads_and_changes_the_model(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finetune, "LOG_EVERY", 4)
    out = tmp_path / "out"
    records = go(run_of(base, out, replace(TINY, rate=0.1, eval_count=1), steps=5, eval_every=2))
    progress = [record for record in records if isinstance(record, TrainingProgress)]
    assert [record.step for record in progress] == [4, 5]
    assert [record.step for record in records if isinstance(record, TrainingMeasured)] == [2, 4, 5]
    logged = [json.loads(line) for line in (out / LOG).read_text().splitlines()]
    assert [record["step"] for record in logged] == [2, 4, 4, 5, 5]
    model = engine.load_model(base, device="cpu")

    def answer() -> Tensor:
        cache = model.new_cache()
        model.prefill(tokens(20), cache)
        return model.denoise(tokens(96, 1), cache)

    before = answer()
    found = engine.load_adapter(model, out)
    assert found.parameter_count == next(r for r in records if isinstance(r, TrainingStarted)).parameters
    assert found.parameter_count == adapter_parameters(model.config, TINY)
    assert (answer() - before).abs().max() > 0.01
    engine.unload_adapter(model)
    assert torch.equal(answer(), before)


def test_a_few_steps_lower_the_loss(base: Path, tmp_path: Path) -> None:
    run = run_of(base, tmp_path, replace(TINY, rate=0.05), steps=5)
    trainer = finetune.AdapterTrainer(run, engine.load_model(base, device="cpu"), {})
    generator = trainer.generator.get_state()

    def first() -> finetune.Loss:
        """The loss on the examples and draws of the first step."""
        trainer.generator.set_state(generator)
        trainer.step = 0
        return trainer._loss()

    before = first()
    for _ in range(5):
        trainer._take_step()
    after = first()
    assert after.denoise < 0.95 * before.denoise
    assert after.causal < 0.95 * before.causal


def test_recipes_are_checked_and_fit_the_size() -> None:
    assert not recipe_for(network().config).recompute
    large = engine.ModelConfig(**{**vars(network().config), "hidden_size": 2816})
    assert recipe_for(large) == AdapterRecipe()
    factors = [AdapterRecipe(warmup_steps=10, decay_share=0.5).factor(step, 100) for step in range(101)]
    assert factors[0] == pytest.approx(0.1)
    assert factors[9:51] == [1.0] * 42
    assert factors[100] == 0.0
    for changes in ({"batch": 0}, {"rate": 0.0}, {"rank": 0}, {"form": "xml"}):
        with pytest.raises(SafelightError):
            AdapterRecipe(**changes)  # type: ignore[arg-type]


def test_a_loss_that_is_not_finite_stops_the_run(base: Path, tmp_path: Path) -> None:
    run = run_of(base, tmp_path, TINY)
    trainer = finetune.AdapterTrainer(run, engine.load_model(base, device="cpu"), {})
    list(trainer.matrices.values())[1].data.fill_(math.inf)
    with pytest.raises(SafelightError, match=r"not finite at step 1; .* a rate below 0.003"):
        trainer._take_step()


def test_another_run_in_the_folder(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    go(run_of(base, out, TINY, steps=1))
    with pytest.raises(SafelightError, match="holds a run whose rank_denoise is '2', not '5'; give a new folder"):
        go(run_of(base, out, replace(TINY, rank=5)))
    opened = Checkpoint(out, [out / STATE])
    facts, tensors = opened.metadata(out / STATE), {name: opened.read(name).clone() for name in opened.headers}
    for spoilt, words in (
        (facts | {"step": "many"}, "its step is 'many'; give a new folder"),
        (facts | {"step": "9" * 5_000}, "its step is '9{60}'…; give a new folder"),
    ):
        save_file(tensors, out / STATE, spoilt)
        with pytest.raises(SafelightError, match=words):
            go(run_of(base, out, TINY))
    save_file(tensors, out / STATE, facts | {"states": "walk"})
    with pytest.raises(SafelightError, match="holds a run whose states is 'walk', not 'uniform'"):
        go(run_of(base, out, TINY))
    (out / STATE).write_bytes(b"nothing")
    with pytest.raises(SafelightError, match="holds a run that is damaged; give a new folder"):
        go(run_of(base, out, TINY))


def test_a_run_killed_while_it_wrote_goes_on(base: Path, tmp_path: Path) -> None:
    """A log may end in half a line."""
    out = tmp_path / "out"
    go(run_of(base, out, TINY, steps=1))
    (out / LOG).write_text((out / LOG).read_text() + '{"step": 1, "lo')
    go(run_of(base, out, TINY, steps=2))
    assert [json.loads(line)["step"] for line in (out / LOG).read_text().splitlines()] == [1, 2]


@pytest.mark.parametrize("place", ["/dev/null/adapter", f"/tmp/{'x' * 300}"])
def test_a_place_that_cannot_be_written_is_reported_before_anything_loads(
    place: str, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finetune, "load_model", lambda *_, **__: pytest.fail("it was loaded"))
    with pytest.raises(SafelightError, match=r"cannot be|Choose a folder that exists"):
        go(run_of(base, Path(place), TINY))


def test_too_little_memory_is_said_before(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.memory.plan.free_bytes", lambda _: 10**6)
    with pytest.raises(SafelightError, match=r"training takes about .* GB .* has 0.0 GB free"):
        go(run_of(base, tmp_path / "out", TINY))
    assert not (tmp_path / "out").exists()
