"""Text to token ids and back, by the checkpoint's own tokenizer.json."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from tokenizers import Tokenizer as FastTokenizer

from engine.errors import SafelightError


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
        if not path.exists():
            raise SafelightError(f"{path} is missing; download the model again")
        try:
            return Tokenizer(FastTokenizer.from_file(str(path)))
        except Exception as error:  # the library raises bare Exception
            raise SafelightError(f"{path} is damaged ({error}); download it again") from error

    @property
    def vocab_size(self) -> int:
        return int(self._fast.get_vocab_size())

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; special tokens written out in it are recognised, none are added."""
        return list(self._fast.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Text of token ids."""
        return str(self._fast.decode([int(i) for i in ids], skip_special_tokens=skip_special))

    def piece(self, token: int) -> str:
        """What one token looks like by itself, with special tokens written out."""
        return self._piece(int(token))

    def is_special(self, token: int) -> bool:
        """Whether a token is a control token (end, padding, turn marks)."""
        return int(token) in self._special

    def token_id(self, token: str) -> int | None:
        """The id of a token by its written form."""
        found: int | None = self._fast.token_to_id(token)
        return found

    def _decode_one(self, token: int) -> str:
        raw = self._fast.id_to_token(token)
        if raw is None:
            return f"<{token}>"
        if token in self._special:
            return str(raw)
        # SentencePiece decoders strip a leading space; it belongs to the token.
        if "\u2581" in raw:
            return str(raw.replace("\u2581", " "))
        return str(self._fast.decode([token], skip_special_tokens=False))
