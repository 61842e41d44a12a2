"""Draws tokens where text is written a few tokens at a time, and describes each prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoding.run import Run, allowed_next, take_chosen, take_forced
from engine.decoding.sampler import forbidden_of, to_host
from engine.decoding.sampling import TRANSFORMERS, SamplingOrder, probabilities_of, token_entropy
from engine.decoding.thoughts import ThoughtBudget
from engine.decoding.written_blocks import Predicted
from engine.errors import SafelightError
from engine.layers.embedding import LOGITS_AT_ONCE

if TYPE_CHECKING:
    from engine.text.formatted_answer import FormattedAnswer


def pieces(logits: Tensor) -> tuple[Tensor, ...]:
    """Splits logits (R, V) by rows, so that what is made of a piece takes little memory."""
    return torch.split(logits, max(1, LOGITS_AT_ONCE // logits.shape[-1]))


class TokenSampler:
    """Draws tokens by a run's settings, with its own generator.

    At temperature 0 the likeliest token, else one from ``probabilities_of``. Before that the repetition penalty makes
    tokens that were passed to ``see`` less likely, as transformers' ``RepetitionPenaltyLogitsProcessor`` does.

    Args:
        order: of temperature and cuts.
        prompt: tokens that it has seen.

    Raises:
        SafelightError: a banned token is outside the vocabulary, or none is left.
    """

    def __init__(
        self,
        config: GenerationConfig,
        vocab_size: int,
        device: torch.device,
        seed: int,
        order: SamplingOrder = TRANSFORMERS,
        prompt: Sequence[int] = (),
    ) -> None:
        self.order, self.vocab_size, self.device = order, vocab_size, device
        self.generator = torch.Generator(device).manual_seed(seed)
        self.config, self._seen = config, torch.zeros(vocab_size, dtype=torch.bool, device=device)
        self.see(prompt)
        self.change(config)

    def change(self, config: GenerationConfig) -> None:
        """Takes other settings for the draws to come.

        Raises:
            SafelightError: a banned token is outside the vocabulary, or none is left.
        """
        self.config, self.forbidden = config, forbidden_of(config.banned_tokens, self.vocab_size, self.device)

    @staticmethod
    def from_run(run: Run, order: SamplingOrder = TRANSFORMERS) -> TokenSampler:
        """Returns a sampler that has seen the run's prompt."""
        vocab_size, device = run.model.config.vocab_size, run.model.device
        return TokenSampler(run.config, vocab_size, device, run.seed, order, run.prompt.tolist())

    def see_anew(self, tokens: Sequence[int]) -> None:
        """Counts these tokens alone as the prompt and the text."""
        self._seen.zero_()
        self.see(tokens)

    def see(self, tokens: Sequence[int]) -> None:
        """Counts tokens as part of the prompt or the text, for the repetition penalty."""
        if self.config.repetition_penalty != 1.0:
            self._seen[list(tokens)] = True

    def allowed(self, logits: Tensor, read: Sequence[int] = ()) -> Tensor:
        """Returns logits (R, V) with the repetition penalty, and those of forbidden tokens at minus infinity.

        Args:
            read: the tokens of the R rows, if they were read causally and not all were seen: a row has seen those up to
                its own.

        Raises:
            SafelightError: a logit is not finite.
        """
        if not all(bool(torch.isfinite(some).all()) for some in pieces(logits)):
            raise SafelightError("the model gave numbers that are not finite; its files may be damaged")
        if self.config.repetition_penalty != 1.0:
            penalised, first = torch.empty_like(logits), 0
            for some in pieces(logits):
                penalised[first : first + len(some)] = self._penalised(some, read, first)
                first += len(some)
            logits = penalised
        return logits if self.forbidden is None else logits.masked_fill(self.forbidden, -torch.inf)

    def _penalised(self, logits: Tensor, read: Sequence[int], first: int) -> Tensor:
        """Returns logits (R, V) with the penalty; they are those of rows from ``first`` on."""
        seen, penalty = self._seen.repeat(len(logits), 1), self.config.repetition_penalty
        for row, token in enumerate(read):
            seen[max(0, row - first) :, token] = True
        return torch.where(seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)

    def shares(self, logits: Tensor) -> Tensor:
        """Returns the probabilities (R, V) that ``draw`` uses, from logits of ``allowed``."""
        return probabilities_of(logits, self.config, self.order)

    def draw(self, logits: Tensor, shares: Tensor | None = None) -> Tensor:
        """Draws one token a row: (R, V) -> (R,). ``shares`` are those of the logits, if they are known."""
        if self.config.sampling_temperature == 0.0:
            return logits.argmax(dim=-1)
        shares = self.shares(logits) if shares is None else shares
        return torch.multinomial(shares, 1, generator=self.generator)[:, 0]

    def weighed(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Draws as ``draw``; also returns the probabilities (R, V) of tokens, those of the logits at temperature 0."""
        shares = logits.softmax(dim=-1) if self.config.sampling_temperature == 0.0 else self.shares(logits)
        return self.draw(logits, shares), shares

    def fitting(self, answer: FormattedAnswer, logits: Tensor, room: int, budget: ThoughtBudget) -> Tensor:
        """Returns the answer's next tokens (R,): forced ones, or an allowed one by logits (1, V) and those forced then.

        At most ``room`` tokens; none where the answer has failed.

        Args:
            budget: of a thought before the answer.

        Raises:
            SafelightError: the answer cannot go on in its format.
        """
        chosen = take_forced(answer, room)
        if not chosen and not answer.failure:
            if not answer.is_free:
                ends = self.config.pad_token_id, *self.config.eos_token_ids
                mask = allowed_next(answer, self.forbidden, int(logits.argmax()), ends)
                logits = logits.masked_fill(torch.from_numpy(~mask).to(logits.device), -torch.inf)
            if not answer.failure:
                is_due = answer.is_free and budget.is_due
                chosen = take_chosen(answer, budget.end if is_due else int(self.draw(logits)))
                chosen += take_forced(answer, room - len(chosen))
        return torch.tensor(chosen, dtype=torch.long, device=logits.device)

    def predicted(self, logits: Tensor, drawn: Tensor) -> list[Predicted]:
        """Returns R predictions, from logits (R, V) of ``allowed`` and the drawn tokens (R,)."""
        parts = pieces(logits)
        tokens = torch.split(drawn, [len(some) for some in parts])
        return [prediction for part in zip(parts, tokens, strict=True) for prediction in self._predicted(*part)]

    def _predicted(self, logits: Tensor, drawn: Tensor) -> list[Predicted]:
        entropy, count = token_entropy(logits).tolist(), self.config.top_k
        argmax, tokens = logits.argmax(dim=-1).tolist(), drawn.tolist()
        if not count:
            return [Predicted(*values) for values in zip(argmax, tokens, entropy, strict=True)]
        top = logits.softmax(dim=-1).topk(min(count, logits.shape[-1]), dim=-1)
        ids, shares = to_host(top.indices), top.values.float().cpu().numpy()
        return [
            Predicted(best, token, nats, ids[row], shares[row])
            for row, (best, token, nats) in enumerate(zip(argmax, tokens, entropy, strict=True))
        ]
