"""Text to token ids and back, by the checkpoint's own tokenizer.json."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from tokenizers import Encoding
from tokenizers import Tokenizer as FastTokenizer

from engine.errors import SafelightError, quoted
from engine.text.tokenizer_file import read_tokenizer_file, reduced

MOST_CHARACTERS = 2**21  # encoded at once; each may become a token of 200 bytes
MOST_ID = 2**32 - 1


class Tokenizer:
    """A checkpoint's tokenizer."""

    def __init__(self, fast: FastTokenizer) -> None:
        self._fast = fast
        self._special = {i for i, token in fast.get_added_tokens_decoder().items() if token.special}
        self._piece = lru_cache(maxsize=65_536)(self._decode_one)

    @staticmethod
    def from_folder(folder: Path) -> Tokenizer:
        """Read ``tokenizer.json``.

        Raises:
            SafelightError: the file is missing or damaged.
        """
        path = folder / "tokenizer.json"
        data = read_tokenizer_file(path)
        with _in_words(f"{path} is damaged; download it again"):
            return Tokenizer(_loaded(data))

    @staticmethod
    def from_bytes(data: bytes, name: str) -> Tokenizer:
        """As ``from_folder``, of what the file holds; ``name`` says in messages what it is."""
        found = reduced(data, name)
        with _in_words(f"{name} is damaged; ask for it again"):
            return Tokenizer(_loaded(found))

    @property
    def vocab_size(self) -> int:
        return int(self._fast.get_vocab_size())

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; special tokens written out in it are recognised, none are added.

        Raises:
            SafelightError: it has more than ``MOST_CHARACTERS``.
        """
        if len(text) > MOST_CHARACTERS:
            raise SafelightError(
                f"the text has more than {MOST_CHARACTERS:,} characters, the most that is read; shorten it"
            )
        return list(self._encoded(text).ids)

    def count(self, text: str) -> int:
        """How many token ids a text of any length has, to within one for every ``MOST_CHARACTERS``."""
        pieces = (text[start : start + MOST_CHARACTERS] for start in range(0, len(text), MOST_CHARACTERS))
        return sum(len(self._encoded(piece)) for piece in pieces)

    def _encoded(self, text: str) -> Encoding:
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # a lone surrogate has no UTF-8
        with _in_words("the model's tokenizer cannot read this text; download the model again"):
            # A batch is encoded without the GIL, so that the window responds while a long text is encoded.
            found: Encoding = self._fast.encode_batch_fast([whole], add_special_tokens=False)[0]
            return found

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Text of token ids; unknown ids are left out."""
        known = [int(i) for i in ids if 0 <= int(i) <= MOST_ID]
        with _in_words("the model's tokenizer cannot write these tokens; download the model again"):
            return str(self._fast.decode(known, skip_special_tokens=skip_special))

    def piece(self, token: int) -> str:
        """The text of one token by itself, with special tokens written out."""
        return self._piece(int(token))

    def is_special(self, token: int) -> bool:
        """Whether a token is a control token (end, padding, turn marks)."""
        return int(token) in self._special

    def token_id(self, token: str) -> int | None:
        """The id of a token by its written form."""
        found: int | None = self._fast.token_to_id(token)
        return found

    @property
    def fast(self) -> FastTokenizer:
        """The library's own."""
        return self._fast

    def _decode_one(self, token: int) -> str:
        raw = self._fast.id_to_token(token) if 0 <= token <= MOST_ID else None
        if raw is None:
            return f"<{token}>"
        if token in self._special:
            return str(raw)
        # SentencePiece decoders strip a leading space, which belongs to the token.
        if "\u2581" in raw:
            return str(raw.replace("\u2581", " "))
        return self.decode([token], skip_special=False)


def _loaded(data: bytes) -> FastTokenizer:
    """The library's tokenizer of a file that was reduced."""
    fast = FastTokenizer.from_buffer(data)
    added = [token.content for token in fast.get_added_tokens_decoder().values() if token.normalized and token.content]
    if fast.normalizer is not None and not all(map(fast.normalizer.normalize_str, added)):
        raise ValueError("its normalizer leaves nothing of a token")  # the library would panic at the first text
    return fast


@contextmanager
def _in_words(message: str) -> Iterator[None]:
    """Turn any failure of the library into a message; its panics are not an ``Exception``."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise SafelightError(f"{message} ({quoted(str(error))})") from error
