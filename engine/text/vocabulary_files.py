"""Makes the content of ``tokenizer.json`` of the files that Dream has in its place: ``vocab.json`` and ``merges.txt``.

Its rules, Qwen2's, are those of ``tokenization_dream.py``, which is not run. Its added tokens are in
``tokenizer_config.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import SafelightError
from engine.files import read_bytes
from engine.text.published_patterns import QWEN2

FILE_BYTES = 2**26  # of a tokenizer.json, or of one of these; Gemma's has 33 MB
CLASSES = ("DreamTokenizer", "Qwen2Tokenizer")  # values of ``tokenizer_class``
FILES = ("vocab.json", "merges.txt")
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
_FACTS = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}


def stands_in(folder: Path, settings: Mapping[str, Any]) -> bool:
    """True if a folder without ``tokenizer.json`` has these files, and its settings a class that has these rules."""
    has_class = settings.get("tokenizer_class") in CLASSES
    return has_class and not (folder / "tokenizer.json").exists() and all((folder / name).exists() for name in FILES)


def joined(folder: Path, settings: Mapping[str, Any]) -> bytes:
    """Returns the content of a ``tokenizer.json``; ``settings`` are those of ``tokenizer_config.json``.

    Raises:
        SafelightError: a file cannot be read.
    """
    try:
        vocabulary, lines = (read_bytes(folder / name, FILE_BYTES) for name in FILES)
        merges = [line for line in lines.decode().splitlines() if line and not line.startswith("#version")]
    except (OSError, UnicodeDecodeError) as error:
        raise SafelightError(f"{folder / FILES[0]} or {FILES[1]} cannot be read: {error}") from error
    known = settings.get("added_tokens_decoder")
    added = [
        {"id": int(number), "content": entry["content"]}
        | {name: entry.get(name) is True if name in entry else default for name, default in _FACTS.items()}
        for number, entry in (known.items() if isinstance(known, dict) else ())
        if number.isdecimal() and len(number) < 10 and isinstance(entry, dict) and isinstance(entry.get("content"), str)
    ]
    outline = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [QWEN2.split, _BYTES]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    }
    head = json.dumps(outline)[:-1] + ', "model": {"type": "BPE", "vocab": '
    return b"".join((head.encode(), vocabulary.strip(), b', "merges": ', json.dumps(merges).encode(), b"}}"))
