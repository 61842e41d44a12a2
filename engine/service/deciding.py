"""The parts of a loaded model that decisions need: its labels, its canvas, the prompt, and the settings of a read."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from engine.config import GenerationConfig
from engine.decoders import BLOCK_DIFFUSION
from engine.errors import SafelightError
from engine.pictures import Picture
from engine.tasks.decisions.layout import WIDTH, CanvasTokens, Layout, layout_of
from engine.tasks.decisions.questions import Decision
from engine.tasks.decisions.wording import Encode, Labels, user_text
from engine.text.message import Message, message_of

TURN_END = "<turn|>"
NO_INSTRUCTIONS = "this model reads no system message; put the instructions into the state or the questions"
MASKED_CANVAS = 256  # tokens of a canvas of masks; models that write over them were trained with any number
MOST_KEPT = 1_024  # short texts whose tokens are in memory


@dataclass(frozen=True)
class Deciding:
    """The labels and canvas tokens of decisions in a model's tokenizer."""

    labels: Labels
    tokens: CanvasTokens

    @staticmethod
    def from_tokenizer(encode: Encode, defaults: GenerationConfig, canvas_length: int) -> Deciding:
        """Returns the labels and canvas tokens of a model.

        Raises:
            SafelightError: it has no single tokens for yes and no, no token that ends a turn, or too short a canvas.
        """
        if canvas_length < WIDTH:
            raise SafelightError(f"this model's canvas has {canvas_length} tokens; decisions take {WIDTH}")
        if not defaults.eos_token_ids:
            raise SafelightError("this model has no token that ends a turn; it cannot decide")
        turn = list(encode(TURN_END))
        is_end = len(turn) == 1 and turn[0] in defaults.eos_token_ids
        end = turn[0] if is_end else defaults.eos_token_ids[0]
        kept = functools.lru_cache(MOST_KEPT)(lambda text: tuple(encode(text)))  # labels and numbers come again
        return Deciding(Labels.from_tokenizer(kept), CanvasTokens(kept, end, defaults.pad_token_id, canvas_length))

    def layout(self, decision: Decision) -> Layout:
        return layout_of(decision, self.labels, self.tokens)

    def messages(self, decision: Decision, pictures: Sequence[Picture] = ()) -> tuple[Message, ...]:
        """Returns the messages that the model reads; pictures stand before the text."""
        system = ({"role": "system", "content": decision.instructions},) if decision.instructions else ()
        return (*system, message_of(user_text(decision, self.labels), pictures))


def canvas_of(canvas_length: int, decoder: str) -> int:
    """Returns the most tokens that a decision's canvas may have, in a model by its canvas and default decoder."""
    return canvas_length if decoder in ("", BLOCK_DIFFUSION) else MASKED_CANVAS


def reading_config(config: GenerationConfig, width: int, decoder: str) -> GenerationConfig:
    """Returns the settings of one read-only step on a canvas of ``width`` tokens."""
    return config.replace(
        decoder=decoder,
        token_thoughts=False,
        canvas_length=width,
        max_new_tokens=width,
        max_denoising_steps=1,
        t_min=1.0,
        t_max=1.0,
        stability_threshold=0,
        confidence_threshold=0.0,
        pinned=(),
        banned_tokens=(),
    )
