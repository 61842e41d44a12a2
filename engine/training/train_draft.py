"""Trains a draft on text that the model writes itself: ``python -m engine.training.train_draft --out runs/draft``.

First the model answers prompts made here, a file for each batch; then its draft is trained, with a checkpoint every ten
steps; at the end the averaged draft is written to the run's folder ``draft``. A stopped run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch

from engine.adapters.draft import read_branch_draft
from engine.catalog import TALK
from engine.errors import SafelightError
from engine.models.causal.network import CausalNetwork
from engine.models.model import load_model
from engine.training.data.own_text import read_texts, write_texts
from engine.training.own_draft import OwnDraftRecipe, OwnDraftTrainer

LEAST_TOKENS = 16  # of an answer that is learnt from
UNUSED_TOKEN = 16  # of SmolLM2's vocabulary: "<empty_output>", which its chats never contain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=TALK.id, help="a model that writes token by token")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="folder of a draft of the same model to begin with")
    parser.add_argument("--mask", type=int, default=UNUSED_TOKEN, help="id of a token that no text contains")
    parser.add_argument("--batches", type=int, default=7, help="of 128 answers each")
    parser.add_argument("--steps", type=int, default=640)
    parser.add_argument("--rate", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    model = load_model(options.model, dtype="bfloat16", quantization="none", threads=options.threads)
    if not isinstance(model.network, CausalNetwork):
        raise SafelightError(f"{options.model} does not write token by token; choose another model")
    for done in write_texts(model, options.out / "texts", options.batches, 128, 256, options.seed):
        print(json.dumps({"batches": done, "of": options.batches}), flush=True)
    texts = [text for text in read_texts(options.out / "texts") if len(text.ids) - text.prompt >= LEAST_TOKENS]
    recipe = OwnDraftRecipe(options.mask, options.steps, rate=options.rate)
    start = None
    if options.start is not None:
        start = read_branch_draft(
            options.start, model.network, model.family.targets, model.device, torch.float32, 2**30
        )
    trainer = OwnDraftTrainer(model, texts, recipe, options.out, start=start)
    for record in trainer.run(save_every=10):
        print(json.dumps(record), flush=True)
    trainer.export(options.out / "draft", model)


if __name__ == "__main__":
    main()
