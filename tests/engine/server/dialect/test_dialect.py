"""Another Safelight gets from the server what it would have from the engine itself."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from engine import (
    GenerationConfig,
    StepFinished,
)
from engine.service import ChatRun
from engine.service.wire import ReplyReader, model_from_json, model_to_json, request_to_json
from engine.text.reply import read_reply
from engine.text.tokenizer import Tokenizer
from tests.engine.server.served import Served, within

QUICK = GenerationConfig(max_new_tokens=128, eos_token_ids=(1, 8), top_k=8)
PROMPT = ({"role": "user", "content": "Count from 3 to 40."},)


def test_the_model_and_its_tokenizer_are_described(served: Served, tmp_path: Path) -> None:
    model = served.scheduler.model
    assert model is not None
    sent = served.http.get("/safelight/v1/model").json()
    found = model_from_json(sent, "http://there")
    assert (found.title, found.vocab_size, found.defaults) == (model.title, model.vocab_size, model.defaults)
    assert found.capabilities == dataclasses.replace(
        model.capabilities, adapters=False, forks=False, infill=False, influence=False
    )
    assert sent == json.loads(json.dumps({**model_to_json(model), "capabilities": vars(found.capabilities)}))
    answer = served.http.get("/safelight/v1/tokenizer")
    (tmp_path / "tokenizer.json").write_bytes(answer.content)
    tokenizer = Tokenizer.from_folder(tmp_path)
    tokens = model.encode("Count from 3 to 40.")
    assert tokenizer.encode("Count from 3 to 40.") == tokens
    assert read_reply(tokenizer, [*tokens, 1]) == model.decode([*tokens, 1])
    counted = served.http.post("/safelight/v1/tokens/count", json={"messages": list(PROMPT)}).json()
    assert counted == {"tokens": model.count_tokens(PROMPT)}


def test_nothing_is_reported_without_the_key(served: Served) -> None:
    for path in ("model", "tokenizer", "run", "tokens/count"):
        for method in ("GET", "POST"):
            answer = served.http.request(method, f"/safelight/v1/{path}", headers={"Authorization": "Bearer x"})
            assert answer.status_code == 401


def chat(**more: Any) -> dict[str, Any]:
    """The body of a chat, with something else in it."""
    return {**request_to_json(ChatRun(QUICK, 3, PROMPT)), **more}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "a run's kind"),
        (chat(path="/etc"), "'path' that is not known"),
        (chat(adapter="/etc/passwd"), "not on the server"),
        (chat(messages=[{"role": "user", "content": "word " * 2000}]), "tokens"),
    ],
)
def test_what_cannot_begin_is_refused_in_a_sentence(served: Served, body: dict[str, Any], says: str) -> None:
    answer = served.http.post("/safelight/v1/run", json=body)
    message = answer.json()["error"]["message"]
    assert answer.status_code == 400
    assert says in message
    assert "\n" not in message


def test_who_leaves_ends_the_run(served: Served) -> None:
    endless = QUICK.replace(confidence_threshold=0.0, max_denoising_steps=10_000, max_new_tokens=64)
    reader = ReplyReader()
    body = request_to_json(ChatRun(endless, 3, PROMPT))
    with served.http.stream("POST", "/safelight/v1/run", json=body) as response:
        parts = response.iter_raw()
        found: list[Any] = []
        while not any(isinstance(part, StepFinished) for part in found):
            found += reader.feed(next(parts))
        assert served.scheduler.running == 1
    assert within(lambda: served.scheduler.running == 0)
    newest = served.server.live.snapshot()[0]
    assert within(lambda: served.server.live.snapshot()[0].state == "cancelled"), newest
    assert not reader.is_over
