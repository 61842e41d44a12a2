"""Small causal models: the packed losses equal a slow plain version, runs resume, exports are what is published."""

from __future__ import annotations

import dataclasses
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F
from transformers import Qwen3Config, Qwen3ForCausalLM

from engine.adapters.config import LoraConfig
from engine.errors import SafelightError
from engine.files import read_json
from engine.models.causal.network import CausalNetwork
from small_models.causal_recipes import CAUSAL_RECIPES, MASK, CausalRecipe
from small_models.causal_trainer import CausalTrainer
from small_models.checkpointing import read_state
from small_models.export import export_causal
from small_models.loop import initialise_matrices
from small_models.text_loss import read_rows, right_texts, text_loss
from small_models.text_rows import NOISE, TAIL, NoisedBlock, arrange, draw_blocks, pack
from small_models.text_source import TextSource
from small_models.tokenizer import EOS

OBJECTIVES = sorted(CAUSAL_RECIPES)
SIZES: dict[str, Any] = {"hidden_size": 32, "layers": 2, "intermediate_size": 32, "batch": 3, "warmup_steps": 1}


def tiny(objective: str, **changes: Any) -> CausalRecipe:
    return dataclasses.replace(CAUSAL_RECIPES[objective], **(SIZES | {"steps": 4, "rank": 2} | changes))


def fresh(objective: str) -> CausalNetwork:
    network = CausalNetwork(tiny(objective).model_config())
    initialise_matrices(network, torch.Generator().manual_seed(1))
    return network


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_blocks_are_noised_as_their_objective_says(objective: str) -> None:
    noise, rng, begun, shares = NOISE[objective], random.Random(5), 0, set()
    for _ in range(300):
        length, size, most = rng.randint(1, 60), rng.choice((8, 16)), rng.choice((16, 48, 96))
        blocks = draw_blocks(rng, length, size, most, noise)
        begun += blocks[0].first == 0
        assert 0 < sum(block.size for block in blocks) <= most
        assert all(after.first - before.first == size for before, after in pairwise(blocks))
        for block in blocks:
            assert block.first < length
            assert block.size == size
            known = set(range(block.first, block.first + size)) - set(block.masked)
            assert len(known) == size - len(block.masked) < size
            assert (block.first in known) >= noise.known_first
            assert not noise.whole or len(known) == 1
            shares.add(len(block.masked) / size)
    assert 100 < begun < 200
    assert noise.whole or len(shares) > 12


def plain(
    network: CausalNetwork, objective: str, examples: list[tuple[list[int], list[int], list[NoisedBlock]]]
) -> tuple[Tensor, Tensor]:
    """Both losses: each clean text and each block in a pass of its own, with nothing else in it."""
    sums, totals = [torch.zeros(()), torch.zeros(())], [0.0, 0.0]
    for prompt, answer, blocks in examples:
        text, share = [*prompt, *answer], len(answer) ** -0.5
        logits = passed(network, text, list(range(len(text))), len(text))
        for offset, token in enumerate(answer):
            sums[0] = sums[0] + share * surprise(logits[len(prompt) + offset - 1], token)
            totals[0] += share
        for first, size, masked in blocks:
            known = [place for place in range(first, first + size) if place not in masked]
            order = known + list(masked) if objective == "wedlm" else list(range(first, first + size))
            filled = answer + [EOS] * (first + size - len(answer))
            before = [*prompt, *answer[:first]]
            own = [MASK if place in masked else filled[place] for place in order]
            places = list(range(len(before))) + [len(prompt) + place for place in order]
            logits = passed(network, before + own, places, len(before) + (size if objective == "wedlm" else 0))
            for row, place in enumerate(order):
                if place in masked:
                    weight = share / (len(masked) / size) * (1.0 if place < len(answer) else TAIL)
                    sums[1] = sums[1] + weight * surprise(logits[len(before) + row], filled[place])
                    totals[1] += weight
    return sums[0] / totals[0], sums[1] / totals[1]


def passed(network: CausalNetwork, ids: list[int], places: list[int], causal: int) -> Tensor:
    """Logits of one sequence: the first rows causally, the others seeing everything."""
    mask = torch.ones(len(ids), len(ids), dtype=torch.bool)
    mask[:causal] = mask[:causal].tril()
    return network.head(network.run(torch.tensor([ids]), torch.tensor(places), mask))[0]


def surprise(logits: Tensor, token: int) -> Tensor:
    return F.cross_entropy(logits[None], torch.tensor([token]))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_packed_losses_and_gradients_equal_a_slow_plain_version(objective: str) -> None:
    rng, noise, examples = random.Random(3), NOISE[objective], []
    for length in (1, 9, 22, 4):
        prompt = [rng.randrange(9, 128) for _ in range(rng.randint(3, 9))]
        answer = [*(rng.randrange(9, 128) for _ in range(length - 1)), EOS]
        examples.append((prompt, answer, draw_blocks(rng, length, 8, 24, noise)))
    rows = pack([arrange(*example, noise, MASK) for example in examples], 2, 80)
    assert rows.whole("text").max() > 1  # two in a row
    assert (rows.field("text")[:, -1] == 0).any()  # and padding behind them
    networks = fresh(objective), fresh(objective)
    fast = text_loss(read_rows(networks[0], rows, is_causal=objective == "wedlm"), rows)
    slow = plain(networks[1], objective, examples)
    for losses in (fast, slow):
        (losses[0] + losses[1]).backward()
    torch.testing.assert_close(torch.stack(list(fast)), torch.stack(slow), atol=1e-5, rtol=0)
    for (name, param), other in zip(networks[0].named_parameters(), networks[1].parameters(), strict=True):
        torch.testing.assert_close(param.grad, other.grad, atol=1e-5, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


def test_a_text_is_right_where_greedy_decoding_writes_it() -> None:
    """Looks at the second text of a row, too; one whose last token is another is wrong."""
    network = fresh("masked")
    tables = []
    for seed, changed in ((1, False), (2, True), (3, False)):
        prompt = torch.randint(9, 128, (5,), generator=torch.Generator().manual_seed(seed))
        cache, answer = network.new_cache(), []
        network.prefill(prompt[:-1], cache)
        token = prompt[-1:]
        for _ in range(4):
            token = network.decode(token, cache, commit=1).argmax(dim=-1)
            answer.append(int(token))
        if changed:
            answer[-1] = (answer[-1] + 1) % 128
        tables.append(arrange(prompt.tolist(), answer, [], NOISE["masked"], MASK))
    rows = pack(tables, 2, 20)
    with torch.no_grad():
        right, there = right_texts(read_rows(network, rows, is_causal=True), rows, 3)
    assert there.tolist() == [[True, True, False], [True, False, False]]
    assert right.tolist() == [[True, False, False], [True, False, False]]


@pytest.fixture(scope="module")
def masked_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("masked")
    CausalTrainer(tiny("masked", steps=1), folder).run()
    return folder


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_resumed_run_ends_in_the_same_bits(objective: str, masked_run: Path, tmp_path: Path) -> None:
    start, ends = masked_run if objective == "draft" else None, []
    for folder, parts in ((tmp_path / "whole", [3]), (tmp_path / "parts", [1, 3])):
        for steps in parts:
            runner = CausalTrainer(tiny(objective), folder, seed=3, start=start)
            began = {name: param.detach().clone() for name, param in runner.named.items()}
            while runner.step < steps:
                runner._take_step()
            runner.save()
        assert all(not torch.equal(began[name], param) for name, param in runner.named.items())
        ends.append(load_file(folder / "state.safetensors"))
    assert ends[0].keys() == ends[1].keys()
    for key, tensor in ends[0].items():
        assert torch.equal(tensor, ends[1][key]), key
    if objective == "draft":  # what it was trained on stays as it was
        before = read_state(masked_run)[0]
        assert torch.equal(ends[0]["base.layers.1.mlp.up_proj.weight"], before["average.layers.1.mlp.up_proj.weight"])


def test_a_draft_needs_a_masked_run(tmp_path: Path) -> None:
    with pytest.raises(SafelightError, match="--start"):
        CausalTrainer(tiny("draft"), tmp_path / "new")
    with pytest.raises(SafelightError, match="holds no run"):
        CausalTrainer(tiny("draft"), tmp_path / "new", start=tmp_path)
    assert not (tmp_path / "new").exists()


def test_a_masked_model_begins_with_what_a_wedlm_has_learnt(tmp_path: Path) -> None:
    """Norms of queries and keys become factors of their matrices; with others the text would be further off."""
    network = fresh("wedlm")
    for name, param in network.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            torch.nn.init.uniform_(param, 0.5, 1.5, generator=torch.Generator().manual_seed(2))
    export_causal({f"average.{name}": param for name, param in network.named_parameters()}, tiny("wedlm"), tmp_path)
    started = CausalTrainer(tiny("masked"), tmp_path / "run", start=tmp_path).network
    rows = TextSource(tiny("wedlm"), seed=4).draw(2)

    def distance(other: CausalNetwork) -> float:
        with torch.no_grad():
            ours, theirs = (read_rows(each, rows, is_causal=True) for each in (other, network))
        return ((ours - theirs).norm() / theirs.norm()).item()

    near = distance(started)
    assert near < 0.3
    for layer in started.layers:
        layer.self_attn.q_proj.weight.data *= 2
    assert distance(started) > 1.5 * near
    with pytest.raises(SafelightError, match="--start"):
        CausalTrainer(tiny("draft"), tmp_path / "draft", start=tmp_path)


def test_a_wedlm_is_exported_as_a_qwen3(tmp_path: Path) -> None:
    network = fresh("wedlm")
    average = {f"average.{name}": param for name, param in network.named_parameters()}
    export_causal(average, tiny("wedlm"), tmp_path)
    raw = read_json(tmp_path / "config.json")
    assert (raw["model_type"], raw["mask_token_id"], raw["block_size"]) == ("wedlm", MASK, 16)
    known = {key: value for key, value in raw.items() if key not in ("model_type", "architectures", "dtype")}
    theirs = Qwen3ForCausalLM(Qwen3Config(**known)).eval()
    tensors = load_file(tmp_path / "model.safetensors")
    missing, unexpected = theirs.load_state_dict({k: v.float() for k, v in tensors.items()}, strict=False)
    assert (missing, unexpected) == (["lm_head.weight"], [])  # tied
    ids = torch.randint(128, (1, 12), generator=torch.Generator().manual_seed(0))
    rounded = CausalNetwork(tiny("wedlm").model_config())
    rounded.load_state_dict({name.removeprefix("model."): tensor.float() for name, tensor in tensors.items()})
    ours = rounded.head(rounded.run(ids, torch.arange(12), torch.ones(12, 12, dtype=torch.bool).tril()))
    torch.testing.assert_close(ours, theirs(ids).logits, atol=2e-4, rtol=0)


def test_a_draft_is_exported_next_to_its_model(masked_run: Path, tmp_path: Path) -> None:
    CausalTrainer(tiny("draft", steps=1), tmp_path / "draft", start=masked_run).run()
    export_causal(read_state(tmp_path / "draft")[0], tiny("draft"), tmp_path / "out")
    raw = read_json(tmp_path / "out" / "config.json")
    assert (raw["model_type"], raw["mask_token_id"], raw["block_size"]) == ("nemotron_labs_diffusion", MASK, 16)
    names = {"encoder." + name for name in fresh("masked").state_dict()}
    assert load_file(tmp_path / "out" / "model.safetensors").keys() == names
    lora = LoraConfig.read(tmp_path / "out" / "linear_spec_lora")
    assert (lora.rank, lora.alpha) == (2, 8.0)
    drafts = load_file(tmp_path / "out" / "linear_spec_lora" / "adapter_model.safetensors")
    place = "base_model.model.encoder.layers.{}.self_attn.o_proj.lora_{}.weight"
    assert drafts.keys() == {place.format(layer, letter) for layer in range(2) for letter in "AB"}
    assert drafts[place.format(0, "A")].any()
