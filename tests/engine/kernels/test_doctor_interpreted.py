"""The doctor's checks of kernels in the interpreter: right ones pass, and a broken one is named."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import torch

from engine.checks.operands import other_scales
from engine.doctor import kernel_section, step_section
from engine.doctor.kernel_checks import kernel_checks
from engine.doctor.reporter import Reporter
from engine.doctor.shapes import CheckShape, tiny
from engine.kernels import attention, linear_w8a16, norms
from engine.models.diffusion_gemma import fused

CHEAP = (
    "decode int4",
    "decode uint4",
    "linear4",
    "linear8",
    "linear_int8",
    "expert sort",
    "add_norm",
    "attention full",
    "vocabulary stage",
    "router",
    "settle",
    "rope_tables",
    "embed_rows",
)


@pytest.fixture(autouse=True)
def _same_threads() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def told(module: Any, *, quick: bool = False, skip: frozenset[str] = frozenset()) -> dict[str, tuple[Any, str]]:
    out = io.StringIO()
    module.run(Reporter(out, skip), "cpu", quick)
    records = [json.loads(line) for line in out.getvalue().splitlines()]
    return {record["check"]: (record["ok"], record["said"]) for record in records if "check" in record}


def dear() -> frozenset[str]:
    """Checks that take long."""
    shape = CheckShape(tiny(), torch.device("cpu"), torch.float32, (0, 40))
    names = [name for name, _ in kernel_checks(shape)]
    assert len(set(names)) == len(names)  # by its name a check is passed over in a second process
    return frozenset(name for name in names if not name.startswith(CHEAP))


def test_right_kernels_pass_and_every_kernel_has_a_check() -> None:
    found = told(kernel_section, skip=dear())
    assert found
    assert all(ok for ok, _ in found.values())
    assert sum(name.startswith("processor's") for name in found) > 10
    names = {name.split()[0].rstrip(",") for name in dear() | found.keys() if not name.startswith("processor's")}
    assert names == {
        *(
            "decode",
            "expert",
            "experts",
            "linear4",
            "linear8",
            "linear_int8",
            "add_norm",
            "merge_norm",
            "head_norm_rope",
        ),
        *("attention", "vocabulary", "norm", "router", "embed_rows", "rope_tables", "settle"),
    }


@pytest.mark.parametrize("name", [pytest.param("linear8", marks=pytest.mark.slow), "add_norm", "attention"])
def test_a_broken_kernel_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = {"linear8": linear_w8a16.linear_w8a16, "add_norm": norms.add_norm, "attention": attention.attention}[name]
    broken = {
        "linear8": lambda x, weight, **more: right(x, other_scales(weight), **more),
        "add_norm": lambda x, y, post, pre, *more: right(x, y, post, pre.roll(1, 0), *more),
        "attention": lambda queries, keys, values, span, *more: right(
            queries, keys, values, span + torch.tensor([1, 0], dtype=torch.int32), *more
        ),
    }[name]
    module = {"linear8": linear_w8a16, "add_norm": norms, "attention": attention}[name]
    monkeypatch.setattr(module, right.__name__, broken)
    stage = "vocabulary stage"
    kinds = ("tokens pinned and forbidden", "int8 activations", "several runs")
    skip = dear() | {stage, *(f"{stage}, {kind}" for kind in kinds)}
    found = told(kernel_section, skip=skip)
    wrong = {check for check, (ok, _) in found.items() if not ok}
    assert wrong
    assert all(check.startswith(name) for check in wrong)
    assert all("oracle; it is much like what" in said for ok, said in found.values() if not ok) or name == "attention"


@pytest.mark.slow  # the checks themselves have tests of their own
def test_fused_steps_are_held_against_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_section, "TINY_STEPS", 1)
    assert [ok for ok, _ in told(step_section).values()] == [True, True, True]
    right = norms.merge_norm
    monkeypatch.setattr(fused, "merge_norm", lambda x, dense, sparse, *more: right(x, sparse, dense, *more))
    others = ("a step that commits", "a step of two runs")
    found = told(step_section, skip=frozenset(f"{each}, fused kernels against the plain path" for each in others))
    assert [ok for ok, _ in found.values()] == [False]


@pytest.mark.slow
def test_what_is_run_on_a_card_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its course, with fused kernels where a card has a graph."""
    monkeypatch.setattr(step_section, "AGAIN", 2)
    with torch.inference_mode():
        made = step_section._network(tiny(), torch.device("cpu"), torch.float32)
        ways = step_section._Comparison(made, length=20, steps=1, tolerance=step_section.ROUNDING)
        assert ways.alike(canvases=3 * step_section.ROOM) == (True, "alike in 2 steps")
        assert ways.lengths() == (True, "alike in 4 steps")
        assert ways.repeated() == (True, "the same bits")
        assert ways.plain()[0]
        assert ways.apart()[0]
