"""Rows of the text skills for causal models: whole examples, noised and packed."""

from __future__ import annotations

import random

from small_models import skills
from small_models.causal_recipes import MASK, CausalRecipe
from small_models.rows import RowStream, prompt_text
from small_models.text_rows import NOISE, Table, TextRows, arrange, draw_blocks, pack
from small_models.tokenizer import EOS, build_tokenizer


class TextSource(RowStream):
    """Draws examples of the skills, noised and packed by a recipe."""

    def __init__(self, recipe: CausalRecipe, seed: int) -> None:
        super().__init__(seed, recipe.objective)
        self.recipe, self.noise = recipe, NOISE[recipe.objective]
        self.weights = {name: weight for name, (_, weight) in skills.SKILLS.items()} | dict(recipe.weights)
        self.tokenizer = build_tokenizer()

    def draw(self, count: int) -> TextRows:
        """Draws the recipe's batch of examples in ``count`` rows."""
        drawn = self.rng.choices(list(self.weights), list(self.weights.values()), k=self.recipe.batch)
        examples = [skills.sample(self.rng, "train", name) for name in drawn]
        return pack(self.noised(examples), count, self.recipe.row_length)

    def noised(self, examples: list[skills.Example]) -> list[Table]:
        """Noises each example into a table of its own."""
        prompts = self.tokenizer.encode_batch([prompt_text(example.prompt) for example in examples])
        answers = self.tokenizer.encode_batch([example.answer for example in examples])
        return [self._arranged(prompt.ids, [*answer.ids, EOS]) for prompt, answer in zip(prompts, answers, strict=True)]

    def _arranged(self, prompt: list[int], answer: list[int]) -> Table:
        size = self.rng.choice(self.recipe.block_sizes)
        room = self.recipe.row_length - len(prompt) - len(answer)
        blocks = draw_blocks(self.rng, len(answer), size, room, self.noise)
        return arrange(prompt, answer, blocks, self.noise, MASK)


def held_out(seed: int, skill: str, count: int) -> list[skills.Example]:
    """Returns examples of a skill that training never sees, unless its answers are fixed."""
    rng = random.Random(f"held-out-{seed}-{skill}")
    return [skills.sample(rng, "test", skill) for _ in range(count)]
