"""Takes denoising steps in plain torch; the oracle of the device's stepper."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.decoding import sampling
from engine.decoding.prefill import commit
from engine.decoding.protocols import Denoise, Passes
from engine.decoding.sampler import Edits, Sampler, as_tensors, to_host
from engine.decoding.stepper import Step
from engine.forks import Shares
from engine.layers.kv_cache import KVCache


class PlainStepper:
    commits_with_step = False

    def __init__(self, dtype: torch.dtype, cache: KVCache, sampler: Sampler) -> None:
        self.dtype, self.cache, self.sampler = dtype, cache, sampler  # the model's number type

    def commit(self, ids: Tensor) -> Passes[None]:
        return commit(ids, self.cache)

    def begin(self, block: int, canvas: Tensor) -> Passes[None]:
        yield from ()  # no pass before the first step
        self.block, self.canvas = block, canvas
        self.conditioning: Tensor | None = None
        self.history: list[Tensor] = []

    def step(self, index: int, ahead: bool = True) -> Passes[Step]:  # noqa: ARG002
        sampler = self.sampler
        wanted = Denoise(self.canvas, self.cache, self.conditioning)
        yield wanted
        logits = sampler.scale(wanted.take(), sampler.config.temperature(index), self.block, index)
        candidates, entropy, accepted, self.canvas = sampler.step(logits)
        argmax = logits.argmax(dim=-1)
        self.history.append(argmax)  # all of it: a change may ask for more stable steps than before
        self.conditioning = logits.to(self.dtype)  # as the reference does: in bf16 it is fed back rounded
        return Step(
            to_host(argmax),
            to_host(candidates),
            entropy.float().cpu().numpy(),
            accepted.cpu().numpy(),
            to_host(self.canvas),
            bool(sampler.stop(self.history, entropy)),
            sampler.top(logits),
        )

    def predict(self, canvas: Tensor, position: int) -> Passes[Tensor]:
        wanted = Denoise(canvas, self.cache, None)
        yield wanted
        return wanted.take()[position].clone()

    def seed(self, seed: int) -> None:
        self.sampler.generator.manual_seed(seed)

    def skip_canvas(self) -> None:
        self.sampler.noise()

    def skip_step(self) -> None:
        self.sampler.skip_step()

    def adopt(self, sampler: Sampler) -> None:
        self.sampler = sampler

    def change(self, sampler: Sampler, edits: Edits, mixed: Shares = ()) -> None:
        if mixed and self.conditioning is not None:
            fed = self.conditioning.float()  # rounding it would change the shares
            positions, tokens, shares = as_tensors(mixed, fed.device)
            self.conditioning = fed.index_put((positions,), sampling.with_shares(fed[positions], tokens, shares))
        self.sampler = sampler
        self.canvas = sampler.amended(self.canvas, self.block, edits)
