"""Entries of registries are there, and are what their readers take them for."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import COMMANDS, parser
from app.cli.options import OPTIONS
from app.export import FORMATS
from app.settings.values import SAMPLER
from app.window.pages import PAGES, PageEntry
from engine.decoders import ACCEPTANCE, DECODERS, REMASKING
from engine.kernels import cpu_decode
from engine.kernels.table import ROWS, KernelRow, schemes
from engine.quant import PRECISIONS, SCHEMES
from engine.server.planning import XARG_NAMES, XARGS

ROOT = Path(__file__).resolve().parent.parent
HAS_TRITON = importlib.util.find_spec("triton") is not None


def parameters(function: Callable[..., Any]) -> list[str]:
    """The names of its parameters; an underscore before one says that it is not used."""
    return [name.strip("_") for name in inspect.signature(function).parameters]


def function_of(row: KernelRow) -> Callable[..., Any]:
    module, _, name = row.function.partition(".")
    found: Callable[..., Any] = getattr(import_module(f"engine.kernels.{module}"), name)
    return found


def test_a_command_adds_a_parser_of_its_name() -> None:
    known = parser().format_help().partition("commands:")[2].partition("examples:")[0]
    for command in COMMANDS:
        name = command.__name__.rpartition(".")[2]
        assert parameters(command.add) == ["commands"], name
        assert re.search(rf"^ +{name} ", known, re.MULTILINE), name


@pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
def test_a_format_has_a_writer(format: Any) -> None:
    writer = import_module(f"app.export.{format.module}")
    assert parameters(writer.write) == ["run", "path", "options"]
    assert inspect.isgeneratorfunction(writer.write)


@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.name)
def test_a_page_can_be_built_and_lists_its_actions(entry: PageEntry) -> None:
    build, actions = (import_module(f"app.{entry.name}.{module}") for module in ("controller", "actions"))
    assert parameters(build.build) == ["context"]
    assert parameters(actions.actions) == ["context", "page"]


def test_a_decoder_has_a_function_and_settings_that_are_shown() -> None:
    from engine.decoding.acceptance import RULES  # torch
    from engine.decoding.generate import FUNCTIONS

    assert list(FUNCTIONS) == list(DECODERS)
    assert list(RULES) == list(ACCEPTANCE)
    for entry in DECODERS.values():
        assert {*entry.settings, *(rule.threshold for rule in ACCEPTANCE.values())} <= SAMPLER.keys(), entry
        assert set(entry.remasking) <= set(REMASKING)


def test_settings_keep_their_names_in_the_terminal_and_at_the_server() -> None:
    """Scripts and clients have them."""
    names = """
        max_new_tokens --max-new-tokens
        max_denoising_steps --max-steps diffusion_max_steps
        entropy_bound --entropy-bound
        acceptance --acceptance diffusion_sampler
        t_max --t-max
        t_min --t-min
        stability_threshold --stability
        confidence_threshold --confidence
        stall_steps --stall-steps diffusion_stall_steps
        canvas_length --canvas-length diffusion_canvas_length
        smallest_canvas --smallest-canvas diffusion_min_canvas_length
        decoder --decoder
        token_thoughts --token-thoughts
        sampling_temperature --temperature
        sampling_top_k --top-k
        sampling_top_p --top-p
        sampling_min_p --min-p
        repetition_penalty --repetition-penalty
        entropy_threshold --entropy-threshold
        accept_probability --accept-probability
        remasking --remasking
        edit_probability --edit-probability"""
    wanted = {setting: rest for setting, *rest in map(str.split, names.strip().splitlines())}
    xargs = {setting: name for name, setting in XARGS.items()}
    found = {name: [one.flag, *filter(None, [xargs.get(name)])] for name, one in OPTIONS.items()}
    assert found == {**found, **wanted}
    assert XARG_NAMES[-1] == "diffusion_threshold"


def test_the_readme_names_the_decoders_and_rules_that_there_are() -> None:
    readme = (ROOT / "engine" / "decoding" / "README.md").read_text(encoding="utf-8")
    assert [name for name in DECODERS if f"\n| `{name}.py` |" not in readme] == []
    rules = re.findall(r"\n\| `(\w+)` \|.*\| `(\w+)`(?:, nats)? \|", readme.partition("| its number |")[2])
    assert rules == [(rule.name, rule.threshold) for rule in ACCEPTANCE.values()][: len(rules)]
    assert len(rules) >= 3


def test_a_precision_packs_by_schemes_that_stores_know() -> None:
    for precision in PRECISIONS.values():
        assert {name for name in precision.as_dict().values() if name} <= SCHEMES.keys()


def test_a_kernel_has_the_signature_of_its_plain_function() -> None:
    """It may take more than that one, of which nobody needs to know."""
    for row in ROWS:
        if row.needs is None or (row.needs == "triton" and not HAS_TRITON):
            continue
        plain = parameters(function_of(next(last for last in reversed(ROWS) if last.operation == row.operation)))
        found = inspect.signature(function_of(row)).parameters
        assert [name for name in found if name in plain] == plain, row
        assert all(found[name].default is not inspect.Parameter.empty for name in found.keys() - set(plain)), row


def test_kernels_read_the_codes_of_the_schemes_in_their_rows() -> None:
    for operation in ("linear", "experts", "expectation"):
        assert set(schemes(operation, "cpu")) <= cpu_decode.DECODERS.keys()
    if HAS_TRITON:
        from engine.kernels.expert_gemm import CODES

        assert set(schemes("experts", "triton")) <= CODES.keys()
