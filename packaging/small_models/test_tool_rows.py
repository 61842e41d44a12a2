"""Rows of questions with tools: prompts as the chat template renders them, and calls as the parser reads them."""

from __future__ import annotations

import random

from small_models import tool_questions
from small_models.recipes import RECIPES
from small_models.tokenizer import EOS
from small_models.tool_rows import ToolSource, call_of, prompt_of, read_output


def test_a_call_is_what_the_parser_reads() -> None:
    rng, calls = random.Random(2), 0
    for _ in range(200):
        asked = tool_questions.sample(rng, "train")
        if asked.tool:
            calls += 1
            assert read_output(call_of(asked)) == ("", [(asked.tool, dict(asked.arguments))])
            assert prompt_of(asked, with_result=True).startswith(prompt_of(asked, with_result=False) + call_of(asked))
    assert calls > 100


def test_rows_hold_a_call_or_an_answer() -> None:
    recipe = RECIPES["tools"]
    assert recipe.model_config().vocab_size == 134
    for results in (False, True):
        source = ToolSource(64, 4, results)
        batch = source.draw(100)
        calls = later = 0
        for ids, present, target in zip(batch.ids, batch.present, batch.target, strict=True):
            assert len(ids) == source.prompt_length
            prompt = source.tokenizer.decode(ids[present].tolist(), skip_special_tokens=False)
            answer = source.tokenizer.decode(target[target != EOS].tolist(), skip_special_tokens=False)
            is_later = not prompt.endswith("<|turn>model\n") and "<|tool_call>" not in prompt
            assert ("<|tool_response>" in prompt) == (results and not is_later)
            assert results or not is_later
            later += is_later
            calls += answer.startswith("<|tool_call>call:")
            assert answer
        assert calls == 0 if results else 40 < calls < 95
        assert (later > 0) == results
