"""Perplexity of a model on a text, in each precision: what packing costs in quality.

``python -m tests.bench.perplexity FOLDER TEXT [--bytes 20000] [--window 1024] [--quantizations none int8 int4]``.
The text is read as it is, without a chat template, in windows side by side, each behind the tokens that begin any text
of the model (BOS); the first token of each is not scored. For models that write token by token.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import torch

from engine import Model, load_model


def perplexity(model: Model, ids: list[int], window: int) -> tuple[float, int]:
    """The exponential of the mean negative log-likelihood of token ids (T,), and how many of them were scored."""
    total, scored, before = 0.0, 0, model.tokenizer.before
    parts = [[*before, *ids[start : start + window]] for start in range(0, len(ids), window)]
    for part in parts:
        logits = model.decode(part, model.new_cache(), len(part))
        total -= float(logits[:-1].log_softmax(-1).gather(1, torch.tensor(part[1:])[:, None]).sum())
        scored += len(part) - 1
    return math.exp(total / scored), scored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--bytes", type=int, default=20_000)
    parser.add_argument("--window", type=int, default=1024, help="tokens")
    parser.add_argument("--quantizations", nargs="+", default=["none", "int8", "int4", "int4-g64", "nf4"])
    options = parser.parse_args()
    text = options.text.read_bytes()[: options.bytes].decode("utf-8", "ignore")
    for name in options.quantizations:
        model = load_model(options.model, device="cpu", dtype="float32", quantization=name)
        value, scored = perplexity(model, model.tokenizer.encode(text), options.window)
        print(json.dumps({"quantization": name, "perplexity": round(value, 3), "tokens": scored}), flush=True)


if __name__ == "__main__":
    main()
