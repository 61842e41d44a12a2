"""Converts text to token ids and back, with the checkpoint's own tokenizer.json.

The file is followed as it is, as ``transformers`` does for most classes of ``tokenizer_config.json``. Two of its
classes rebuild a tokenizer by their own rules. ``Qwen2Tokenizer`` normalizes (NFC) even if the file does not; this is
done here, too, as all Qwen models were trained so. ``GPT2Tokenizer``, which SmolLM2's settings name, drops the
``Digits`` of its file; that is not done here, because SmolLM2 was trained with them.
"""

from __future__ import annotations

import itertools
import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as FastTokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import NFC

from engine.errors import SafelightError, quoted
from engine.files import read_bytes, read_json
from engine.text.vocabulary_files import FILE_BYTES, joined, stands_in

BREAK = "\ufdd0"
"""The character within a broken token. Unicode guarantees that it never is a character of a text."""
MAX_ENCODED_CHARACTERS = 2**21  # encoded at once; each may become a token of 200 bytes
MAX_ID = 2**32 - 1
COMPOSING = ("Qwen2Tokenizer", "Qwen2TokenizerFast")
"""Values of ``tokenizer_class`` that normalize (NFC), even if the file does not say so."""
_IN_BRACKETS = re.compile(r"\s*[<\[\]].*[>\[\]]\s*", re.DOTALL)
_HTML = re.compile(
    "</?(?:table|caption|thead|tbody|tfoot|t[rhd]|h[1-6]|blockquote|strong|em|code|su[bp]|html|body|footer|div|span|"
    "ul|li|img|iframe|bbox|[abiu])>"
)
"""Tokens of Gemma's vocabulary that are text."""


class Tokenizer:
    """A checkpoint's tokenizer.

    Args:
        before, after: tokens added before and after a text that no template wrote.
    """

    def __init__(self, fast: FastTokenizer, before: tuple[int, ...] = (), after: tuple[int, ...] = ()) -> None:
        self.fast = fast  # the library's tokenizer
        self.before, self.after = before, after
        self._added = {i: token.content for i, token in fast.get_added_tokens_decoder().items()}
        self._special = {i for i, token in fast.get_added_tokens_decoder().items() if token.special}
        self._written = {token for token in self._added.values() if len(token) > 1}
        self._sizes: dict[str, set[int]] = defaultdict(set)  # of added tokens, by their first character
        for token in self._written:
            self._sizes[token[0]].add(len(token))
        self._first_of_added = re.compile("[" + "".join(map(re.escape, self._sizes)) + "]" if self._sizes else "(?!)")
        self.inert = self.inert_with()
        """Returns a text with its control tokens broken, for ``encode_rendered``."""
        self._piece = lru_cache(maxsize=65_536)(self._decode_one)

    @cached_property
    def _plain(self) -> FastTokenizer:
        """The library's tokenizer without added tokens."""
        plain = FastTokenizer(self.fast.model)
        plain.normalizer, plain.pre_tokenizer = self.fast.normalizer, self.fast.pre_tokenizer
        return plain

    @cached_property
    def _normalizes_added(self) -> bool:
        """True if a text in another form may be an added token."""
        added = self.fast.get_added_tokens_decoder().values()
        return self.fast.normalizer is not None and any(token.normalized for token in added)

    @staticmethod
    def from_folder(folder: Path, before: tuple[int, ...] = ()) -> Tokenizer:
        """Reads ``tokenizer.json``, or what stands in for it, and the class that ``tokenizer_config.json`` names.

        ``add_bos_token`` in ``tokenizer_config.json`` is ignored, as in ``transformers``.

        Args:
            before: as for ``Tokenizer``, if the file adds nothing.

        Raises:
            SafelightError: a file is missing or damaged.
        """
        path, settings_path = folder / "tokenizer.json", folder / "tokenizer_config.json"
        settings = read_json(settings_path) if settings_path.exists() else {}
        if stands_in(folder, settings):
            return Tokenizer.from_bytes(joined(folder, settings), str(folder / "vocab.json"))
        try:
            data = read_bytes(path, FILE_BYTES)
        except FileNotFoundError:
            raise SafelightError(f"{path} is missing; download the model again") from None
        except OSError as error:
            raise SafelightError(f"{path} cannot be read: {error.strerror or error}") from error
        with _in_words(f"{path} is damaged; download it again"):
            fast = FastTokenizer.from_buffer(data)
            if fast.normalizer is None and settings.get("tokenizer_class") in COMPOSING:
                fast.normalizer = NFC()
            return _prepared(fast, before)

    @staticmethod
    def from_bytes(data: bytes, name: str) -> Tokenizer:
        """Reads a tokenizer as ``from_folder``, from a file's content; ``name`` stands for it in messages."""
        with _in_words(f"{name} is damaged; ask for it again"):
            return _prepared(FastTokenizer.from_buffer(data))

    @staticmethod
    def from_parts(raw: dict[str, Any], name: str) -> Tokenizer:
        """Makes a tokenizer as ``from_bytes``, of a content whose merges are pairs.

        Vocabulary and merges go to the library as they are: to write them as JSON and read them again would take most
        of the time.
        """
        model, empty = raw["model"], {"vocab": dict[str, int](), "merges": list[str]()}
        fields = {name: value for name, value in model.items() if name not in ("type", "vocab", "merges")}
        with _in_words(f"{name} is damaged; ask for it again"):
            fast = FastTokenizer.from_str(json.dumps(raw | {"added_tokens": [], "model": model | empty}))
            fast.model = BPE(model["vocab"], model["merges"], **fields)
            tokens = [{name: value for name, value in one.items() if name != "id"} for one in raw["added_tokens"]]
            fast.add_tokens([AddedToken(**token) for token in tokens])
            return _prepared(fast)

    def inert_with(self, tokens: Iterable[str] = ()) -> Inert:
        """Returns what breaks the control tokens in a text, and others by their written form; see ``inert``."""
        return Inert([*(text for token, text in self._added.items() if self.is_control(token)), *tokens])

    @property
    def vocab_size(self) -> int:
        return int(self.fast.get_vocab_size())

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of a text; special tokens written out in it are recognised, none are added.

        Raises:
            SafelightError: it has more than ``MAX_ENCODED_CHARACTERS``.
        """
        _require_bounded(text)
        return self._encoded(text)

    def encode_prompt(self, text: str) -> list[int]:
        """Encodes a text that no template wrote, as ``encode``: ``before`` and ``after`` are added where missing."""
        ids = self.encode(text)
        before = () if tuple(ids[: len(self.before)]) == self.before else self.before
        after = () if self.after and tuple(ids[-len(self.after) :]) == self.after else self.after
        return [*before, *ids, *after]

    def encode_rendered(self, text: str) -> list[int]:
        """Encodes a template's output, as ``encode``: control tokens that ``inert`` broke are read as ordinary text."""
        _require_bounded(text)
        return self._rendered(text)

    def encode_inert(self, text: str) -> list[int]:
        """Encodes a text from outside, as ``encode``: its control tokens are read as ordinary text."""
        return self.encode_rendered(self.inert(text))

    def count(self, text: str) -> int:
        """Counts the ids of ``encode_rendered`` for a text of any length, to one per ``MAX_ENCODED_CHARACTERS``."""
        pieces = (text[start : start + MAX_ENCODED_CHARACTERS] for start in range(0, len(text), MAX_ENCODED_CHARACTERS))
        return sum(len(self._rendered(piece)) for piece in pieces)

    def _rendered(self, text: str) -> list[int]:
        text = self._with_needed_breaks(text)
        if BREAK not in text:
            return self._encoded(text)
        whole = _whole(text)
        with _in_words("the model's tokenizer cannot read this text; download the model again"):
            encoding = self.fast.encode_batch([whole], add_special_tokens=False)[0]
            tokens = list(zip(encoding.ids, encoding.offsets, strict=True))
            ids: list[int] = []
            # Between tokens that were added to the vocabulary, a text is split and merged by itself.
            for is_added, group in itertools.groupby(tokens, lambda token: self._is_added(whole, *token)):
                run = list(group)
                part = whole[run[0][1][0] : run[-1][1][1]]
                if not is_added and BREAK in part:
                    bare = part.replace(BREAK, "")
                    ids += self._plain.encode_batch_fast([bare], add_special_tokens=False)[0].ids
                else:
                    ids += [token for token, _ in run]
            return ids

    def _with_needed_breaks(self, text: str) -> str:
        """Returns a text with only those of its breaks that are within an added token."""
        if BREAK not in text or self._normalizes_added:
            return text
        parts = text.split(BREAK)
        bare = "".join(parts)
        places = list(itertools.accumulate(map(len, parts[:-1])))  # of the breaks
        needed = set[int]()
        for match in self._first_of_added.finditer(bare):
            for size in self._sizes[match[0]]:
                if bare[match.start() : match.start() + size] in self._written:
                    within = slice(bisect_right(places, match.start()), bisect_left(places, match.start() + size))
                    needed.update(places[within])
        return "".join(
            part + (BREAK if place in needed else "") for part, place in zip(parts, [*places, -1], strict=True)
        )

    def _is_added(self, text: str, token: int, place: tuple[int, int]) -> bool:
        return token in self._added and text[place[0] : place[1]].strip() == self._added[token].strip()

    def _encoded(self, text: str) -> list[int]:
        with _in_words("the model's tokenizer cannot read this text; download the model again"):
            # A batch is encoded without the GIL, so that the window responds while a long text is encoded.
            return list(self.fast.encode_batch_fast([_whole(text)], add_special_tokens=False)[0].ids)

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Returns the text of token ids; unknown ids are left out."""
        known = [int(i) for i in ids if 0 <= int(i) <= MAX_ID]
        with _in_words("the model's tokenizer cannot write these tokens; download the model again"):
            return str(self.fast.decode(known, skip_special_tokens=skip_special))

    def piece(self, token: int) -> str:
        """Returns the text of one token by itself, with special tokens written out."""
        return self._piece(int(token))

    def is_special(self, token: int) -> bool:
        """Returns True if a token is a control token (end, padding, turn marks)."""
        return int(token) in self._special

    def is_control(self, token: int) -> bool:
        """Returns True for special tokens, and for others that were added in brackets, as ``<tool_call>`` of Qwen."""
        text = self._added.get(int(token), "")
        return self.is_special(token) or (_IN_BRACKETS.fullmatch(text) is not None and _HTML.fullmatch(text) is None)

    def token_id(self, token: str) -> int | None:
        """Returns the id of a token by its written form."""
        index: int | None = self.fast.token_to_id(token)
        return index

    def _decode_one(self, token: int) -> str:
        raw = self.fast.id_to_token(token) if 0 <= token <= MAX_ID else None
        if raw is None:
            return f"<{token}>"
        if token in self._special:
            return str(raw)
        # SentencePiece decoders strip a leading space, which belongs to the token.
        if "\u2581" in raw:
            return str(raw.replace("\u2581", " "))
        return self.decode([token], skip_special=False)


class Inert:
    """Breaks control tokens in a text, so that a tokenizer reads them as ordinary text. Takes linear time.

    A person may ask what ``<|im_end|>`` is, and a page that a tool fetched may hold one: it must not end the turn. A
    template inserts messages as texts, and may cut pieces out of them. So ``BREAK`` is put after each character that
    begins any such token before, and removed afterwards by ``Tokenizer.encode_rendered``. It is put behind a text that
    is a token but for its brackets, too, as a template may write those around a name.

    Args:
        tokens: in their written form.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        known = {token.strip() for token in tokens if len(token.strip()) > 1}
        self._names = {token[cut:-1] for token in known for cut in (1, 2)} - {""}
        first = "".join(map(re.escape, {token[0] for token in known}))
        text = "" if any(map(_HTML.fullmatch, known)) else f"{_HTML.pattern}|"
        self._first = re.compile(f"{text}[{first}]") if first else None

    def __call__(self, text: str) -> str:
        """Returns the text with its control tokens broken, including overlapping ones."""
        text = text.replace(BREAK, "\N{REPLACEMENT CHARACTER}")
        broken = text if self._first is None else self._first.sub(self._broken, text)
        return broken + BREAK if text in self._names else broken

    @staticmethod
    def _broken(match: re.Match[str]) -> str:
        return match[0] + BREAK if len(match[0]) == 1 else match[0]


def _require_bounded(text: str) -> None:
    if len(text) > MAX_ENCODED_CHARACTERS:
        raise SafelightError(
            f"the text has more than {MAX_ENCODED_CHARACTERS:,} characters, the most that is read; shorten it"
        )


def _whole(text: str) -> str:
    """Replaces lone surrogates, which have no UTF-8."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _prepared(fast: FastTokenizer, default: tuple[int, ...] = ()) -> Tokenizer:
    """Returns the library's tokenizer as one that neither pads nor cuts, and adds tokens to prompts alone."""
    fast.no_padding()
    fast.no_truncation()
    text = fast.encode("x")
    own_places = [place for place, is_added in enumerate(text.special_tokens_mask) if not is_added] or [len(text)]
    before, after = tuple(text.ids[: own_places[0]]), tuple(text.ids[own_places[-1] + 1 :])
    fast.post_processor = None
    return Tokenizer(fast, before or default, after)


@contextmanager
def _in_words(message: str) -> Iterator[None]:
    """Turns any failure of the library into a message; its panics are not an ``Exception``."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise SafelightError(f"{message} ({quoted(str(error))})") from error
