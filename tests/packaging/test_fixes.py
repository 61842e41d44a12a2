"""A bundle's changes of torch and Triton as they are imported, with modules of the test's own in their place."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from types import ModuleType

import bundle_check
import bundle_fixes
import entry
import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_an_action_follows_the_import_once_and_leaves_the_module_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [bundle_fixes.AfterImport(), *sys.meta_path])
    (tmp_path / "acted_on.py").write_text("value = 1\n\ndef function():\n    return value\n")
    values: list[int] = []

    def action(module: ModuleType) -> None:
        values.append(module.value)
        module.value = 2

    monkeypatch.setitem(bundle_fixes.AFTER, "acted_on", action)
    import acted_on  # type: ignore[import-not-found]

    monkeypatch.delitem(sys.modules, "acted_on")  # put back at the end: not there
    assert values == [1]
    assert acted_on.function() == 2
    assert inspect.getsource(acted_on.function).startswith("def function")
    assert type(acted_on.__spec__.loader).__name__ == "SourceFileLoader"


def test_the_launcher_takes_the_place_of_the_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Build:
        impl = None

    class Knobs(ModuleType):
        build = Build()

    knobs = Knobs("knobs")
    monkeypatch.setattr(bundle_fixes, "here", lambda: tmp_path)
    bundle_fixes.bring_launcher(knobs)
    assert knobs.build.impl is None, "without a launcher, Triton looks for a compiler as ever"
    bundle_fixes.launcher().parent.mkdir(parents=True)
    bundle_fixes.launcher().touch()
    bundle_fixes.bring_launcher(knobs)
    assert knobs.build.impl is not None
    assert knobs.build.impl("cuda_utils", "driver.c", "/tmp", [], [], []) == str(bundle_fixes.launcher())
    with pytest.raises(RuntimeError, match="has no compiled other"):
        knobs.build.impl("other", "other.c", "/tmp", [], [], [])


@pytest.mark.parametrize("original", [None, "", "/opt/theirs"])
def test_programs_that_we_start_get_the_systems_libraries(
    monkeypatch: pytest.MonkeyPatch, original: str | None
) -> None:
    monkeypatch.setenv(entry.LIBRARY_PATH, "/bundle/_internal")
    monkeypatch.delenv(f"{entry.LIBRARY_PATH}_ORIG", raising=False)
    if original is not None:
        monkeypatch.setenv(f"{entry.LIBRARY_PATH}_ORIG", original)
    entry.restore_library_path()
    assert os.environ.get(entry.LIBRARY_PATH) == (original or None)


def test_every_module_with_kernels_is_checked() -> None:
    folder = ROOT / "engine" / "kernels"
    with_kernels = {path.stem for path in folder.glob("*.py") if "@triton.jit" in path.read_text(encoding="utf-8")}
    assert with_kernels == set(bundle_check.KERNELS)
