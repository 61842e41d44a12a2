"""Keys of rank_pattern and alpha_pattern: PEFT's rule where it is safe, and a word about everything else."""

from __future__ import annotations

import itertools
import re

import pytest

from engine.adapters.patterns import MOST_GAPPED, Patterns, what_is_wrong

LAYERS = ("self_attn.q_proj", "self_attn.v_proj", "mlp.up_proj", "mlp.down_proj")
MODULES = [
    f"model.{stack}.layers.{number}.{layer}"
    for stack in ("decoder", "encoder.language_model")
    for number in (0, 1, 10, 11)
    for layer in LAYERS
] + ["model.decoder.self_conditioning.up_proj"]
KEYS = (
    "q_proj",
    "layers.0.self_attn.q_proj",
    r"layers\.1\.mlp\.up_proj",
    r"^model\.decoder\.layers\.1\.mlp\.up_proj$",
    r"^layers\.1\.mlp\.up_proj",
    r"layers\.(0|10)\..*q_proj",
    r"layers\.[0-9]+\.mlp\.(?:up|down)_proj",
    r"model\.decoder\.layers\.\d+\..*",
    ".*up_proj$",
    r"^model\.decoder\..*[qv]_proj",
    "self_conditioning.up_proj",
)


def test_the_first_key_that_peft_finds() -> None:
    for pair in itertools.permutations(KEYS, 2):
        assert what_is_wrong(pair) is None
        patterns = Patterns({key: key for key in pair})
        for module in MODULES:
            expected = next((key for key in pair if re.match(rf"(.*\.)?({key})$", module)), "none")
            assert patterns.get(module, "none") == expected


@pytest.mark.parametrize(
    "key",
    [
        "((.*)*)*Z", "a{4294967296}", "(a+)+", "(", "a|b", "a?", "a*", ".*.*.*", r"\1", r"\w", "(?i)x", "(?=a)",
        "[z-a]", "[^a]", "é", "a\n", "", "^", "$", "a$b", "\\", "x" * 301, "(a)(b)(c)(d)", r"\d+" * 4,
    ],
)  # fmt: skip
def test_whatever_else_is_refused(key: str) -> None:
    told = what_is_wrong([key])
    assert told is not None
    assert "neither a name nor a simple pattern" in told
    assert len(told) < 200


def test_there_are_few_patterns_and_many_names() -> None:
    assert what_is_wrong([f"layers.{number}.q_proj" for number in range(5_000)]) is None
    assert what_is_wrong([f".*{number}" for number in range(MOST_GAPPED)]) is None
    assert what_is_wrong([f".*{number}" for number in range(MOST_GAPPED + 1)]) is not None
