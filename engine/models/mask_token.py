"""Finds the token of positions that are not written yet, in the files of a checkpoint's tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.files import read_json
from engine.text.tokenizer import Tokenizer


def mask_token_in(folder: Path) -> int | None:
    """Returns the id of ``mask_token`` in a folder's ``tokenizer_config.json``; None if its files do not say.

    The id stands in the same file, or is the tokenizer's, which is slow to read.

    Raises:
        SafelightError: a file is damaged.
    """
    path = folder / "tokenizer_config.json"
    settings = read_json(path) if path.exists() else {}
    token = _content(settings.get("mask_token"))
    known = settings.get("added_tokens_decoder")
    for number, entry in known.items() if isinstance(known, dict) else ():
        if token is not None and _content(entry) == token and number.isdecimal() and len(number) < 10:
            return int(number)
    if token is None or not (folder / "tokenizer.json").exists():
        return None
    return Tokenizer.from_folder(folder).token_id(token)


def _content(token: Any) -> str | None:
    """Returns a token's text, given by itself or in an object."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None
