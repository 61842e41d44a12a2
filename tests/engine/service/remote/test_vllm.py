"""vLLM's dialect: DiffusionGemma by the shapes of vLLM's sources (0.33), plain models as vLLM 0.32 was seen to answer.

The figures and errors of a plain model were recorded from vLLM 0.32 on a CPU with SmolLM2-135M-Instruct.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import json
from typing import Any

from PIL import Image

from engine.config import GenerationConfig
from engine.events import TextArrived
from engine.pictures import Picture, open_picture
from engine.service import ChatRun, LoadFailed, LoadRequest, RunRequest
from engine.service.remote import RemoteBackend
from engine.service.remote.chat import NEUTRAL
from engine.text.message import image_of
from engine.text.output_format import OutputFormat
from tests.engine.drawn import picture
from tests.engine.hub.rude_server import Request
from tests.engine.service.remote.servers import (
    SSE,
    ask,
    bodies,
    chunk,
    events,
    in_json,
    loaded,
    models,
    question,
    serving,
    streamed,
    words,
)
from tests.engine.traces import read_whole

NAME = "google/diffusiongemma-26B-A4B-it"


def usage(prompt: int, written: int) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": prompt, "total_tokens": prompt + written, "completion_tokens": written}}


def chat(request: Request) -> None:
    """Refuses what the diffusion model refuses; else thinks if it may, and one burst of text a canvas."""
    asked = json.loads(request.body)
    for name in ("seed", "temperature", "min_p", "response_format", "logit_bias"):
        if name in asked:  # as SamplingParams._validate_diffusion has it
            in_json({"error": {"message": "not yet supported with diffusion models"}}, "400 Bad Request")(request)
            return
    parts = [chunk({"role": "assistant", "content": ""}, **usage(9, 0))]
    if asked["chat_template_kwargs"]["enable_thinking"]:
        parts.append(chunk({"reasoning": "Let me see. " * 20}, **usage(9, 90)))
    if "tools" in asked:
        called = {"index": 0, "id": "call-1", "type": "function", "function": {"name": "look", "arguments": ""}}
        parts.append(chunk({"tool_calls": [called]}, **usage(9, 100)))
        parts.append(chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"at":'}}]}, **usage(9, 110)))
        parts.append(chunk({"tool_calls": [{"index": 0, "function": {"arguments": ' "it"}'}}]}, **usage(9, 120)))
        parts.append(chunk({}, "tool_calls", **usage(9, 120)))
    else:
        parts.append(chunk({"content": "First canvas. "}, **usage(9, 256)))
        parts.append(chunk({"content": "Second canvas."}, **usage(9, 300)))
        parts.append(chunk({}, "stop" if asked["max_tokens"] > 300 else "length", **usage(9, 300)))
    parts.append(chunk(**usage(9, 300)))
    request.reply(events(*parts), *SSE)


def vllm() -> Any:
    return serving(
        v1_models=models(NAME, owner="vllm", root=NAME, parent=None, max_model_len=4096, permission=[]),
        v1_chat_completions=chat,
        version=in_json({"version": "0.33.0"}),
    )


def test_a_chat_comes_in_a_burst_a_canvas(tmp_path: Any) -> None:
    with vllm() as server:
        backend = loaded(server, NAME, traces=tmp_path)
        ran = ask(backend, question(config=NEUTRAL.replace(max_new_tokens=1024), is_seed_set=False))
    assert ran.ended.message == ""
    assert ran.text == "First canvas. Second canvas."
    assert (ran.thinking, ran.finished.reason) == ("", "eos")
    assert ran.prefill is not None
    assert ran.prefill.prompt_tokens == 9
    assert sum(event.counted for event in ran.events if isinstance(event, TextArrived)) == 300
    assert bodies(server) == [
        {
            "model": NAME,
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 1024,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "chat_template_kwargs": {"enable_thinking": False},
        }
    ]
    stored = read_whole(next(tmp_path.iterdir()))
    assert (stored.text, stored.notice, stored.failure) == (ran.text, "", "")
    assert stored.header.model.path == f"{server.endpoint}/v1#{NAME}"
    assert [type(event) for event in stored.events] == [type(event) for event in ran.events]


def test_it_thinks_where_it_is_allowed_to_and_is_cut_where_its_length_is() -> None:
    with vllm() as server:
        backend = loaded(server, NAME)
        ran = ask(backend, question(think=True, config=NEUTRAL.replace(max_new_tokens=256), is_seed_set=False))
    assert ran.thinking == "Let me see. " * 20
    assert ran.trace.reply().thinking == ran.thinking.strip()
    assert (ran.text, ran.finished.reason) == ("First canvas. Second canvas.", "length")


def plain(request: Request) -> None:
    """Answers as SmolLM2 on vLLM 0.32: usage in every chunk, the cached tokens with the last alone."""
    last = {"usage": {**usage(355, 2)["usage"], "prompt_tokens_details": {"cached_tokens": 256}}}
    parts = [
        chunk({"role": "assistant", "content": ""}, **usage(355, 0)),
        chunk({"content": "so"}, **usage(355, 1)),
        chunk({"content": "."}, "length", **usage(355, 2)),
        chunk(**last),
    ]
    request.reply(events(*parts), *SSE)


def plain_vllm(answer: Any = plain) -> Any:
    listed = models("smollm2", owner="vllm", root="smol", parent=None, max_model_len=4096, permission=[])
    return serving(v1_models=listed, v1_chat_completions=answer)


def test_a_plain_model_follows_seed_and_sampling() -> None:
    config = GenerationConfig(sampling_temperature=0.0, sampling_top_k=20, sampling_top_p=0.5, max_denoising_steps=3)
    with plain_vllm() as server:
        backend = loaded(server, "smollm2")
        ran = ask(backend, question(config=config, seed=5))
        neutral = backend._model.loaded.defaults  # type: ignore[union-attr]
        assert ask(backend, question(config=neutral, seed=6)).ended.message == ""
    first, second = bodies(server)
    sampling = {name: first.get(name) for name in ("seed", "temperature", "top_k", "top_p", "vllm_xargs")}
    assert sampling == {"seed": 5, "temperature": 0.0, "top_k": 20, "top_p": 0.5, "vllm_xargs": None}
    assert not {"temperature", "top_k", "top_p"} & second.keys()
    assert (ran.trace.header.seed, second["seed"]) == (5, 6)
    assert backend.capabilities.structured


def test_calls_of_tools_are_shown_and_sent_back_as_the_wire_has_them() -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    called = [{"id": "call-1", "type": "function", "function": {"name": "look", "arguments": {"at": "it"}}}]
    messages = (
        {"role": "user", "content": "Look"},
        {"role": "assistant", "content": "", "tool_calls": called},
        {"role": "tool", "name": "look", "tool_call_id": "call-1", "content": "seen"},
    )
    with vllm() as server:
        backend = loaded(server, NAME)
        ran = ask(backend, ChatRun(NEUTRAL, 0, messages, tools=(tool,), is_seed_set=False))
    assert ran.text == '\n<tool_call>\n{"name": "look", "arguments": {"at": "it"}}\n</tool_call>'
    [body] = bodies(server)
    assert body["tools"] == [tool]
    assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"at": "it"}'
    assert ran.trace.header.messages[2] == {"role": "tool", "content": "seen"}


def test_a_server_that_refuses_tools_answers_without_them() -> None:
    def parserless(request: Request) -> None:
        """Refuses tools as vLLM does that was started without a parser of calls."""
        if "tools" not in json.loads(request.body):
            plain(request)
            return
        why = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        in_json({"error": {"message": why, "type": "BadRequestError", "code": 400}}, "400 Bad Request")(request)

    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    held = OutputFormat("text_or_calls", tools=(tool["function"],))  # type: ignore[arg-type]
    with plain_vllm(parserless) as server:
        backend = loaded(server, "smollm2")
        assert backend._model.loaded.reads_tools  # type: ignore[union-attr]
        wanted = dataclasses.replace(question(), tools=(tool,), output_format=held)
        ran = ask(backend, wanted)
        assert (ran.text, ran.ended.message) == ("so.", "")
        assert not backend._model.loaded.reads_tools  # type: ignore[union-attr]
        assert ask(backend, wanted).text == "so."
        assert ["tools" in body for body in bodies(server)] == [True, False, False]


def test_the_oldest_turns_are_left_out_and_a_prompt_over_the_context_says_by_how_much() -> None:
    turns = [{"role": "user", "content": "word " * 3000}, {"role": "assistant", "content": "Yes."}]
    turns.append({"role": "user", "content": "short"})
    with plain_vllm() as server:
        backend = loaded(server, "smollm2")
        assert ask(backend, ChatRun(GenerationConfig(), 0, tuple(turns), reserve=1500)).text == "so."
        refused = ask(backend, ChatRun(GenerationConfig(), 0, tuple(turns[:1]), reserve=1500))
        [body] = bodies(server)
    assert [message["content"] for message in body["messages"]] == ["short"]
    assert "tokens and the answer up to 1,500" in refused.ended.message
    assert "more than the context of 4,096" in refused.ended.message


def test_a_model_that_it_does_not_have_is_not_loaded() -> None:
    replies: list[Any] = []
    with vllm() as server:
        RemoteBackend().load(LoadRequest(f"{server.endpoint}#other", "Other"), replies.append)
    assert isinstance(replies[-1], LoadFailed)
    assert replies[-1].message == f"The server at {server.endpoint} has no model other; it has {NAME}."


RED = picture("red", 6, 3)


def webp() -> Picture:
    file = io.BytesIO()
    Image.new("RGB", (3_000, 30), (0, 90, 200)).save(file, "WEBP", lossless=True)
    return open_picture(file.getvalue())


def turned() -> Picture:
    """A camera's, on its side, with notes."""
    made = Image.new("RGB", (40, 20), "white")
    notes = made.getexif()
    notes[0x0112], notes[0x010E] = 6, "at home"
    file = io.BytesIO()
    made.save(file, "JPEG", exif=notes)
    return open_picture(file.getvalue())


def asking(*shown: Picture) -> RunRequest:
    images = tuple(image_of(one, at) for one, at in zip(shown, (0, 2, 2), strict=False))
    said = {"role": "user", "content": "a b", "images": images}
    return ChatRun(GenerationConfig(), 0, (said,), pictures=shown)


def opened(url: str) -> Image.Image:
    head, _, data = url.partition(",")
    image = Image.open(io.BytesIO(base64.b64decode(data)))
    assert head == f"data:image/{str(image.format).lower()};base64"
    return image


def test_they_are_in_the_message_as_any_server_reads_them(tmp_path: Any) -> None:
    shown = (RED, webp(), turned())
    with serving(v1_models=models("m"), v1_chat_completions=streamed(*words(["red"]))) as server:
        ran = ask(loaded(server, traces=tmp_path), asking(*shown))
    assert (ran.ended.message, ran.text) == ("", "red")
    [body] = bodies(server)
    parts = body["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["image_url", "text", "image_url", "image_url", "text"]
    assert [part["text"] for part in parts if "text" in part] == ["a ", "b"]
    one, two, three = (opened(part["image_url"]["url"]) for part in parts if part["type"] == "image_url")
    assert (one.format, one.size, one.convert("RGB").getpixel((1, 1))) == ("PNG", (6, 3), (255, 0, 0))
    assert (two.format, two.size, two.convert("RGB").getpixel((9, 9))) == ("PNG", (2048, 20), (0, 90, 200))
    assert (three.format, three.size, len(three.getexif())) == ("JPEG", (20, 40), 0)
    assert ran.trace.path is not None
    stored = read_whole(ran.trace.path)
    assert stored.pictures == shown
    assert [image["digest"] for image in stored.header.messages[0]["images"]] == [one.digest for one in shown]


def test_who_turns_out_to_be_blind_is_one_line_that_says_what_to_do() -> None:
    error = {"error": {"code": 500, "message": "image input is not supported", "type": "server_error"}}
    refusing = in_json(error, "500 Internal Server Error")
    with serving(v1_models=models("m"), v1_chat_completions=refusing) as server:
        backend = loaded(server)
        said = ask(backend, asking(RED)).ended.message
        assert "failed: image input is not supported. Perhaps its model cannot see pictures" in said
        assert "Perhaps" not in ask(backend).ended.message
