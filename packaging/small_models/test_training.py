"""Training of the small models: its passes equal the engine's own, its rows are right, runs resume bit for bit."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.decoding import sampling
from engine.models.model import load_model
from engine.tasks.skills import check
from engine.training.puzzles import TrainingBatch
from small_models import decision_examples as examples
from small_models import decision_rules as rules
from small_models.__main__ import parser
from small_models.decision_rows import TURN_END, DecisionSource, Reads, evidence, evidence_places, question_ends
from small_models.distillation import Teacher, answer_places, layer_loss, surprise_loss
from small_models.losses import evidence_loss, slot_loss, weights
from small_models.made_puzzles import minimal_puzzles
from small_models.muon import orthogonalise
from small_models.network import Prefix, attention, denoise, encode, predict, text_attention, through_layer
from small_models.recipes import RECIPES, TEXT_TOKENS, Feed, Recipe
from small_models.rollout import Pool
from small_models.rows import SHORT_PROMPT, SkillSource, SudokuSource, prompt_text
from small_models.skills import is_held_out
from small_models.tokenizer import EOS, build_tokenizer
from small_models.trainer import AdapterTrainer, Trainer
from tests.engine.tiny import CANVAS, VOCABULARY, network, tokens

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def puzzles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("puzzles") / "puzzles.txt"
    assert list(minimal_puzzles(3, path)) == [1, 2, 3]
    assert list(minimal_puzzles(5, path)) == [4, 5]  # goes on where the file ends
    return path


@pytest.mark.parametrize("lengths", [(14, 14, 14), (14, 1, 9), (30, 5, 8)])
def test_left_padded_batches_equal_single_rows(lengths: tuple[int, ...]) -> None:
    """Prompts within and beyond the window of 8; one row without self-conditioning."""
    model = network()
    width = max(lengths)
    rows = [tokens(length, length + 40) for length in lengths]
    ids, present = torch.zeros(3, width, dtype=torch.long), torch.zeros(3, width, dtype=torch.bool)
    for row, prompt in enumerate(rows):
        ids[row, width - len(prompt) :], present[row, width - len(prompt) :] = prompt, True
    canvas = torch.stack([tokens(CANVAS, seed) for seed in range(3)])
    conditioning = torch.randn(3, CANVAS, VOCABULARY, generator=torch.Generator().manual_seed(1)) * 3
    soft = torch.softmax(conditioning, dim=-1)
    soft[0] = 0.0
    for mask in (present, None) if present.all() else (present,):
        hidden, prefix = encode(model, ids, mask)
        logits = predict(model, canvas, soft, prefix, mask)
        for row, prompt in enumerate(rows):
            cache = model.new_cache()
            alone = model.prefill(prompt, cache)
            torch.testing.assert_close(hidden[row, width - len(prompt) :], alone, atol=TOLERANCE, rtol=0)
            expected = model.denoise(canvas[row], cache, conditioning[row] if row else None)
            torch.testing.assert_close(logits[row], expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("layer", [-2, -1])
def test_attention_is_what_the_layer_attends_to(layer: int) -> None:
    """Compares the mean of the values with what the layer's own attention gives, with padding."""
    model = network()
    ids, canvas = tokens(40, 1).view(2, 20), tokens(2 * CANVAS, 2).view(2, CANVAS)
    present = torch.ones(2, 20, dtype=torch.bool)
    present[0, :7] = False
    given: list[Tensor] = []
    kept: Prefix = []
    mixed: list[Tensor] = []

    def through(*args: Any) -> Any:
        given.append(args[1])
        out = through_layer(*args)
        kept.append(out[1])
        return out

    hook = model.layers[layer].self_attn.register_forward_hook(lambda *call: mixed.append(call[2]))
    prefix = encode(model, ids, present)[1]
    mixed.clear()
    denoise(model, canvas, None, prefix, present, run_layer=through)
    hook.remove()
    found = attention(model, layer, given[layer], prefix, present)
    assert found.shape[2:] == (CANVAS, 20 + CANVAS)
    assert found[0, :, :, :7].max() < -1e6
    values = torch.cat([prefix[layer][1], kept[layer][1]], dim=2)
    values = values.repeat_interleave(found.shape[1] // values.shape[1], dim=1)
    expected = model.layers[layer].self_attn.o_proj((found.exp() @ values).transpose(1, 2).flatten(2))
    torch.testing.assert_close(mixed[0], expected, atol=1e-5, rtol=0)


def test_text_attention_is_what_the_layer_attends_to() -> None:
    model, layer = network(), -1
    ids, present = tokens(40, 1).view(2, 20), torch.ones(2, 20, dtype=torch.bool)
    present[0, :7] = False
    mixed: list[Tensor] = []
    hook = model.layers[layer].self_attn.register_forward_hook(lambda *call: mixed.append(call[2]))
    outputs: list[Tensor] = []
    prefix = encode(model, ids, present, outputs=outputs)[1]
    hook.remove()
    rows, places = torch.tensor([0, 0, 1]), torch.tensor([8, 19, 4])
    found = text_attention(model, layer, outputs[layer - 1], prefix, present, (rows, places))
    assert found[:2, :, :7].max() < -1e6
    assert found[2, :, 5:].max() < -1e6
    values = prefix[layer][1][rows]
    values = values.repeat_interleave(found.shape[1] // values.shape[1], dim=1)
    expected = model.layers[layer].self_attn.o_proj((found.exp()[:, :, None] @ values)[:, :, 0].flatten(1))
    torch.testing.assert_close(mixed[0][rows, places], expected, atol=1e-5, rtol=0)


def test_evidence_is_found_where_one_head_finds_it() -> None:
    attended = torch.full((2, 4, 5), 0.05)
    attended[0, 2, 3] = 0.9  # 1.05 with the others
    expected = -torch.tensor(4 * 0.05).log() / 2
    torch.testing.assert_close(evidence_loss(attended.log(), torch.tensor([3, 1])), expected)


def test_evidence_is_the_same_sign_or_the_lists_end_and_the_number_digit_by_digit() -> None:
    text = (
        "The list is m, p, k. The number is 58.\n\nQuestion 1: Is p in the list?\nAnswer with y or n only.\n\n"
        "Question 2: Is i in the list?\nAnswer with y or n only.\n\nQuestion 3: Is the number larger than 7?\n"
        "Answer with y or n only.\n\nQuestion 4: Compared with 61, how is the number?\nA: equal"
    )
    assert [(text[: at + 1][-8:], text[: key + 1][-4:]) for at, key in evidence(text)] == [
        (" 1: Is p", "m, p"),
        (" 2: Is i", ", k."),
        ("r than 7", "s 58"),
        ("d with 6", "is 5"),
        (" with 61", "s 58"),
    ]
    ids = torch.tensor([build_tokenizer().encode(text + "\nAnswer with the letter of one option only.").ids])
    looks = evidence_places(ids)[0]
    ends = question_ends(ids)[0].nonzero()[:, 0].tolist()
    assert [text[int(looks[end]) - 3 :][:4] for end in ends] == ["Is p", "Is i", "an 7", "h 61"]
    assert int((looks >= 0).sum()) == 5 + 4


def test_orthogonalise_brings_singular_values_near_one() -> None:
    matrices = torch.randn(3, 20, 32, generator=torch.Generator().manual_seed(0)) * 0.01
    before, after = torch.linalg.svd(matrices), torch.linalg.svd(orthogonalise(matrices, steps=8))
    assert after.S.min() > 0.4
    assert after.S.max() < 1.35
    # The singular directions stay: it is the orthogonal factor, not any orthogonal matrix.
    factor = before.U[..., :, : before.S.shape[-1]] @ before.Vh[..., : before.S.shape[-1], :]
    overlap = (orthogonalise(matrices, steps=8) * factor).sum((-2, -1)) / before.S.shape[-1]
    assert overlap.min() > 0.6


def texts(batch: TrainingBatch) -> list[tuple[str, str]]:
    """Prompt and answer of each row; padding only on the left, end tokens only on the right."""
    tokenizer, found = build_tokenizer(), []
    for ids, present, target in zip(batch.ids, batch.present, batch.target, strict=True):
        count = int(present.sum())
        assert present[len(present) - count :].all()
        assert not ids[~present].any()
        row = target.tolist()
        length = row.index(EOS) if EOS in row else len(row)
        assert set(row[length:]) <= {EOS}
        found.append(
            (tokenizer.decode(ids[present].tolist(), skip_special_tokens=False), tokenizer.decode(row[:length]))
        )
    return found


@pytest.mark.parametrize("long", [False, True])
def test_skill_rows_are_question_and_answer(long: bool) -> None:
    """Each row holds one block of the answer, with the blocks before it behind the question."""
    head, tail = prompt_text("@@").split("@@")
    later = 0
    for prompt, answer in texts(SkillSource(32, seed=2, long=long).draw(60)):
        question, before = prompt.removeprefix(head).split(tail)
        assert len(before) % 32 == 0
        assert (bool(before) or len(question) > SHORT_PROMPT) is long
        assert not is_held_out(question)
        if len(answer) < 32:  # the last block
            assert check(question, before + answer)
        later += bool(before)
    assert (later > 10) is long


@pytest.mark.parametrize("form", ["brief", "pair", "joint"])
def test_decision_rows_are_what_the_engine_reads(form: examples.Form) -> None:
    """The prompt and the canvas of a read, with noise at the slots alone; the target has the right labels there."""
    head, tail = prompt_text("@@").split("@@")
    source = DecisionSource(form, 64, seed=2)
    batch = source.draw(8)
    reads = Reads(lambda _: batch, 8, 128, torch.Generator().manual_seed(0))
    for ids, present, target, canvas, slots in zip(
        batch.ids, batch.present, batch.target, reads.canvas, reads.slots, strict=True
    ):
        text = source.tokenizer.decode(ids[present].tolist(), skip_special_tokens=False)
        state, *asked = text.removeprefix(head).removesuffix(tail).split("\n\n")
        assert rules.Known.from_state(state) != rules.Known({}, None, [])
        assert int(slots.sum()) == int(question_ends(ids[None]).sum()) == max(1, len(asked) - 1)
        assert torch.equal(canvas[~slots], target[~slots])
        assert set(source.tokenizer.decode(target[slots].tolist())) <= set("ynABCDE01234")
        assert len(target) == (32 if form == "joint" else 16)
        assert TURN_END in target
    right = torch.nn.functional.one_hot(batch.target, 128).float()
    assert reads.advance(right, retire=0.0) == 1.0
    assert slot_loss(right * 60, batch.target, reads.slots) < 1e-6
    wrong = torch.where(reads.slots[..., None], 0.0, right * 60)
    torch.testing.assert_close(slot_loss(wrong, batch.target, reads.slots), torch.tensor(128.0).log())


def test_a_pool_keeps_its_shape_and_renews_its_slots(puzzles: Path) -> None:
    source = SudokuSource(puzzles, 96, seed=1)
    pool = Pool(source.draw, 5, 128, torch.Generator().manual_seed(0))
    first = pool.target.clone()
    assert not pool.soft.any()
    logits = torch.randn(5, 96, 128, generator=torch.Generator().manual_seed(1))
    assert pool.advance(logits, retire=0.0) == 0.0
    assert torch.equal(pool.target, first)
    assert pool.step.tolist() == [1] * 5
    torch.testing.assert_close(pool.soft.sum(-1), torch.ones(5, 96))
    solved = torch.nn.functional.one_hot(pool.target, 128).float() * 60
    assert pool.advance(solved, retire=0.0) == 1.0  # right and sure: all are renewed
    assert pool.step.tolist() == [0] * 5
    assert not pool.soft.any()
    assert (pool.target != first).any(dim=1).all()


def test_a_step_of_a_pool_is_a_step_of_the_sampler(puzzles: Path) -> None:
    """The draws of ``sampling``, bit for bit, though the pool draws without a wait for the device."""
    pool = Pool(SudokuSource(puzzles, 96, seed=1).draw, 4, 128, torch.Generator().manual_seed(0))
    logits = torch.randn(4, 96, 128, generator=torch.Generator().manual_seed(1)) * 3
    oracle = torch.Generator()
    oracle.set_state(pool.generator.get_state())
    torch.rand(4, generator=oracle)  # which are retired: none
    scaled = logits / pool.settings.temperature(0)
    noise = sampling.uniform_tokens((4, 96), 128, oracle)
    accepted = sampling.accept_mask(sampling.token_entropy(scaled), pool.settings.entropy_bound)
    expected = sampling.renoise(sampling.sample_candidates(scaled, oracle), accepted, noise)
    pool.advance(logits, retire=0.0)
    assert torch.equal(pool.canvas, expected)
    assert torch.equal(pool.soft, torch.softmax(scaled, dim=-1))
    assert torch.equal(pool.generator.get_state(), oracle.get_state())


def tiny(name: str) -> Recipe:
    changes: dict[str, Any] = {"hidden_size": 16, "layers": 2, "batch": 4, "puzzles": 5, "warmup_steps": 2}
    if name == "decisions":
        changes["layers"] = 5  # one that looks up and those behind it, and what the first of them is given
        changes["mix"] = (Feed("brief", 1, 3), Feed("pair", 2, 2), Feed("short", 2, 2))
    return dataclasses.replace(RECIPES[name], steps=4, minutes=0.0, **changes)


@pytest.mark.parametrize("name", ["sudoku", "decisions"])
def test_a_resumed_run_ends_in_the_same_bits(name: str, puzzles: Path, tmp_path: Path) -> None:
    ends = []
    for folder, parts in ((tmp_path / "whole", [4]), (tmp_path / "parts", [2, 4])):
        folder.mkdir()
        (folder / "puzzles.txt").write_text(puzzles.read_text())
        for steps in parts:
            runner = Trainer(tiny(name), folder, seed=3)
            start = {n: p.detach().clone() for n, p in runner.model.named_parameters()}
            while runner.step < steps:
                runner._take_step()
            runner.save()
        assert any(not torch.equal(start[n], p) for n, p in runner.model.named_parameters())
        ends.append(load_file(folder / "state.safetensors"))
    assert ends[0].keys() == ends[1].keys()
    for key, tensor in ends[0].items():
        assert torch.equal(tensor, ends[1][key]), key


def test_the_first_losses_are_as_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes steps in fp32, by code that gave the losses of the models' own training before it."""
    monkeypatch.setattr("small_models.trainer.has_bf16", lambda: False)
    runner = Trainer(dataclasses.replace(tiny("skills"), steps=8), tmp_path, seed=3)
    losses: list[float] = []
    forward = runner.forward

    def noted(*inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loss, logits = forward(*inputs)
        losses.append(loss.item())
        return loss, logits

    runner.forward = noted
    runner.run()
    recorded = [4.455255, 4.708277, 3.738988, 3.868159, 3.305628, 3.780989]
    assert losses[: len(recorded)] == pytest.approx(recorded, abs=2e-3)


def test_a_teacher_says_what_its_own_network_says_and_nothing_of_tokens_that_it_lacks() -> None:
    recipe, folder = RECIPES["mini"], Path("assets/models/safelight-gaps")
    teacher, own = Teacher(recipe, folder), load_model(folder, device="cpu", dtype="float32")
    ids, canvas = tokens(20, 1).view(1, 20), tokens(CANVAS, 2).view(1, CANVAS)
    logits, read, written = teacher.look(ids, torch.ones(1, 20, dtype=torch.bool), canvas, None, through_layer)
    cache = own.network.new_cache()
    own.network.prefill(ids[0], cache)
    torch.testing.assert_close(logits[0, :, :TEXT_TOKENS], own.network.denoise(canvas[0], cache), atol=1e-3, rtol=0)
    assert logits[..., TEXT_TOKENS:].max() < -1e3
    target, far = torch.full((1, CANVAS), EOS), logits.roll(1, dims=1)
    assert surprise_loss(logits, logits, target, None).item() == pytest.approx(0, abs=1e-5)
    assert surprise_loss(far, logits, target, None) > 0.01
    everywhere, away = answer_places(target, torch.ones(1, CANVAS, dtype=torch.bool)), [-one for one in written]
    assert layer_loss(written, written, everywhere) == 0 < layer_loss(written, away, everywhere)
    assert len(read) == len(written) == recipe.layers


def test_what_is_learnt_of_a_teacher_adds_to_the_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("small_models.trainer.has_bf16", lambda: False)
    mix = (Feed("brief", 1, 2, teacher="known"), Feed("short", 1, 2))
    recipe = dataclasses.replace(RECIPES["mini"], mix=mix, steps=1, minutes=0.0)
    losses = []
    for name in ("alone", "taught"):
        (tmp_path / name).mkdir()
        given = {"known": Path("assets/models/safelight-gaps")} if name == "taught" else {}
        runner = Trainer(recipe, tmp_path / name, seed=3, teachers=given)
        losses.append([runner._add_gradients()[f"loss{place}"].item() for place in range(2)])
    (alone, short), (taught, same) = losses
    assert taught > alone + 0.1
    assert same == short


def test_loss_weights_let_short_answers_count() -> None:
    """n answer tokens, the first eos included, weigh 1 / sqrt(n C) each; what follows weighs a quarter of 1 / C."""
    target = torch.tensor([[5, EOS, EOS, EOS], [5, 6, 7, 8], [EOS, EOS, EOS, EOS], [5, 6, 7, EOS]])
    expected = torch.tensor([[8**-0.5, 8**-0.5, 1 / 16, 1 / 16], [0.25] * 4, [0.5, 1 / 16, 1 / 16, 1 / 16], [0.25] * 4])
    torch.testing.assert_close(weights(target), expected)


def test_an_adapter_leaves_its_base_alone(puzzles: Path, tmp_path: Path) -> None:
    (tmp_path / "puzzles.txt").write_text(puzzles.read_text())
    recipe = dataclasses.replace(RECIPES["adapter"], batch=2, puzzles=5, rank=2, steps=2)
    runner = AdapterTrainer(recipe, tmp_path, start=Path("assets/models/safelight-base"))
    before = {name: param.detach().clone() for name, param in runner.model.named_parameters()}
    runner.run()
    after = dict(runner.model.named_parameters())
    assert {name for name in before if not torch.equal(before[name], after[name])} == {
        name for name in before if name.endswith((".up", ".down"))
    }


def test_the_commands_of_the_cards_are_ones() -> None:
    shown = [
        line.partition(" > ")[0].split()[4:]
        for page in (Path(__file__).with_name("README.md"), *Path("assets").glob("*/*/README.md"))
        for line in page.read_text().replace("`", "\n").replace("\\\n", "").splitlines()
        if line.startswith("uv run python packaging/small_models ")
    ]
    assert {arguments[0] for arguments in shown} == {"train", "export", "score", "own-words"}
    for arguments in shown:
        parser().parse_args(arguments)
