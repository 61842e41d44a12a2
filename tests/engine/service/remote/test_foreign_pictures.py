"""Pictures on servers of OpenAI's kind: as they are sent, and what is known of who sees them."""

from __future__ import annotations

import base64
import io
from typing import Any

from PIL import Image

from engine.config import GenerationConfig
from engine.pictures import Picture, open_picture
from engine.service import ChatRun, RunRequest
from engine.text.message import image_of
from tests.engine.drawn import picture
from tests.engine.service.remote.servers import ask, bodies, in_json, loaded, models, serving, streamed, words
from tests.engine.traces import read_whole

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
