"""A stranger's tokenizer.json: what it asks of the library is known, or it is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, pre_tokenizers
from transformers import AutoTokenizer

from engine import EMBEDDED, SafelightError
from engine.text.published_patterns import GPT2, PUBLISHED, QWEN2, PublishedPattern
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


@pytest.mark.parametrize("pattern", PUBLISHED, ids=lambda known: known.name)
def test_published_patterns_split(pattern: PublishedPattern, tmp_path: Path) -> None:
    steps = [pattern.split, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]
    change = {"type": "Sequence", "pretokenizers": steps}
    tokenizer = Tokenizer.from_folder(written(tmp_path, lambda raw: raw.update(pre_tokenizer=change)))
    text = "We'LL see  1234 HTTPServer/2\r\n\r\n  e\u0301 \u00a0!?\n"
    assert [piece for piece, _ in tokenizer.fast.pre_tokenizer.pre_tokenize_str(text)]
    meant = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern.pattern), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    assert tokenizer.fast.pre_tokenizer.pre_tokenize_str(text) == meant.pre_tokenize_str(text)


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
    """As ``transformers`` has it, for which ``add_bos_token`` counts nothing where there is a tokenizer.json."""
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


@pytest.mark.parametrize("name", ["Qwen2Tokenizer", "Qwen2TokenizerFast", "PreTrainedTokenizerFast"])
def test_a_class_that_composes_characters(name: str, tmp_path: Path) -> None:
    """``transformers`` normalizes for Qwen's class, also where the file, made of a GGUF file, does not say so."""
    folder = written(tmp_path, lambda raw: raw["model"]["vocab"].update({"é": 200}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
    assert (200 in Tokenizer.from_folder(folder).encode("e\u0301")) == name.startswith("Qwen2")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda raw: raw.update(pre_tokenizer=split({"Regex": "((.*)*)*Z"})),
            "expression '((.*)*)*Z' (Split)",
        ),
        (lambda raw: raw.update(pre_tokenizer=split({"Regex": "(" * 9_000})), "choose a model that has one of them"),
        (
            lambda raw: raw.update(pre_tokenizer=split({"Regex": QWEN2.pattern + "?"})),
            "Qwen2, Qwen3.5, Llama 3, tekken",
        ),
        (lambda raw: raw.update(pre_tokenizer=split({"Regex": QWEN2.pattern}, "Removed")), "behavior 'Removed'"),
        (lambda raw: raw.update(pre_tokenizer=QWEN2.split | {"invert": True}), "invert True"),
        (
            lambda raw: raw.update(normalizer={"type": "Replace", "pattern": {"Regex": GPT2.pattern}, "content": ""}),
            "(Replace)",
        ),
        (lambda raw: raw.update(post_processor={"type": "BertProcessing"}), "BertProcessing"),
        (lambda raw: raw.update(post_processor=around("<bos>", 2, 9)), "more than 8 tokens"),
        (lambda raw: raw.update(post_processor=around("<bos>", 2**31)), "damaged"),
        (lambda raw: raw.update(post_processor=around("<bos>", -1)), "adds unknown tokens"),
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
