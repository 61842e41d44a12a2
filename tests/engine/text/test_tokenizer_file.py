"""A tokenizer.json is read by its library; what that refuses is said in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from engine import EMBEDDED, SafelightError
from engine.text.tokenizer import MAX_ENCODED_CHARACTERS, Tokenizer

SAMPLE = EMBEDDED[0].folder / "tokenizer.json"
Change = Callable[[dict[str, Any]], Any]


def written(folder: Path, change: Change) -> Path:
    """The embedded tokenizer with a change."""
    raw = json.loads(SAMPLE.read_text(encoding="utf-8"))
    change(raw)
    (folder / "tokenizer.json").write_text(json.dumps(raw), encoding="utf-8")
    return folder


def split(pattern: dict[str, str], behavior: str = "Isolated") -> dict[str, Any]:
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False}


def replaced(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def around(name: str, token: int, count: int = 1) -> dict[str, Any]:
    """A post-processor that puts tokens before a text."""
    piece = {"SpecialToken": {"id": name, "type_id": 0}}
    return {
        "type": "Sequence",
        "processors": [
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
            {
                "type": "TemplateProcessing",
                "single": [*[piece] * count, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [],
                "special_tokens": {name: {"id": name, "ids": [token], "tokens": [name]}},
            },
        ],
    }


GEMMA = {
    "normalizer": replaced(" ", "\u2581"),
    "pre_tokenizer": split({"String": " "}, "MergedWithPrevious"),
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [],
        "special_tokens": {"<bos>": {"id": "<bos>", "ids": [2], "tokens": ["<bos>"]}},
    },
    "decoder": {"type": "Sequence", "decoders": [replaced("\u2581", " "), {"type": "ByteFallback"}, {"type": "Fuse"}]},
}


def test_a_tokenizer_as_gemma_has_it_is_read(tmp_path: Path) -> None:
    def change(raw: dict[str, Any]) -> None:
        vocabulary = raw["model"]["vocab"]
        vocabulary["\u2581"] = vocabulary.pop(" ")
        vocabulary |= {"ab": 202, 'q"[{': 200, "Regex": 201}
        raw["model"] |= {"merges": [["a", "b"]], "byte_fallback": True}
        raw.update(GEMMA)

    tokenizer = Tokenizer.from_folder(written(tmp_path, change))
    ids = tokenizer.encode("ab cab")
    assert [tokenizer.piece(token) for token in ids] == ["ab", " ", "c", "ab"]
    assert tokenizer.decode(ids) == "ab cab"
    assert tokenizer.token_id('q"[{') == 200
    assert tokenizer.count("ab cab") == 4
    assert tokenizer.before == (2,)


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        (None, (), ()),
        (around("<bos>", 2), (2,), ()),
        (around("<eos>", 1, 2), (1, 1), ()),
        (around("<bos>", 2) | {"processors": around("<bos>", 2)["processors"][:1]}, (), ()),
    ],
)
def test_what_is_put_around_a_text_without_a_template(
    file: Any, before: tuple[int, ...], after: tuple[int, ...], tmp_path: Path
) -> None:
    """Follows ``transformers``, for which ``add_bos_token`` counts nothing where there is a tokenizer.json."""
    folder = written(tmp_path, lambda raw: raw.update(post_processor=file))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<bos>", "add_bos_token": not before}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = Tokenizer.from_folder(folder)
    plain = tokenizer.encode("hi")
    assert tokenizer.encode_prompt("hi") == [*before, *plain, *after]
    assert AutoTokenizer.from_pretrained(folder)("hi").input_ids == [*before, *plain, *after]
    written_out = "".join(map(tokenizer.piece, before)) + "hi"
    assert tokenizer.encode_prompt(written_out) == [*before, *plain, *after]  # not twice
    assert tokenizer.encode_rendered(written_out) == [*before, *plain]


@pytest.mark.parametrize("name", ["Qwen2Tokenizer", "PreTrainedTokenizerFast"])
def test_a_class_that_composes_characters(name: str, tmp_path: Path) -> None:
    """``transformers`` normalizes for Qwen's class, also where the file, made of a GGUF file, does not say so."""
    folder = written(tmp_path, lambda raw: raw["model"]["vocab"].update({"é": 200}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
    assert (200 in Tokenizer.from_folder(folder).encode("e\u0301")) == name.startswith("Qwen2")


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw["model"].update(merges=[["a", "nothing"]]),
        lambda raw: raw.update(added_tokens=[5]),
        lambda raw: raw.clear(),
    ],
)
def test_what_the_library_refuses_is_one_line(change: Change, tmp_path: Path) -> None:
    with pytest.raises(SafelightError, match=r"^\S+tokenizer\.json is damaged; download it again \(.*\)$"):
        Tokenizer.from_folder(written(tmp_path, change))


@pytest.mark.parametrize("data", [b"", b"[" * 100_000, b"\xff", b'{"model": null}'])
def test_what_is_no_tokenizer_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(data)
    with pytest.raises(SafelightError, match=r"tokenizer\.json"):
        Tokenizer.from_folder(tmp_path)


def test_padding_and_truncation_do_not_reach_the_library(tmp_path: Path) -> None:
    """Padding to 10^12 tokens asks for memory that is not there, which ends the process."""
    padding = {"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
               "pad_type_id": 0, "pad_token": "<pad>"}  # fmt: skip
    truncation = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 7}
    folder = written(tmp_path, lambda raw: raw.update(padding=padding, truncation=truncation))
    assert len(Tokenizer.from_folder(folder).encode("hello")) == 5


def test_any_ids_and_any_text() -> None:
    tokenizer = Tokenizer.from_folder(SAMPLE.parent)
    assert tokenizer.decode([-1, 2**32, 2**70, 5_000, *tokenizer.encode("ok")]) == "ok"
    assert tokenizer.piece(-1) == "<-1>"
    assert tokenizer.piece(2**70) == f"<{2**70}>"
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "ab"
    assert tokenizer.count("x" * (MAX_ENCODED_CHARACTERS + 5)) == MAX_ENCODED_CHARACTERS + 5
    with pytest.raises(SafelightError, match="shorten it"):
        tokenizer.encode("x" * (MAX_ENCODED_CHARACTERS + 1))


def test_a_panic_of_the_library_is_one_line() -> None:
    class PanicException(BaseException):
        """Stands for what the library's bindings raise; it is not exported."""

    class Panicking:
        def get_added_tokens_decoder(self) -> dict[int, Any]:
            return {}

        def encode_batch_fast(self, *_: Any, **__: Any) -> Any:
            raise PanicException("Onig: retry-limit-in-match over\n")

        decode = encode_batch_fast

    tokenizer = Tokenizer(Panicking())  # type: ignore[arg-type]
    with pytest.raises(SafelightError, match="tokenizer cannot read this text"):
        tokenizer.encode("a")
    with pytest.raises(SafelightError, match="tokenizer cannot write these tokens"):
        tokenizer.decode([1])
