"""Images in requests to a model that sees: chats, responses and decisions, by OpenAI's client, and what is refused."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from engine.pictures import Picture, open_picture
from engine.server import messages
from engine.server.errors import ApiError
from engine.server.kept import ServedPictures
from engine.service import LocalBackend
from tests.engine.seeing import picture, seeing
from tests.engine.server.openai_client import client_of
from tests.engine.server.served import CHAT, Served, refused, serving

WIDE, TALL = picture(48, 16, 1), picture(9, 30, 2)
MAX_BODY = 3 * 2**20
BRIEF = {"vllm_xargs": {"diffusion_max_steps": 1}, "max_tokens": 8}


def url_of(shown: Picture) -> str:
    return "data:image/png;base64," + base64.b64encode(shown.data).decode()


def image(shown: Picture | str, **more: Any) -> dict[str, Any]:
    url = shown if isinstance(shown, str) else url_of(shown)
    return {"type": "image_url", "image_url": {"url": url, **more}}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = seeing(tmp_path_factory.mktemp("model") / "seer", canvas_length=16)
    with serving(LocalBackend(), str(folder), image_body_bytes=MAX_BODY) as made:
        yield made


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with client_of(served) as made:
        yield made


def tokens(served: Served, *parts: dict[str, Any]) -> list[str]:
    """The prompt of a message of these parts, as tokens."""
    return prompt(served, {"messages": [{"role": "user", "content": list(parts)}]})


def prompt(served: Served, body: dict[str, Any]) -> list[str]:
    """The prompt of a chat, as tokens."""
    answer = served.http.post("/v1/chat/completions", json={**body, **BRIEF})
    assert answer.status_code == 200, answer.text
    trace, model = served.server.live.snapshot()[0].trace, served.scheduler.model
    assert trace is not None
    assert model is not None
    return [model.piece(token) for token in trace.header.prompt_ids]


def test_images_are_where_they_were_sent(served: Served) -> None:
    found = tokens(served, text("ab"), image(WIDE), text("cd"), text("e"), image(TALL))
    seen = "".join(found).replace("<|image|>", "#")
    begin, _, rest = seen.partition("ab<|image>")
    wide, _, rest = rest.partition("<image|>cd\ne<|image>")
    tall, _, _ = rest.partition("<image|><turn|>")
    assert begin.endswith("user\n")
    assert (set(wide), set(tall)) == ({"#"}, {"#"})
    model = served.scheduler.model
    assert model is not None
    assert model.image_cost is not None
    costs = [model.image_cost(one.width, one.height, 70) for one in (WIDE, TALL)]
    assert [len(wide) + 2, len(tall) + 2] == costs
    assert len(tokens(served, image(WIDE, detail="low"))) <= 70 + len(tokens(served, text("x")))
    assert len(tokens(served, image(WIDE, detail="high"))) > len(tokens(served, image(WIDE, detail="auto")))


def test_a_chat_counts_its_images_and_a_response_is_the_same(client: openai.OpenAI, served: Served) -> None:
    name = client.models.list().data[0].id
    content: Any = [text("What is it?"), image(TALL, detail="auto"), image(WIDE)]
    messages: Any = [{"role": "user", "content": content}]
    chat = client.chat.completions.create(model=name, messages=messages, seed=3, extra_body=BRIEF)
    assert chat.usage is not None
    assert chat.usage.prompt_tokens == len(tokens(served, *content))
    parts: Any = [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "image_url": url_of(TALL), "detail": "auto", "file_id": None},
        {"type": "input_image", "image_url": url_of(WIDE), "detail": "auto"},
    ]
    response = client.responses.create(model=name, input=[{"role": "user", "content": parts}], max_output_tokens=16)
    assert response.usage is not None
    assert response.usage.input_tokens == chat.usage.prompt_tokens
    assert response.usage.input_tokens_details.cached_tokens == chat.usage.prompt_tokens  # the same images


def test_decisions_are_about_images(client: openai.OpenAI, served: Served) -> None:
    name = client.models.list().data[0].id
    asked: Any = [{"type": "predicate", "instructions": "Is it red?"}]

    def decided(*shown: Picture) -> tuple[float, int]:
        parts: Any = [{"type": "input_image", "image_url": url_of(one)} for one in shown]
        sent: Any = [{"role": "user", "content": [{"type": "input_text", "text": "A picture."}, *parts]}]
        found = client.decisions.create(model=name, input=sent, questions=asked)
        assert found.answers[0].type == "predicate"
        return found.answers[0].probability, found.usage.input_tokens

    none, one, other = decided(), decided(WIDE), decided(picture(48, 16, 9))
    assert none[1] < one[1] == other[1]
    assert len({none[0], one[0], other[0]}) == 3  # it was seen
    part = {"type": "input_image", "image_url": "x"}
    for role in ("user", "system"):
        sent = {"input": [{"role": role, "content": [part]}, {"role": "user", "content": "x"}], "questions": asked}
        assert refused(served.http.post("/v1/decisions", json=sent))[:2] == (400, "input.0.content.0")
    asked_of = {"input": "x", "questions": [{**asked[0], "instructions": [part]}]}
    assert refused(served.http.post("/v1/decisions", json=asked_of))[1] == "questions.0.instructions.0"


SENT = "Send the image itself, as data:image/png;base64,…: this server fetches nothing"


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (image("https://example.org/a.png"), SENT), (image("file:///etc/passwd"), SENT),
        (image("data:application/pdf;base64,JVBERi0="), SENT), (image("data:image/png,abc"), SENT),
        (image("data:image/png;base64,ab*c"), "valid base64"), (image("data:image/png;base64,abc"), "valid base64"),
        (image("data:image/png;base64,ü"), "valid base64"), (image("data:image/png;base64,"), "unsupported"),
        (image(url_of(WIDE)[:-400]), "damaged"),
        (image(WIDE, detail="fine"), "detail is auto, low, high, original"), (image(WIDE, detail=[]), "detail is"),
        (image(WIDE, mood="good"), "'mood' of an image is not known"),
        ({"type": "image_url", "image_url": "x"}, "An image is sent"),
        ({"type": "image_url", "image_url": {"url": 5}}, "The image has no url"),
        ({"type": "input_image", "image_url": url_of(WIDE)}, "an image as image_url"),
    ],
)  # fmt: skip
def test_what_is_no_image_is_refused_at_its_place(served: Served, part: dict[str, Any], said: str) -> None:
    messages = [{"role": "user", "content": "x"}, {"role": "user", "content": [text("y"), part]}]
    status, param, sentence = refused(served.http.post(CHAT, json={"messages": messages}))
    assert (status, param) == (400, "messages.1.content.1")
    assert said in sentence


def test_budgets_and_numbers_of_images_are_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(*parts: dict[str, Any], **more: Any) -> tuple[int, str | None, str]:
        return refused(served.http.post(CHAT, json={"messages": [{"role": "user", "content": list(parts)}], **more}))

    assert refusal(image(WIDE, detail="low"), image(TALL, detail="high"))[1] == "messages.0.content.1"
    assert refusal(*[image(TALL)] * 33)[1:] == ("messages.0.content.32", "There are more than 32 images; send fewer.")
    monkeypatch.setattr(messages, "MAX_PIXELS", 1_000)
    assert refusal(image(WIDE), image(WIDE), image(TALL))[1] == "messages.0.content.2"
    monkeypatch.undo()
    assert refusal(image("data:image/png;base64," + "A" * MAX_BODY)) == (
        413, None, "The body has more than 3 MiB, the most that is accepted; send fewer images, or smaller ones.",
    )  # fmt: skip
    for role in ("system", "assistant"):
        other = {"messages": [{"role": role, "content": [image(WIDE)]}, {"role": "user", "content": "x"}]}
        assert refused(served.http.post(CHAT, json=other))[1:] == (
            "messages.0.content.0", "Only a user's message and a tool's result can have images.",
        )  # fmt: skip


def test_a_response_s_images_are_refused_at_their_items(served: Served) -> None:
    bad = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    items = [
        {"role": "user", "content": "x"},
        {"type": "reasoning", "summary": []},
        {"role": "assistant", "content": [{"type": "output_text", "text": "y"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "z"}, bad]},
    ]
    asked: dict[str, Any] = {"instructions": "Look.", "input": items}
    assert refused(served.http.post("/v1/responses", json=asked))[:2] == (400, "input.3.content.1")
    kept = {"type": "input_image", "file_id": "file-1"}
    asked = {"input": [{"role": "user", "content": [kept]}]}
    assert refused(served.http.post("/v1/responses", json=asked))[:2] == (400, "input.0.content.0")
    asked = {"input": [{"role": "assistant", "content": [bad]}, *items[:1]]}
    assert refused(served.http.post("/v1/responses", json=asked))[:2] == (400, "input")


def test_a_photo_is_read_once_for_all_requests_that_show_it(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    photo = picture(700, 900, 5)
    assert len(photo.data) > 2**20
    first = tokens(served, text("What is it?"), image(photo))
    monkeypatch.setattr("engine.server.kept.open_picture", None)
    assert tokens(served, text("What is it?"), image(photo)) == first


def test_pictures_of_running_requests_have_bounds() -> None:
    shown = [picture(9, 9, seed) for seed in range(3)]
    kept = ServedPictures(most=len(shown[0].data) + len(shown[1].data))
    held = kept.open(shown[0].data)
    kept.open(shown[1].data)
    assert kept.find(shown[1].digest) == shown[1]
    kept.open(shown[2].data)  # in place of the one that nobody holds
    assert [kept.find(one.digest) is not None for one in shown] == [True, False, True]
    other = kept.open(shown[2].data)
    with pytest.raises(ApiError, match="use all the memory for pictures") as refused:
        kept.open(shown[1].data)
    assert refused.value.status == 429
    assert (held.data, other.data) == (shown[0].data, shown[2].data)


def test_a_picture_that_two_requests_bring_at_once_is_held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, kept, others = picture(9, 9), ServedPictures(), list[Picture]()

    def slowly(data: bytes) -> Picture:
        monkeypatch.undo()
        others.append(kept.open(data))
        return open_picture(data)

    monkeypatch.setattr("engine.server.kept.open_picture", slowly)
    assert kept.open(shown.data) is others[0]


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


def results(*behind: dict[str, Any]) -> dict[str, Any]:
    """A chat in which a tool has answered with a text and an image."""
    asked = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": [text("seen"), image(WIDE), text("all")]},
    ]
    return {"messages": [*asked, *behind]}


@pytest.mark.parametrize(
    "behind",
    [(), ({"role": "user", "content": "And?"},), ({"role": "user", "content": [text("And?"), image(TALL)]},),
     ({"role": "assistant", "content": "A cat."}, {"role": "user", "content": "And?"})],
)  # fmt: skip
def test_an_image_in_a_tool_s_result_is_shown_behind_it(served: Served, behind: tuple[Any, ...]) -> None:
    seen = "".join(prompt(served, results(*behind)))
    assert seen.count("<|image>") == 1 + (len(behind) == 1 and isinstance(behind[0]["content"], list))
    before, _, after = seen.replace("<|image|>", "").partition("<|image><image|>")
    assert before.endswith("seen\nall<turn|>\n<|turn>user\n")
    assert after.startswith("And?") == (len(behind) == 1)
