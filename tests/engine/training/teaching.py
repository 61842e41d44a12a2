"""A tiny model that can be taught Sudoku, and puzzles to teach it with."""

from __future__ import annotations

import csv
from pathlib import Path

from engine import GenerationConfig
from engine.config import LayerConfig
from tests.engine.small import write_checkpoint
from tests.engine.tiny import network

FILE = Path(__file__).with_name("puzzles.csv")  # made by a seed, with a line of names and a column more
PAIRS = [(line[1], line[2]) for line in csv.reader(FILE.read_text(encoding="utf-8").splitlines()[1:])]
LAYERS = (LayerConfig("sliding_attention", 8, 2, 1e4, 1.0), LayerConfig("full_attention", 8, 1, 1e6, 0.25))


def write_base(folder: Path) -> Path:
    """A random model with a canvas that holds a solution; it takes two steps a canvas."""
    made = network(hidden_size=16, intermediate_size=16, canvas_length=96, sliding_window=256, layers=LAYERS)
    write_checkpoint(made, folder, GenerationConfig(max_new_tokens=192, max_denoising_steps=2))
    return folder
