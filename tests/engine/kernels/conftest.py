"""Kernels in two lives. Triton decides when it is imported whether kernels are interpreted or compiled, its own library
functions included, so that one process holds only one of the two.

Files named ``test_*_interpreted.py`` run on CPU tensors in Triton's interpreter: here they are one item, which runs
in a process of its own with ``TRITON_INTERPRET=1``. All other files here find the compiler and build kernels for cards
that are not there. Without Triton nothing here is collected. Both are left out while a branch changes nothing that
they depend on.

In the interpreter, use fp32 or fp16: its bf16 arithmetic is wrong and says nothing. Inline PTX does not run in it.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

PATTERN = "test_*_interpreted.py"
OF_CARDS = (PATTERN, "test_budgets.py", "test_expert_compile.py", "test_expert_decode.py")
BRANCH = "origin/main"  # that a change goes to
# The rooms of card kernels, and the layers and steps that launch them.
DEPENDS = (
    *("engine/kernels", "engine/quant", "engine/checks", "engine/doctor", "tests/engine/kernels"),
    *("engine/models/diffusion_gemma", "engine/decoding/step_*.py"),
)
PATIENCE = 600.0  # seconds
INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"
# A quarter of a build's time: without it machine code is the same, and says nothing of lines.
os.environ.setdefault("TRITON_DISABLE_LINE_INFO", "1")

collect_ignore_glob = [] if importlib.util.find_spec("triton") else ["test_*.py"]


if TYPE_CHECKING:
    from tests.engine.kernels.machine.budgets import MachineCode

if INTERPRETING and not collect_ignore_glob:
    from tests.engine.kernels.interpreting import hasten  # needs Triton

    hasten()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "card: is about kernels for cards alone; run with -m card")


@functools.cache
def cards_are_unchanged(root: Path) -> bool:
    """Returns whether nothing of ``DEPENDS`` differs from where the branch began; False if nobody can say."""

    def git(*command: str) -> str:
        return subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("diff", "--name-only", git("merge-base", "HEAD", BRANCH), "--", *DEPENDS)
        return not changed and not git("ls-files", "--others", "--exclude-standard", "--", *DEPENDS)
    except (OSError, subprocess.CalledProcessError):
        return False


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A file for the interpreter is a module only in the process that interprets; one left out is none."""
    is_of_cards = any(module_path.match(name) for name in OF_CARDS)
    if INTERPRETING or not is_of_cards:
        return None
    if "card" not in parent.config.option.markexpr and cards_are_unchanged(parent.config.rootpath):
        return LeftOutFile.from_parent(parent, path=module_path)
    return InterpretedFile.from_parent(parent, path=module_path) if module_path.match(PATTERN) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files share a process, whose result is asked for last: importing torch and Triton takes as long as a file."""
    runs = [item for item in items if isinstance(item, InterpretedRun)]
    if runs:
        runs[0].paths = [run.path for run in runs]
        items[:] = [item for item in items if item not in runs] + runs[:1]
    for item in items:
        if any(item.path.match(name) for name in OF_CARDS):
            item.add_marker("card")


def pytest_collection_finish(session: pytest.Session) -> None:
    """The first of several workers begins; the processors work at it while tests wait for other things."""
    worker = getattr(session.config, "workerinput", {}).get("workerid")
    for item in session.items:
        if isinstance(item, InterpretedRun) and worker == "gw0":
            threading.Thread(target=item.perform, daemon=True).start()


class LeftOutFile(pytest.File):
    """A file of tests that the branch cannot have broken."""

    def collect(self) -> Iterator[pytest.Item]:
        pytest.skip(f"nothing that kernels for cards depend on differs from {BRANCH}; -m card runs their tests")


class InterpretedFile(pytest.File):
    """A file whose tests run in a process where kernels are interpreted."""

    def collect(self) -> Iterator[pytest.Item]:
        yield InterpretedRun.from_parent(self, name="interpreted")


class InterpretedRun(pytest.Item):
    """All tests of some files, in one process."""

    paths: list[Path]

    def perform(self) -> None:
        """Run the tests, and write down how that ended."""
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
        part = self.result.with_suffix(".part")
        part.write_text(json.dumps([done.returncode, done.stdout + done.stderr]), encoding="utf-8")
        part.replace(self.result)

    @property
    def result(self) -> Path:
        """The file that all workers find it in."""
        run = getattr(self.config, "workerinput", {}).get("testrunuid", os.getpid())
        return Path(tempfile.gettempdir(), f"safelight-interpreted-{run}.json")

    def runtest(self) -> None:
        if not hasattr(self.config, "workerinput"):
            self.perform()
        ends = time.monotonic() + PATIENCE
        while not self.result.exists():
            assert time.monotonic() < ends, "the process that interprets has not ended"
            time.sleep(0.1)
        status, printed = json.loads(self.result.read_text(encoding="utf-8"))
        self.result.unlink()
        if status != 0:
            raise AssertionError(printed)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:  # noqa: ARG002
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, "in the interpreter"


@pytest.fixture(scope="module")
def codes(request: pytest.FixtureRequest) -> dict[str, MachineCode]:
    """Machine code of all builds that a file's selected tests ask for, by name."""
    calls = [item.callspec for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    return {str(call.params["build"]): call.params["build"].compiled() for call in calls}
