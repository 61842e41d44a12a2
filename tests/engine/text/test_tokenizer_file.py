"""A stranger's tokenizer.json: what it asks of the library is known, or it is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import EMBEDDED, SafelightError
from engine.text.tokenizer import MOST_CHARACTERS, Tokenizer

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


GEMMA = {
    "normalizer": replaced(" ", "\u2581"),
    "pre_tokenizer": split({"String": " "}, "MergedWithPrevious"),
    "post_processor": {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}},
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


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: raw.update(pre_tokenizer=split({"Regex": "((.*)*)*Z"})), "regular expression"),
        (lambda raw: raw.update(normalizer=replaced("a", "b" * 1_000)), "more than 16 characters"),
        (
            lambda raw: raw.update(normalizer={"type": "Sequence", "normalizers": [replaced("a", "a" * 16)] * 6}),
            "times as long",
        ),
        (lambda raw: raw.update(normalizer={"type": "Sequence", "normalizers": [GEMMA["decoder"]]}), "Sequence"),
        (lambda raw: raw.update(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"}), "Precompiled"),
        (lambda raw: raw.update(decoder={"type": "CTC"}), "CTC"),
        (lambda raw: raw.update(normalizer=5), "damaged"),
        (lambda raw: raw["model"].update(type="WordPiece", max_input_chars_per_word=10**9), "WordPiece"),
        (lambda raw: raw["model"].update(type="x" * 5_000), "byte-pair"),
        (lambda raw: raw["model"].update(dropout=0.5), "at random"),
        (lambda raw: raw["model"].update(vocab=7), "vocab"),
        (lambda raw: raw["model"].update(vocab={"a": {"b": 1}}), "vocab"),
        (lambda raw: raw["model"].update(merges="a b"), "merges"),
        (lambda raw: raw["model"].update(merges=[["a"]]), "damaged"),
        (lambda raw: raw["model"].update(merges=[["a", "nothing"]]), "damaged"),
        (lambda raw: raw["model"].update(unk_token="x" * 5_000), "unk_token"),
        (lambda raw: raw["model"]["vocab"].update({"\\" * 5_000: 200}), "1024 bytes"),
        (lambda raw: raw["model"]["vocab"].update({f"t{i}": i for i in range(2**19 + 9)}), "tokens"),
        (lambda raw: raw["added_tokens"].append(raw["added_tokens"][0] | {"content": "x" * 5_000}), "1024"),
        (lambda raw: raw.update(added_tokens=raw["added_tokens"] * 2_000), "adds more than"),
        (lambda raw: raw.update(added_tokens=[5]), "damaged"),
        (lambda raw: raw.clear(), "damaged"),
    ],
)
def test_what_is_not_known_to_be_bounded_is_refused(change: Change, said: str, tmp_path: Path) -> None:
    with pytest.raises(SafelightError, match=r"tokenizer\.json") as error:
        Tokenizer.from_folder(written(tmp_path, change))
    assert said in str(error.value)
    assert len(str(error.value)) < 600


NORMALIZED = {"normalized": True}
PREFIXED = {"vocab": {" ": 0, "é": 1, " é": 2, " éé": 3}, "merges": [[" ", "é"], [" é", "é"]]}
STRIPPING = {"type": "Strip", "content": "o", "start": 0, "stop": 2}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda raw: raw.update(decoder=STRIPPING), id="a decoder takes two signs off each token"),
        pytest.param(lambda raw: raw.update(normalizer={"type": "Prepend", "prepend": ""}), id="nothing is prepended"),
        pytest.param(
            lambda raw: raw.update(
                normalizer=replaced("<eos>", ""), added_tokens=[raw["added_tokens"][1] | NORMALIZED]
            ),
            id="nothing is left of a token",
        ),
        pytest.param(
            lambda raw: raw["model"].update(PREFIXED, continuing_subword_prefix=" "), id="a prefix is cut within a sign"
        ),
    ],
)
def test_what_the_library_panics_at_is_not_given_to_it(
    change: Change, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It would print its panic before our line, or, at the last of these, end the process."""
    with pytest.raises(SafelightError, match=r"does not run|leaves nothing"):
        Tokenizer.from_folder(written(tmp_path, change))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000, b"\xff", b'{"model": null}', b"\x00" * 100])
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
    assert tokenizer.count("x" * (MOST_CHARACTERS + 5)) == MOST_CHARACTERS + 5
    with pytest.raises(SafelightError, match="shorten it"):
        tokenizer.encode("x" * (MOST_CHARACTERS + 1))


def test_a_panic_of_the_library_is_told_in_a_line() -> None:
    class PanicException(BaseException):
        """As the library's bindings raise it; it is not exported."""

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
