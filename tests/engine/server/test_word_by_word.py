"""Text that is written token by token is sent as it comes, and is the same as in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine.catalog import MINI
from engine.service import LocalBackend
from tests.engine.server.served import Served, events, serving

SORTING = "Write the alphabet backwards: sort z y x w v u t s r q p o n m l k."
ASKED = {"seed": 1, "temperature": 0, "max_tokens": 60, "decoder": "autoregressive"}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(LocalBackend(), MINI) as found:
        yield found


@pytest.mark.parametrize("fields", [{"logprobs": True, "top_logprobs": 2}, {"stop": ["z" * 20]}])
def test_a_stream_has_a_piece_for_each_token(served: Served, fields: dict[str, Any]) -> None:
    asked = {**ASKED, **fields}
    answer = served.chat(SORTING, **asked).json()
    [whole], usage = answer["choices"], answer["usage"]
    chunks = [chunk["choices"][0] for chunk in events(served.chat(SORTING, **asked, stream=True))]
    pieces = [chunk["delta"]["content"] for chunk in chunks if chunk["delta"].get("content")]
    assert "".join(pieces) == whole["message"]["content"]
    assert chunks[-1]["finish_reason"] == whole["finish_reason"]
    assert "stop" in fields or len(pieces) >= min(usage["completion_tokens"], 15) - 3  # the first signs wait for a tag
    known = [chance for chunk in chunks for chance in (chunk.get("logprobs") or {"content": []})["content"]]
    assert known == ((whole["logprobs"] or {"content": []})["content"] if "logprobs" in fields else [])


def test_canvases_still_come_whole(served: Served) -> None:
    chunks = events(served.chat("Reverse the word robot.", seed=1, stream=True))
    pieces = [chunk["choices"][0]["delta"].get("content") for chunk in chunks]
    assert len([piece for piece in pieces if piece]) == 1
