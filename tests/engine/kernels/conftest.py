"""Kernels in two lives. Triton decides when it is imported whether kernels are interpreted or compiled, its own library
functions included, so that one process holds only one of the two.

Files named ``test_*_interpreted.py`` run on CPU tensors in Triton's interpreter: here they are two items, which run
their share of the files in a process of their own with ``TRITON_INTERPRET=1``. All other files here find the compiler
and build kernels for cards that are not there. Without Triton nothing here is collected.

In the interpreter, use fp32 or fp16: its bf16 arithmetic is wrong and says nothing. Inline PTX does not run in it.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PATTERN = "test_*_interpreted.py"
# Of CPU time, roughly; the shares are made even by them.
SECONDS = {
    "test_fused_interpreted": 8,
    "test_doctor_interpreted": 5,
    "test_prefill_interpreted": 4,
    "test_layers_interpreted": 3,
    "test_int8_interpreted": 2,
}
INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"
# A quarter of a build's time: without it machine code is the same, and says nothing of lines.
os.environ.setdefault("TRITON_DISABLE_LINE_INFO", "1")

collect_ignore_glob = [] if importlib.util.find_spec("triton") else ["test_*.py"]


if INTERPRETING and not collect_ignore_glob:
    from tests.engine.kernels.interpreting import hasten, know_e4m3_scales  # needs Triton

    hasten()
    know_e4m3_scales()


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A file for the interpreter is a module only in the process that interprets."""
    if INTERPRETING or not module_path.match(PATTERN):
        return None
    return InterpretedFile.from_parent(parent, path=module_path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files share processes, at most two: importing torch and Triton takes as long as many a file's tests."""
    files = [item for item in items if isinstance(item, InterpretedRun)]
    files.sort(key=lambda item: (-item.seconds, item.name))
    shares = files[: min(2, getattr(config, "workerinput", {}).get("workercount", 1))]
    for item in files[len(shares) :]:
        min(shares, key=lambda share: share.seconds).take(item)
    items[:] = [item for item in items if item in shares or item not in files]


class InterpretedFile(pytest.File):
    """A file whose tests run in a process where kernels are interpreted."""

    def collect(self) -> Iterator[pytest.Item]:
        yield InterpretedRun.from_parent(self, name="interpreted")


class InterpretedRun(pytest.Item):
    """All tests of some files, in one process."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.paths = [self.path]
        self.seconds = SECONDS.get(self.path.stem, 1)

    def take(self, other: InterpretedRun) -> None:
        """Run that one's files, too."""
        self.paths += other.paths
        self.seconds += other.seconds

    def runtest(self) -> None:
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *map(str, self.paths)]
        with tempfile.TemporaryDirectory() as temporary:  # else it clears up after all other runs
            done = subprocess.run(
                [*command, f"--basetemp={temporary}/tests"],
                cwd=self.config.rootpath,
                env=os.environ | {"TRITON_INTERPRET": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode != 0:
            raise AssertionError(f"{done.stdout}{done.stderr}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:  # noqa: ARG002
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, "in the interpreter"
