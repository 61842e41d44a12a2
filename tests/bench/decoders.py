"""What a pass of a causal network costs by its rows: one of autoregressive decoding against a window's.

``python -m tests.bench.decoders [--seconds 2] [--device cpu]`` prints milliseconds a pass, the fastest of those that
fit the time, on random networks of growing width. 1 row: a token and its successor's logits. 16 rows: masks alone.
32 rows: as many tokens that become text before them. A window of 16 pays from as many tokens a pass on as its passes
cost times an autoregressive one; how many it comes to is the weights' business, and random ones say nothing of it.
The last column is a whole pass of ``causal_parallel``: forward, draw, rule and events. Not a test: times depend on the
machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import pairwise

import torch

from engine import GenerationConfig, StepFinished
from engine.config import LayerConfig
from engine.decoding.causal_parallel import WINDOW, causal_parallel
from engine.decoding.performing import perform_all
from engine.decoding.run import Run
from engine.models.causal.config import CausalConfig
from engine.models.causal.network import CausalNetwork

WIDTHS = (64, 128, 256, 512, 1024)
LAYERS, VOCABULARY, CONTEXT = 6, 4096, 256


def causal_network(width: int, device: torch.device) -> CausalNetwork:
    """A random network in fp32 with heads of 32."""
    layer = LayerConfig("full_attention", 32, max(1, width // 64), 1e6, 1.0)
    config = CausalConfig(
        vocab_size=VOCABULARY, hidden_size=width, intermediate_size=3 * width, num_attention_heads=width // 32,
        layers=(layer,) * LAYERS, sliding_window=1, num_experts=0, top_k_experts=0, moe_intermediate_size=0,
        canvas_length=32, max_position_embeddings=4096, query_key_norm=True, tied=True, mask_token_id=0,
    )  # fmt: skip
    made = CausalNetwork(config).requires_grad_(False).eval().to(device)
    for parameter in made.parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=parameter.shape[-1] ** -0.5)
    return made


def pass_ms(network: CausalNetwork, rows: int, seconds: float) -> float:
    """A pass of 1 row, of a window's masks, or of these behind as many tokens; the text behind it is dropped again."""
    cache, ids = network.new_cache(), torch.randint(VOCABULARY, (CONTEXT,))
    network.prefill(ids, cache)
    cache.reserve(CONTEXT + rows)
    masks = 1 if rows == 1 else WINDOW

    def once() -> None:
        network.decode(ids[:rows], cache, commit=max(1, rows - masks), first_logits=rows - masks)
        cache.truncate(CONTEXT)

    return fastest(once, network.device, seconds)


def fastest(once: Callable[[], None], device: torch.device, seconds: float) -> float:
    """The least milliseconds of what was done again and again, first left out."""
    taken, ends = list[float](), time.perf_counter() + seconds
    while time.perf_counter() < ends or len(taken) < 4:
        began = time.perf_counter()
        once()
        if device.type == "cuda":
            torch.cuda.synchronize()
        taken.append(1000 * (time.perf_counter() - began))
    return min(taken[1:])


def run_ms(network: CausalNetwork, tokens: int = 64) -> float:
    """The fastest pass of a run that writes one token a pass."""
    config = GenerationConfig(entropy_threshold=0.0, max_new_tokens=tokens, eos_token_ids=())
    prompt = torch.randint(VOCABULARY, (CONTEXT,))
    steps = list[float]()
    for event in perform_all(network, causal_parallel(Run(network, prompt, config, 0, None, network.new_cache()))):  # type: ignore[arg-type]
        if isinstance(event, StepFinished):
            steps.append(time.perf_counter())
    return min(1000 * (later - earlier) for earlier, later in pairwise(steps))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="that a figure takes")
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    rows = (1, WINDOW, 2 * WINDOW)
    print(
        f"{'width':>6}{'weights':>10}" + "".join(f"{f'M = {count}':>10}{'':>8}" for count in rows) + f"{'in a run':>10}"
    )
    for width in WIDTHS:
        network = causal_network(width, torch.device(asked.device))
        weights = sum(parameter.numel() for parameter in network.parameters())
        found = [pass_ms(network, count, asked.seconds) for count in rows]
        told = "".join(f"{each:>10.2f}{f'× {each / found[0]:.2f}':>8}" for each in found)
        print(f"{width:>6}{weights / 1e6:>8.1f} M{told}{run_ms(network):>10.2f}", flush=True)


if __name__ == "__main__":
    main()
