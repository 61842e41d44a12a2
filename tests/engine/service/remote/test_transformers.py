"""Against a server that nobody here wrote: ``transformers serve`` with a tiny random model, on the CPU."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.config import GenerationConfig
from engine.service.remote import RemoteAddress, RemoteBackend, RemotePatience, list_models, probe
from engine.service.replies import ModelLoaded
from engine.service.requests import LoadRequest
from tests.engine.service.remote.servers import Ran, ask, question

pytestmark = pytest.mark.slow  # it takes half a minute to start

NAME = "tiny/llama"
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SLOW = RemotePatience(connect=10.0, short=60.0, answer=60.0, stall=60.0)


def make_model(folder: Path) -> None:
    """A Llama of two layers with random weights, and a tokenizer of bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
    vocabulary = {token: place for place, token in enumerate([*special, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=special[0], pad_token=special[0], additional_special_tokens=special[1:]
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        eos_token_id=0,
        pad_token_id=0,
        bos_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteAddress]:
    """A running server that has the model in its cache, as a download would leave it there."""
    home = tmp_path_factory.mktemp("hub")
    folder = home / "hub" / f"models--{NAME.replace('/', '--')}"
    revision = "0" * 40
    make_model(folder / "snapshots" / revision)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(revision)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # Offline, so that nothing is looked up anywhere.
    environment = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", "--device", "cpu"]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)], env=environment, stdout=log, stderr=log
        )
    try:
        address = RemoteAddress.parse(f"http://127.0.0.1:{port}")
        for _ in range(600):
            if process.poll() is not None or probe(address).is_reachable:
                break
            with pytest.raises(subprocess.TimeoutExpired):  # waits, and no longer than it lives
                process.wait(0.2)
        assert process.poll() is None, (home / "log").read_text()
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture
def backend(server: RemoteAddress) -> RemoteBackend:
    backend = RemoteBackend(patience=SLOW)
    replies: list[object] = []
    backend.load(LoadRequest(str(server.with_model(NAME)), "Tiny"), replies.append)
    assert isinstance(replies[-1], ModelLoaded), replies
    return backend


def test_models_are_listed(server: RemoteAddress) -> None:
    assert [model.id for model in list_models(server)] == [NAME]
    assert probe(server).words == "Reachable, with one model"


def test_a_chat_is_streamed_and_counted(backend: RemoteBackend) -> None:
    ran = ask(backend, question("Hello", config=GenerationConfig(max_new_tokens=24)))
    assert ran.ended.message == ""
    assert ran.text != ""
    assert ran.trace.text == ran.text
    assert ran.prefill is not None
    assert ran.prefill.prompt_tokens == len("<|user|>Hello<|assistant|>") - len("<|user|>") - len("<|assistant|>") + 2
    assert sum(event.counted for event in ran.events if hasattr(event, "counted")) == 24
    assert ran.finished.reason == "length"


def test_a_chat_is_stopped_in_its_midst(backend: RemoteBackend) -> None:
    request = question("Tell me more", config=GenerationConfig(max_new_tokens=4000))
    ran = Ran()
    from engine.service.backend import run_alone

    for reply in run_alone(backend, request):
        ran.replies.append(reply)
        if ran.text:
            request.cancel.set()
    assert ran.finished.reason == "cancelled"
    assert 0 < len(ran.text) < 4000
    again = ask(backend, question("Still there?", config=GenerationConfig(max_new_tokens=8)))
    assert again.ended.message == ""


def test_a_model_that_it_lacks_is_said(server: RemoteAddress) -> None:
    backend = RemoteBackend(patience=SLOW)
    backend.load(LoadRequest(str(server.with_model("tiny/none")), "None"), lambda _: None)
    ran = ask(backend)
    assert ran.ended.message.startswith(f"The server at {server.origin} ")
