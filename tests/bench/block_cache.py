"""What a block cache saves in passes of LLaDA's shape: ``python -m tests.bench.block_cache [--layers N]``.

A few layers of LLaDA 8B with random weights answer a random prompt without a cache and with each; they take turns.
Rows are those that go through the layers. Quality is not measured here, as the weights are random.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from typing import Any

import torch

from engine import GenerationConfig
from engine.catalog import shape
from engine.decoding.generate import DECODERS
from engine.decoding.performing import perform_all
from engine.decoding.run import Run
from engine.files import read_json
from engine.models.causal.network import CausalNetwork
from engine.models.registry import family_of

OPTIONS = ("", "prefix", "dual")


class Counted(CausalNetwork):
    """Counts the rows that it reads."""

    rows = 0

    def decode(self, ids: torch.Tensor, *rest: Any, **options: Any) -> torch.Tensor:
        self.rows += len(ids)
        return super().decode(ids, *rest, **options)


def network(layers: int) -> Counted:
    raw: dict[str, Any] = read_json(shape("llada-8b").folder / "config.json")
    config: Any = family_of(raw).read_config(raw)
    torch.set_default_dtype(torch.bfloat16)
    made = Counted(dataclasses.replace(config, layers=config.layers[:layers], vocab_size=4096, mask_token_id=4095))
    torch.set_default_dtype(torch.float32)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    return made.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512, help="tokens")
    parser.add_argument("--tokens", type=int, default=64, help="to write, in blocks of 32, one a pass")
    parser.add_argument("--times", type=int, default=3)
    args = parser.parse_args()
    model = network(args.layers)
    prompt = torch.randint(4000, (args.prompt,), generator=torch.Generator().manual_seed(0))
    plain = GenerationConfig(
        max_new_tokens=args.tokens, canvas_length=32, max_denoising_steps=32, remasking="low_confidence_static"
    )
    seconds, rows = {option: list[float]() for option in OPTIONS}, dict.fromkeys(OPTIONS, 0)
    for _ in range(args.times):
        for option in OPTIONS:
            before, clock = model.rows, time.perf_counter()
            run = Run(model, prompt, plain.replace(block_cache=option), 0, None, model.new_cache())  # type: ignore[arg-type]
            for _event in perform_all(model, DECODERS["bidirectional"](run)):  # type: ignore[arg-type]
                pass
            seconds[option].append(time.perf_counter() - clock)
            rows[option] = model.rows - before
    threads = torch.get_num_threads()
    print(f"{args.layers} layers, {args.prompt} tokens of prompt, {args.tokens} written, {threads} threads")
    for option in OPTIONS:
        middle = statistics.median(seconds[option])
        gain = statistics.median(seconds[""]) / middle
        print(f"{option or 'none':8} {rows[option]:8} rows  {middle:8.2f} s  {gain:.2f}x")


if __name__ == "__main__":
    main()
