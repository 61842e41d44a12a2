"""The search on a hub: what it is asked, which models are offered and why not, and a hub that lies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi

import engine.hub_search
from engine import SafelightError
from engine.hub_search import FIELDS, MAX_HITS, look_closer, search
from tests.engine.hub.rude_server import Request, answering
from tests.engine.hub.server import Hub, model, serving

NAMES = [{"rfilename": name} for name in ("config.json", "adapter_model.bin", "unet/model.safetensors")]
MODELS = [
    model("org/plain", "qwen2", "license:apache-2.0", downloads=90),
    model("org/nf4-bnb-4bit", "llama", quant_method="bitsandbytes", downloads=80, gated="manual"),
    model("org/diffusion", "LLaDA", downloads=71),  # as no family spells it
    model("org/dream", "Dream", downloads=70),
    model("org/pictures", "gemma3", downloads=60, pipeline_tag="image-text-to-text"),
    model("org/masks", "llada", downloads=50, pipeline_tag="fill-mask"),
    model("org/awq", quant_method="awq", downloads=40),
    model("org/mlx", "llama", "mlx", downloads=30),
    model("org/embeds", "qwen3", downloads=20, pipeline_tag="feature-extraction"),
    model("org/speech", "whisper", downloads=10, pipeline_tag="automatic-speech-recognition"),
    model("org/no-config", "", config=None, downloads=5, pipeline_tag=None),
    model("org/elsewhere", downloads=4, siblings=NAMES),
]


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub({"org/plain": {}}, MODELS)) as running:
        yield running


def test_of_twelve_models_those_are_offered_that_load_here(hub: Hub) -> None:
    hits, is_cut = search("ORG", hub.endpoint)
    assert {hit.repo.removeprefix("org/"): (hit.why, hit.detail) for hit in hits} == {
        "plain": ("", ""),
        "nf4-bnb-4bit": ("", ""),
        "dream": ("", ""),
        "pictures": ("", ""),
        "masks": ("", ""),
        "diffusion": ("family", "LLaDA"),
        "awq": ("form", "awq"),
        "mlx": ("form", "mlx"),
        "embeds": ("none", "feature-extraction"),
        "speech": ("family", "whisper"),
        "no-config": ("none", ""),
        "elsewhere": ("form", "no safetensors"),
    }
    assert [hit.repo for hit in hits if not hit.why][:2] == ["org/plain", "org/nf4-bnb-4bit"]
    plain, packed = hits[0], hits[1]
    assert (plain.downloads, plain.licence, plain.is_gated, plain.form) == (90, "apache-2.0", False, "")
    assert (packed.licence, packed.is_gated, packed.form) == ("", True, "bitsandbytes")
    assert not is_cut


def test_it_asks_as_the_library_asks_and_without_a_token(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.token = ""
    hits, _ = search("org", hub.endpoint)
    asked: Any = {"search": "org", "filter": "safetensors", "sort": "downloads", "limit": 100, "expand": list(FIELDS)}
    theirs = list(HfApi(hub.endpoint, token=False).list_models(**asked))
    assert {hit.repo: hit.downloads for hit in hits} == {each.id: each.downloads for each in theirs}
    ours, library = hub.asked
    assert sorted(ours.partition("?")[2].split("&")) == sorted(library.partition("?")[2].split("&"))


def test_the_size_is_that_of_the_files_that_a_download_fetches(tmp_path: Path, hub: Hub) -> None:
    wanted = {"config.json": b"{}", "tokenizer.json": b"{}", "vocab.json": b"{}", "model.safetensors": bytes(20_000)}
    needless = {"README.md": b"#" * 99, "pytorch_model.bin": bytes(50_000)}
    hub.files["org/plain"] = wanted | needless
    assert look_closer("org/plain", tmp_path, hub.endpoint) == 20_006
    assert (tmp_path / "config.json").read_bytes() == b"{}"


def test_many_are_cut(hub: Hub) -> None:
    hub.models = [model(f"org/m{number:03}", downloads=number) for number in range(120)]
    hits, is_cut = search("org", hub.endpoint)
    assert [hit.repo for hit in hits] == [f"org/m{number:03}" for number in range(119, 119 - MAX_HITS, -1)]
    assert is_cut


def test_what_a_hub_says_is_not_believed() -> None:
    markup = "<img src=x>\n" * 100
    odd: list[Any] = [
        None, 5, {}, {"id": markup}, {"id": "../.."}, {"id": ["a/b"]},
        model("org/odd", markup, markup, f"license:{markup}", downloads="many", siblings=[5, {"rfilename": 5}]),
        model("org/tags", tags=5, config={"model_type": ["x"]}, siblings={}, gated=markup, pipeline_tag=markup),
        model("org/deep", downloads=-1, tags=[[]], quant_method=markup),
        model("org/half", downloads=True, tags=["license:\ud800"]),
    ]  # fmt: skip
    with answering(lambda request: request.reply(json.dumps(odd).encode())) as hub:
        hits, _ = search("org", hub.endpoint)
    assert {hit.repo: (hit.why, hit.downloads, hit.licence) for hit in hits} == {
        "org/odd": ("family", None, ""),
        "org/tags": ("none", 1, ""),
        "org/deep": ("form", None, ""),
        "org/half": ("", None, ""),
    }
    assert all(len(hit.detail) <= 120 and hit.detail.isprintable() for hit in hits)


def endless(request: Request) -> None:
    request.send(b"HTTP/1.1 200 OK\r\n\r\n[")
    while not request.wait(0):
        request.send(b" " * 65_536)


def silent(request: Request) -> None:
    request.wait(20)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (endless, "sends over 8,388,608 bytes"),
        (silent, "there is no connection to"),
        (lambda request: request.reply(b"<html>Log in</html>"), "does not send a list of models"),
        (lambda request: request.reply(b'{"error": "no"}'), "does not send a list of models"),
        (lambda request: request.reply(b"", status="429 Too Many Requests"), "refuses with error 429; try again later"),
        (lambda request: request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n["), "broke; try again"),
    ],
)
def test_each_fault_is_one_sentence(answer: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.hub_search, "ALL_SECONDS", 0.3 if answer is silent else 20.0)
    with answering(answer) as hub, pytest.raises(SafelightError, match=message):
        search("org", hub.endpoint)
    assert len(hub.requests) == 1


def test_one_page_is_asked_for() -> None:
    link = 'Link: </api/models?cursor=x>; rel="next"'
    with answering(lambda request: request.reply(b"[]", link)) as hub:
        assert search("org", hub.endpoint) == ((), False)
    assert len(hub.requests) == 1


@pytest.mark.parametrize("size", [10**30, -1, True, "9", None])
def test_a_size_that_cannot_be_is_none(tmp_path: Path, size: object) -> None:
    listing = json.dumps({"siblings": [{"rfilename": "model.safetensors", "size": size}]}).encode()
    with answering(lambda request: request.reply(listing if "/api/" in request.path else bytes(2**19))) as hub:
        assert look_closer("org/plain", tmp_path, hub.endpoint) == 0
    assert not list(tmp_path.iterdir())  # a config of that size is none
