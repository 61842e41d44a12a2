"""GGUF files that others made of others' weights: numbers, logits and text as transformers has them.

Greedy text is compared by induction: our text is that of transformers if each of its tokens is the likeliest behind
those before it by transformers' logits, which one pass over all of it gives. Two tokens that are as likely as each
other, to the accuracy of the logits, are both right.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging

from engine import GenerationFinished, Model, generate, load_model
from engine.decoding.gap_plan import plan_gap
from engine.layers.kv_cache import KVCache
from engine.models.gguf_import import GGUFModel, import_gguf, plan_import
from engine.quant import UINT4, Precision
from engine.text.gap_markers import TextGap, markers_of
from tests.bench import infilling
from tests.real import packages

pytestmark = pytest.mark.real

logging.disable_progress_bar()
CLOSE = 2e-3  # of logits, which reach 45
SPLIT = 2e-2  # where a text is read in pieces, which adds up in another order; Gemma's own fp32 is 2e-3 from its fp64
TIES = 2  # tokens of a text that may be as likely as another, to that accuracy
PROMPTS = (
    "def fibonacci(n):\n",
    "The capital of France is",
    "Once upon a time there was a king who",
    "import torch\n\n\nclass Attention(",
    "SELECT name, COUNT(*) FROM",
    '<!DOCTYPE html>\n<html lang="en">\n',
    "法国的首都是",
    "عاصمة فرنسا هي",
    "Die Hauptstadt von Frankreich ist",
    "1, 1, 2, 3, 5, 8, 13,",
    "Q: What is 17 times 23?\nA:",
    "# Notes of the meeting\n\n- ",
    "The opposite of hot is",
    "To be, or not to be,",
    '{"name": "Ann", "age": ',
    "fn main() {\n    println!(",
    "Dear Sir or Madam,\r\n\r\nI am writing to",
    "👩‍👩‍👧‍👦 means",
    "    for (int i = 0; i < n; i++) {",
    "In 1969, the first",
)
LONG = "A quick brown fox jumps over the lazy dog, and then it sleeps under the old oak. " * 60
TOKENS = int(os.environ.get("SAFELIGHT_REAL_TOKENS", "200"))  # of a text; they take 10 to 60 minutes a model
FILES: dict[str, tuple[Callable[[], Path], int]] = {
    "SmolLM2-135M": (packages.smollm2_135m, TOKENS),
    "Qwen2.5-Coder-0.5B": (packages.qwen_05b, TOKENS),
    "Gemma-3-270M": (packages.gemma3_270m, TOKENS),
    "Qwen2.5-Coder-1.5B": (packages.qwen_15b, max(1, TOKENS // 5)),
}
"""The files, and how many tokens a text of each has."""
TURNS = ("Write a Python function that reverses a string.", "Now without slicing.", "How long does it take?")


@pytest.fixture(scope="module", params=FILES)
def case(request: pytest.FixtureRequest) -> tuple[Path, int]:
    find, tokens = FILES[request.param]
    return find(), tokens


@pytest.fixture(scope="module")
def file(case: tuple[Path, int]) -> Path:
    return case[0]


@pytest.fixture(scope="module")
def count(case: tuple[Path, int]) -> int:
    """Tokens of a text."""
    return case[1]


@pytest.fixture(scope="module")
def theirs(file: Path) -> PreTrainedModel:
    found: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    ).eval()
    return found


@pytest.fixture(scope="module")
def folder(file: Path, theirs: PreTrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a model folder that transformers wrote of the weights, in fp32."""
    made = tmp_path_factory.mktemp("folder")
    save_folder(file, theirs, made)
    return made


def save_folder(file: Path, theirs: PreTrainedModel, made: Path) -> None:
    """Saves what transformers read of a GGUF file as a model folder in fp32, with the file's tokenizer."""
    config = type(theirs.config)(**{k: v for k, v in theirs.config.to_dict().items() if k != "quantization_config"})
    fresh: Any = type(theirs)(config)
    fresh.load_state_dict(theirs.state_dict(), assign=True)
    fresh.save_pretrained(made)
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(made)


@torch.no_grad()
def logits_of(model: PreTrainedModel, ids: Tensor) -> Tensor:
    found: Tensor = model(input_ids=ids[None]).logits[0]
    return found


def test_tensors_and_logits_are_those_of_transformers(file: Path, theirs: PreTrainedModel) -> None:
    """Reads a text, too, that is longer than the windows, at once and in pieces."""
    opened = GGUFModel.open_file(file)
    ours: Any = opened.weights("none", torch.device("cpu"), torch.float32).load()
    expected = theirs.state_dict()
    for path, tensor in ours.state_dict().items():
        torch.testing.assert_close(
            tensor, expected[path if path in expected else f"model.{path}"], atol=1e-6, rtol=0, msg=path
        )
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    ids = torch.tensor(tokenizer(LONG).input_ids)
    wanted = logits_of(theirs, ids)
    torch.testing.assert_close(ours.decode(ids, ours.new_cache(), 0), wanted, atol=CLOSE, rtol=0)
    cache = ours.new_cache()
    found = torch.cat([ours.decode(piece, cache, len(piece)) for piece in ids.split(300)])
    torch.testing.assert_close(found, wanted, atol=SPLIT, rtol=0)


def opened(folder: Path) -> Model:
    return load_model(folder, device="cpu", dtype="float32", quantization="none")


def test_greedy_text_of_the_folder_is_that_of_transformers(folder: Path, theirs: PreTrainedModel, count: int) -> None:
    model = opened(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for prompt in PROMPTS:
        ids = model.tokenizer.encode_prompt(prompt)
        assert ids == tokenizer(prompt).input_ids
        assert len(holds_greedy(model, ids, theirs, count)) == count


def test_a_line_of_a_function_is_filled_in_as_by_transformers(folder: Path, theirs: PreTrainedModel) -> None:
    model = opened(folder)
    if markers_of(model.tokenizer) is None:
        pytest.skip("its vocabulary has no markers of gaps")
    ends = plan_gap(model, TextGap("", ""), infilling.settings(model)).config.eos_token_ids
    assert model.tokenizer.token_id("<|fim_pad|>") in ends
    for task in infilling.tasks(10):
        prompt, tokens = infilling.written(model, task)
        assert infilling.is_greedy(theirs, model, prompt, tokens, ends), task.name


def test_a_chat_of_three_turns_goes_on_from_its_cache(folder: Path, theirs: PreTrainedModel, count: int) -> None:
    model = opened(folder)
    if not (folder / "chat_template.jinja").exists():
        pytest.skip("a base model has no chat template")
    tokenizer, cache, messages = AutoTokenizer.from_pretrained(folder), model.new_cache(), list[dict[str, str]]()
    for turn in TURNS:
        messages.append({"role": "user", "content": turn})
        ids = model.chat_ids(messages)
        assert ids == tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
        kept = cache.length
        text = holds_greedy(model, ids, theirs, count, cache, ends=model.generation_defaults.eos_token_ids)
        assert cache.length > max(kept, len(ids) - 1)
        messages.append({"role": "assistant", "content": model.tokenizer.decode(text)})


def holds_greedy(
    model: Model,
    ids: list[int],
    theirs: PreTrainedModel,
    count: int,
    cache: KVCache | None = None,
    ends: tuple[int, ...] = (),
) -> list[int]:
    """Returns our text behind token ids, of at most ``count`` tokens, after it was held to their logits."""
    settings = model.generation_defaults.replace(
        max_new_tokens=count, sampling_temperature=0.0, repetition_penalty=1.0, eos_token_ids=ends
    )
    *_, last = generate(model, ids, settings, cache=cache)
    assert isinstance(last, GenerationFinished)
    text: list[int] = last.tokens.tolist()
    rows = logits_of(theirs, torch.tensor([*ids, *text]))[len(ids) - 1 :]
    assert len(text) == count or int(rows[-1].argmax()) in ends
    behind = rows[:-1].amax(dim=-1) - rows[:-1].gather(-1, torch.tensor(text)[:, None])[:, 0]
    assert behind.max() <= CLOSE
    assert int((behind > 0).sum()) <= TIES
    return text


def difference(theirs: PreTrainedModel, ours: Path, dtype: str) -> float:
    """Returns how far apart the losses on a text are, in nats a token, of our model and the file's own weights."""
    model = load_model(ours, device="cpu", dtype=dtype)
    ids = torch.tensor(model.tokenizer.encode_prompt(Path(__file__).read_text(encoding="utf-8")))[:700]
    first, second = (
        torch.nn.functional.cross_entropy(logits[:-1].float(), ids[1:]).item()
        for logits in (logits_of(theirs, ids), model.decode(ids, model.new_cache(), 0))
    )
    return abs(first - second)


def test_a_packed_copy_says_nearly_the_same(file: Path, theirs: PreTrainedModel, tmp_path: Path) -> None:
    """Imports in 8 bits. Four cost small models much: Gemma 3 270M 0.7 nats in int4, 0.4 in nf4."""
    planned = plan_import(file, quantization="int8")
    manifest = import_gguf(file, tmp_path / "store", "int8", torch.device("cpu"))
    assert planned.copy_bytes == pytest.approx(sum(shard.bytes for shard in manifest.files.values()), rel=0.05)
    assert difference(theirs, tmp_path / "store", "float32") < 0.03


@pytest.mark.parametrize(("dtype", "limit"), [("auto", 0.03), ("float32", 0.003)])
def test_the_file_itself_says_nearly_the_same(dtype: str, limit: float, file: Path, theirs: PreTrainedModel) -> None:
    """Loads it without an import, as the app does: codes are kept, also of files that mix types."""
    assert difference(theirs, file, dtype) < limit


def test_four_bits_with_a_minimum_are_taken_over_exactly(count: int) -> None:
    """SmolLM2's file is Q4_1 in all layers: greedy text is that of transformers on the dequantised weights."""
    file = packages.smollm2_135m()
    theirs: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    ).eval()
    model = load_model(file, device="cpu", dtype="float32")
    assert model.precision == Precision(attention=UINT4, dense=UINT4)
    for prompt in PROMPTS:
        assert len(holds_greedy(model, model.tokenizer.encode_prompt(prompt), theirs, min(count, 60))) == min(count, 60)
