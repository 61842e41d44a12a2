"""``safelight generate`` with a model on another machine that is no Safelight."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import main
from tests.app.cli.calling import refused, run
from tests.engine.hub.rude_server import Request
from tests.engine.seeing import picture
from tests.engine.service.remote.servers import bodies, chunk, events, in_json, models, serving, streamed, words

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def broken(request: Request) -> None:
    request.send(HEAD + events(chunk({"content": "All that"}), chunk({"content": " came."}), end=b""))


def generate(server: Any, *more: str) -> int:
    return main(["generate", "Hello", "--model", server.endpoint, *more])


def test_the_text_of_an_answer_that_breaks_off_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(v1_models=models("m"), v1_chat_completions=broken) as server:
        assert generate(server) != 0
        plain = capsys.readouterr()
        assert generate(server, "--json") != 0
        record = json.loads(capsys.readouterr().out)
    assert plain.out == "All that came.\n"
    assert plain.err.strip().endswith("The connection to the server was lost during the answer. Try again")
    assert (record["text"], record["reason"]) == ("All that came.", "failed")


def test_pictures_and_temperature_are_sent_and_what_only_diffusion_has_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "one.png").write_bytes(picture(40, 9).data)
    with serving(v1_models=models("m"), v1_chat_completions=streamed(*words(["red"]))) as server:
        assert generate(server, "--image", str(tmp_path / "one.png"), "--temperature", "0") == 0
        assert capsys.readouterr() == ("red\n", "")
        [sent] = bodies(server)
        assert [part["type"] for part in sent["messages"][0]["content"]] == ["image_url", "text"]
        assert sent["temperature"] == 0.0
        ask = ("generate", "Hello", "--model", server.endpoint)
        refused(capsys, "no canvas to watch", *ask, "--watch")
        refused(
            capsys, "does not follow --decoder, --max-steps", *ask, "--decoder", "block_diffusion", "--max-steps", 2
        )
    code, out, err = run(capsys, *ask)
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_a_seed_is_sent_where_one_is_given() -> None:
    def plain(request: Request) -> None:  # as vLLM without a parser of thoughts
        refused = {"error": {"message": "thinking_token_budget needs a parser", "code": 400}}
        is_probe = json.loads(request.body)["max_tokens"] == 1
        (in_json(refused, "400 Bad Request") if is_probe else streamed(*words(["Hello."])))(request)

    with serving(v1_models=models("m", owner="vllm"), v1_chat_completions=plain) as server:
        assert generate(server) == generate(server, "--seed", "0") == generate(server, "--seed", "9") == 0
    assert [body.get("seed") for body in bodies(server)] == [None, 0, 9]
