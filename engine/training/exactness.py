"""Counts the held-out answers that a causal model's run gets right: ``python -m engine.training.exactness RUN``.

Answers are not generated. Greedy autoregressive decoding writes an answer exactly if each of its tokens is the most
probable one after those before it, and one pass computes that. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch

from engine.errors import SafelightError
from engine.models.causal.network import CausalNetwork
from engine.tasks import skills
from engine.training.causal_start import averaged, network_of
from engine.training.checkpointing import read_state
from engine.training.data.text_rows import TextRows, pack
from engine.training.data.text_source import TextSource, held_out
from engine.training.recipes.causal import CAUSAL_RECIPES, CausalRecipe
from engine.training.text_loss import read_rows, right_texts


@torch.no_grad()
def exactness(network: CausalNetwork, recipe: CausalRecipe, seed: int = 0, count: int = 32) -> dict[str, float]:
    """Returns the share of right answers, from 0 to 1, by skill."""
    source, found = TextSource(recipe, seed), {}
    for name in skills.SKILLS:
        tables = source.noised(held_out(seed, name, count))
        rows = TextRows(pack(tables, count, recipe.row_length).table.to(network.device))
        right, there = right_texts(read_rows(network, rows, is_causal=True), rows, count)
        assert int(there.sum()) == count
        found[name] = right.sum().item() / count
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a run of wedlm or masked")
    parser.add_argument("--count", type=int, default=32, help="answers of each skill")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    try:
        recipe = CAUSAL_RECIPES["wedlm" if (facts := read_state(args.run)[1])["recipe"] == "wedlm" else "masked"]
        if CAUSAL_RECIPES[facts["recipe"]].is_whole:
            raise SafelightError("this model does not read causally; export it and let it answer")
        network = network_of(averaged(args.run, recipe)[0], recipe, args.run)
        found = exactness(network, recipe, args.seed, args.count)
    except SafelightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    mean = sum(found.values()) / len(found)
    print(json.dumps({"recipe": facts["recipe"], "step": int(facts["step"]), "mean": round(mean, 4)} | found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
