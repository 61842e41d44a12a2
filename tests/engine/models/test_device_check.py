"""A device that torch knows and this program never ran on is checked once, and used only if it is right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine import MINI, SafelightError, kernels, load_model
from engine.decoding.influence import _kl
from engine.decoding.reading import _Rows
from engine.memory import experimental
from engine.memory.device import choose
from engine.models import device_check
from tests.engine import fake_device

NAME = "The test's card"


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[fake_device.Twist]]:
    """A machine with a fake card; a function in the list changes its products. The cache is a folder of the test."""
    twists = list[fake_device.Twist]()

    def twisted(made: Tensor) -> Tensor:
        return twists[-1](made) if twists else made

    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setitem(experimental.NAMES, fake_device.KIND, NAME)
    monkeypatch.setattr(experimental, "_verdicts", {})
    with ExitStack() as stack:
        device = stack.enter_context(fake_device.present(monkeypatch, twisted))
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: device)
        yield twists


def as_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experimental, "_verdicts", {})


def no_check(_: torch.device) -> str:
    raise AssertionError("it was checked before")


def test_one_that_is_right_is_used_and_remembered(
    card: list[fake_device.Twist], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert card == []
    assert str(choose().device) == "cpu"  # until it is checked
    model = load_model(MINI)
    assert (str(model.device), model.dtype) == ("fake:0", torch.bfloat16)
    assert model.placement.is_experimental
    assert model.placement.reason == f"{NAME} is experimental: Safelight was never tried on one"
    as_a_new_process(monkeypatch)
    monkeypatch.setattr(device_check, "why_not", no_check)
    assert str(choose().device) == "fake:0"
    monkeypatch.setattr(torch, "__version__", "99")  # another torch is another device
    assert experimental.verdict(torch.device("fake", 0)) is None


def wrong(made: Tensor) -> Tensor:
    return made * 1.3


def broken(_: Tensor) -> Tensor:
    raise NotImplementedError("aten::mm is not implemented\nfor this device")


class Clock:
    """A clock that a product on the slow card moves by five seconds."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def slow(self, made: Tensor) -> Tensor:
        self.now += 5
        return made


CLOCK = Clock()


@pytest.mark.parametrize(
    ("twist", "why"),
    [
        (wrong, "its numbers differ from the processor's in text layers.0"),
        (broken, "it failed with NotImplementedError: aten::mm is not implemented for this device"),
        (CLOCK.slow, "it is too slow: a check was not done after 30 s"),
    ],
)
def test_one_that_is_not_leaves_the_model_to_the_processor(
    card: list[fake_device.Twist], monkeypatch: pytest.MonkeyPatch, twist: fake_device.Twist, why: str
) -> None:
    monkeypatch.setattr(device_check, "time", CLOCK)
    card.append(twist)
    placed = load_model(MINI).placement
    assert (str(placed.device), placed.is_news, placed.is_experimental) == ("cpu", True, False)
    assert placed.reason.startswith(f"{NAME} is not used: {why}")
    as_a_new_process(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(device_check, "why_not", no_check)
        assert load_model(MINI).placement == placed
    with pytest.raises(SafelightError) as raised:  # asked for by its name it is checked again
        load_model(MINI, "fake")
    assert str(raised.value) == f"{placed.reason}; use cpu or auto"


def test_a_check_that_ends_the_process_is_not_made_again(
    card: list[fake_device.Twist], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: Tensor) -> Tensor:
        raise KeyboardInterrupt

    card.append(killed)
    with pytest.raises(KeyboardInterrupt):
        load_model(MINI)
    as_a_new_process(monkeypatch)
    assert load_model(MINI).placement.reason == f"{NAME} is not used: a check of it did not end"


@pytest.mark.usefixtures("card")
def test_what_needs_float64_is_computed_on_the_processor() -> None:
    logits, ids, there = torch.randn(3, 9), torch.tensor([[[1], [2]]] * 3), torch.device("fake", 0)
    read, expected = _Rows.from_logits(logits.to(there), ids.to(there), 2), _Rows.from_logits(logits, ids, 2)
    assert (read.labels == expected.labels).all()
    assert (read.argmax == expected.argmax).all()
    assert torch.equal(_kl(logits.to(there), logits.to(there)).cpu(), torch.zeros(3, dtype=torch.float64))


@pytest.mark.usefixtures("card")
def test_a_model_that_is_larger_than_it_goes_to_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_check, "why_not", lambda _: "")
    monkeypatch.setattr("engine.memory.plan.free_bytes", lambda device: 10**10 if device.type == "cpu" else 10)
    placed = load_model(MINI).placement
    assert (str(placed.device), placed.reason) == ("cpu", f"{NAME} has too little memory for this model")


def test_amd_cards_are_experimental_and_take_no_kernels_of_nvidias(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("cuda"))
    assert experimental.experimental() is None
    monkeypatch.setattr(torch.version, "hip", "7.0")
    assert experimental.experimental() == torch.device("cuda", 0)
    kernels.why_plain.cache_clear()
    assert kernels.why_plain(torch.device("cuda", 0)) == "the kernels are written for NVIDIA GPUs"
    kernels.why_plain.cache_clear()


def test_devices_that_are_not_here_are_refused_in_a_line() -> None:
    with pytest.raises(SafelightError, match="'mps' was asked for, but torch has none here; use cpu or auto"):
        load_model(MINI, "mps")
