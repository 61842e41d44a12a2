"""The prompt that is suggested first shows the most, on real runs of the models that were taught it."""

from __future__ import annotations

import pytest

from engine import BASE, MINI, CanvasCommitted, generate, load_model, read_reply
from engine.tasks import skills


@pytest.mark.parametrize("name", [MINI, BASE])
def test_suggestions_are_answered_right_and_the_most_is_to_be_seen_of_the_first(name: str) -> None:
    model = load_model(name, device="cpu")
    seen = []
    for prompt in skills.suggestions():
        ids = model.chat_ids([{"role": "user", "content": prompt}])
        events = generate(model, ids, model.generation_defaults, seed=1)
        blocks = [event for event in events if isinstance(event, CanvasCommitted)]
        tokens = [int(token) for block in blocks for token in block.tokens[: block.text_length]]
        text = read_reply(model.tokenizer, tokens).text
        assert skills.check(prompt, text), prompt
        assert all(block.reason == "converged" for block in blocks)
        seen.append((sum(block.steps for block in blocks) + text.count("\n"), len(text)))
    if name == MINI:  # which is loaded at a first start
        assert seen == sorted(seen, reverse=True)
        assert seen[0][0] > 10
        assert seen[4][0] > 2
