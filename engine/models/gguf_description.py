"""Description of a GGUF file's model in the form of a model folder. Knows no architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from engine.errors import SafelightError
from engine.weights.gguf.checkpoint import Rewritten
from engine.weights.gguf.header import GGUFHeader
from engine.weights.layout import Names

TABLE = "token_embd.weight"
ROPE = "rope_freqs.weight"  # divisors of the frequencies of a rotation


@dataclass(frozen=True)
class GGUFDescription:
    """A model's small files, and the names and storage of its tensors."""

    config: dict[str, Any]  # config.json
    generation: dict[str, Any]  # generation_config.json
    names: Names
    rewritten: Rewritten = field(default_factory=Rewritten)
    notes: tuple[str, ...] = ()  # for a plan


Describe: TypeAlias = Callable[[GGUFHeader, Callable[[str], int | None]], GGUFDescription]
"""Describes a file of an architecture: its header, and the id of a token by its text, or None -> the description.

Raises:
    SafelightError: a phrase on what is missing or not implemented, to follow the file's name.
"""


@dataclass(frozen=True)
class GGUFKeys:
    """The keys of a file's architecture."""

    header: GGUFHeader
    architecture: str

    def find(self, name: str, default: Any = None) -> Any:
        """Returns a value that is no list, or the default.

        Raises:
            SafelightError: it is a list.
        """
        value = self.header.values.get(f"{self.architecture}.{name}")
        if isinstance(value, list):
            raise SafelightError(f"has a list under the key {self.architecture}.{name}")
        return default if value is None else value

    def need(self, name: str) -> Any:
        """Returns a value, as ``find``.

        Raises:
            SafelightError: it is missing.
        """
        value = self.find(name)
        if value is None:
            raise SafelightError(f"lacks the key {self.architecture}.{name}")
        return value

    def token(self, name: str) -> int | None:
        """Returns the id of a named token of the tokenizer, such as ``eos``."""
        token_id = self.header.values.get(f"tokenizer.ggml.{name}_token_id")
        return token_id if isinstance(token_id, int) and not isinstance(token_id, bool) else None


def table_shape(header: GGUFHeader) -> tuple[int, int]:
    """Returns the shape of the token table: vocabulary, width.

    Raises:
        SafelightError: there is none, or it is no matrix.
    """
    table = header.tensors.get(TABLE)
    if table is None:
        raise SafelightError(f"lacks the tensor {TABLE}")
    if len(table.shape) != 2:
        raise SafelightError(f"has a token table of shape {table.shape}")
    return table.shape[0], table.shape[1]
