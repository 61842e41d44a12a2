"""Parts of ``packaging/small_models`` for tests: the tokenizer and the files of the small models, and tasks."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "packaging"))

from small_models.recipes import TOOL_MARKS
from small_models.rows import prompt_text
from small_models.skills import sample
from small_models.sudoku_pictures import photograph
from small_models.tokenizer import CHARACTERS, EOS, SPECIAL, build_tokenizer, write_tokenizer
from small_models.tool_rows import read_output
from small_models.writing import write_checkpoint

__all__ = [
    "CHARACTERS",
    "EOS",
    "SPECIAL",
    "TOOL_MARKS",
    "build_tokenizer",
    "photograph",
    "prompt_text",
    "read_output",
    "sample",
    "write_checkpoint",
    "write_tokenizer",
]
