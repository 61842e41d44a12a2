"""How tokens are drawn where text is written a few tokens at a time, and what is told of each prediction."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoding.sampling import token_entropy
from engine.decoding.written_blocks import Predicted
from engine.errors import SafelightError
from engine.types import Tokens


class Drawing:
    """Draws tokens by a run's settings, with a generator of its own.

    The likeliest at temperature 0; else from the ``sampling_top_k`` likeliest, of those the fewest that come to
    ``sampling_top_p`` (both before the temperature), at the temperature.

    Raises:
        SafelightError: a token that is allowed or banned is outside the vocabulary, or none is left.
    """

    def __init__(self, config: GenerationConfig, vocab_size: int, device: torch.device, seed: int) -> None:
        self.config = config
        self.generator = torch.Generator(device).manual_seed(seed)
        self.forbidden: Tensor | None = None
        for name, ids in (("allowed_tokens", config.allowed_tokens or ()), ("banned_tokens", config.banned_tokens)):
            if ids and max(ids) >= vocab_size:
                raise SafelightError(f"{name} has token id {max(ids)}; the vocabulary has {vocab_size} tokens")
        if config.banned_tokens or config.allowed_tokens is not None:
            forbidden = torch.full((vocab_size,), config.allowed_tokens is not None, device=device)
            forbidden[list(config.allowed_tokens or ())] = False
            forbidden[list(config.banned_tokens)] = True
            if bool(forbidden.all()):
                raise SafelightError("every token is banned; leave at least one")
            self.forbidden = forbidden

    def allowed(self, logits: Tensor) -> Tensor:
        """Logits (R, V) with those of forbidden tokens at minus infinity.

        Raises:
            SafelightError: one is not finite.
        """
        if not bool(torch.isfinite(logits).all()):
            raise SafelightError("the model gave numbers that are not finite; its files may be damaged")
        return logits if self.forbidden is None else logits.masked_fill(self.forbidden, -torch.inf)

    def draw(self, logits: Tensor) -> Tensor:
        """One token a row: (R, V) -> (R,)."""
        config = self.config
        if config.sampling_temperature == 0.0:
            return logits.argmax(dim=-1)
        if 0 < config.sampling_top_k < logits.shape[-1]:
            least = logits.topk(config.sampling_top_k, dim=-1).values[:, -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        if config.sampling_top_p < 1.0:
            ordered, places = logits.sort(dim=-1, descending=True)
            shares = ordered.softmax(dim=-1)
            beyond = shares.cumsum(dim=-1) - shares >= config.sampling_top_p  # the likeliest always stays
            logits = logits.masked_fill(torch.zeros_like(beyond).scatter(-1, places, beyond), -torch.inf)
        shares = torch.softmax(logits / config.sampling_temperature, dim=-1, dtype=torch.float32)
        return torch.multinomial(shares, 1, generator=self.generator)[:, 0]

    def predicted(self, logits: Tensor, drawn: Tensor) -> list[Predicted]:
        """What is told of each row, of the distribution as the model gave it: (R, V) and (R,) -> R."""
        entropy, count = token_entropy(logits).tolist(), self.config.top_k
        argmax, tokens = logits.argmax(dim=-1).tolist(), drawn.tolist()
        if not count:
            return [Predicted(*found) for found in zip(argmax, tokens, entropy, strict=True)]
        top = logits.softmax(dim=-1).topk(min(count, logits.shape[-1]), dim=-1)
        ids, shares = _host(top.indices), top.values.float().cpu().numpy()
        return [
            Predicted(best, token, nats, ids[row], shares[row])
            for row, (best, token, nats) in enumerate(zip(argmax, tokens, entropy, strict=True))
        ]


def _host(ids: Tensor) -> Tokens:
    return ids.to("cpu", torch.int32).numpy()
