"""The two things that are compiled for a bundle: the kernel launcher and the stand-ins. Needs a C compiler, no GPU."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import launcher
import pytest
import stand_ins

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None, reason="needs Linux and a C compiler"
)

LOAD = """
import ctypes, importlib.util, sys
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)  # a driver by the name that the launcher asks for
spec = importlib.util.spec_from_file_location("cuda_utils", sys.argv[2])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(*dir(module))
"""


def cc(*arguments: object) -> None:
    subprocess.run(["cc", *map(str, arguments)], check=True)


def test_the_launcher_is_what_triton_would_have_compiled(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        pytest.skip("Triton is not installed")
    backend = Path(spec.origin).parent / "backends" / "nvidia"
    made = launcher.build(backend, tmp_path / "cuda_utils.so")
    needed = subprocess.run(["objdump", "-p", made], capture_output=True, text=True, check=True).stdout
    assert re.search(r"NEEDED\s+libcuda\.so\.1", needed)
    asked = subprocess.run(["nm", "-D", "--undefined-only", made], capture_output=True, text=True, check=True).stdout
    driver = re.findall(r"\bU (cu[A-Z]\w+)", asked)
    assert driver
    code, library = tmp_path / "driver.c", tmp_path / "libcuda.so.1"
    code.write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in driver))
    cc("-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", code, "-o", library)
    loaded = subprocess.run(
        [sys.executable, "-c", LOAD, library, made], capture_output=True, text=True, check=False, timeout=60
    )
    assert loaded.returncode == 0, loaded.stderr
    wanted = re.findall(r"= mod\.(\w+)", (backend / "driver.py").read_text(encoding="utf-8"))
    assert len(wanted) > 5
    assert set(wanted) <= set(loaded.stdout.split())


def test_a_stub_loads_where_the_library_did_and_returns_an_error(tmp_path: Path) -> None:
    (tmp_path / "real.c").write_text("int used(void) { return 42; }\nint unused(void) { return 43; }\n")
    (tmp_path / "versions").write_text("libcufft.so.12 { global: used; unused; local: *; };\n")
    (tmp_path / "main.c").write_text('#include <stdio.h>\nint used(void);\nint main(void) { printf("%d", used()); }\n')
    library, program = tmp_path / "libcufft.so.12", tmp_path / "main"
    script = f"-Wl,--version-script={tmp_path / 'versions'}"
    cc("-shared", "-fPIC", "-Wl,-soname,libcufft.so.12", script, tmp_path / "real.c", "-o", library)
    cc(tmp_path / "main.c", library, f"-Wl,-rpath,{tmp_path}", "-o", program)
    assert stand_ins.is_stood_in_for(library)
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "42"
    stand_ins.replace(library, [program])
    after = subprocess.run([program], capture_output=True, text=True, check=True)
    assert after.stdout == str(stand_ins.ERROR)
    assert after.stderr == "", "the loader misses a version"
    assert set(stand_ins.symbols(library, "defined")) & {"used", "unused"} == {"used"}


def test_a_library_whose_data_is_used_stays(tmp_path: Path) -> None:
    (tmp_path / "real.c").write_text("int number = 42;\n")
    (tmp_path / "user.c").write_text("extern int number;\nint read_it(void) { return number; }\n")
    library, user = tmp_path / "libnccl.so.2", tmp_path / "user.so"
    cc("-shared", "-fPIC", tmp_path / "real.c", "-o", library)
    cc("-shared", "-fPIC", tmp_path / "user.c", library, "-o", user)
    before = library.read_bytes()
    with pytest.raises(ValueError, match="number"):
        stand_ins.replace(library, [user])
    assert library.read_bytes() == before
