"""Names of this computer's card where torch does not compute on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.memory.machine import GraphicsCard, look, unused_card

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads what Linux alone has")


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    return tools


@LINUX
@pytest.mark.parametrize(
    ("cards", "found"),
    [
        ([], None),
        ([("0x8086", "")], GraphicsCard("Intel")),
        ([("0x8086", ""), ("0x1002", "25753026560")], GraphicsCard("AMD", "", 25753026560)),
        ([("0x1002", "25753026560"), ("0x10de", "")], GraphicsCard("NVIDIA")),
        ([("0x1234", "")], None),
        ([("0x1002", "much")], GraphicsCard("AMD")),
    ],
)
@pytest.mark.usefixtures("no_tools")
def test_linux_lists_cards(tmp_path: Path, cards: list[tuple[str, str]], found: GraphicsCard | None) -> None:
    for number, (vendor, size) in enumerate(cards):
        device = tmp_path / f"drm/card{number}/device"
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        if size:
            (device / "mem_info_vram_total").write_text(f"{size}\n")
    assert unused_card(tmp_path / "drm") == found


@LINUX
@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("NVIDIA GeForce RTX 4090, 24564", GraphicsCard("NVIDIA", "NVIDIA GeForce RTX 4090", 24564 * 2**20)),
        ("no devices were found", None),
        ("", None),
    ],
)
def test_nvidias_tool_names_a_card_that_torch_does_not_use(
    no_tools: Path, tmp_path: Path, answer: str, found: GraphicsCard | None
) -> None:
    tool = no_tools / "nvidia-smi"
    tool.write_text(f"#!{os.path.realpath('/bin/sh')}\necho '{answer}'\n")
    tool.chmod(0o755)
    assert unused_card(tmp_path / "none") == found


def test_this_computer_is_described() -> None:
    machine = look()
    assert machine.memory_bytes > 10**9
    assert machine.device == "auto" or not machine.is_usable


def test_the_module_needs_no_torch() -> None:
    code = "import sys, engine.memory.machine; print({'torch', 'psutil'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
