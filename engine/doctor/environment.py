"""The section about this machine: versions, processor, memory, graphics card, and which kernels run on it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version

import psutil
import torch

from engine import kernels, windows
from engine.doctor.reporter import Reporter
from engine.kernels import cpu, cpu_int4, cpu_w4a8, native
from engine.memory.experimental import NAMES, experimental, verdict

PACKAGES = ("safelight", "torch", "triton", "numpy", "safetensors", "tokenizers", "transformers")
FLAGS = ("avx2", "avx_vnni", "avx512_f", "avx512_bf16", "avx512_vnni", "amx_int8", "amx_bf16")


def run(reporter: Reporter, _device: str) -> None:
    """Reports the facts of this machine."""
    has_card = torch.cuda.is_available() and experimental() is None
    device = torch.device("cuda", 0) if has_card else torch.device("cpu")
    reporter.fact("device", str(device))
    if (other := experimental()) is not None:  # the checks leave it out; a model's loading has compared it
        why = verdict(other)
        verdict_said = "not checked yet" if why is None else why or "right in its check"
        reporter.fact("experimental device", f"{other}, {NAMES[other.type]}: {verdict_said}")
    reporter.fact("system", f"{platform.system()} {platform.release()}, {platform.machine()}")
    reporter.fact("Python", platform.python_version())
    for package in PACKAGES:
        reporter.fact(package, _version(package))
    _processor_facts(reporter)
    smi = _nvidia_smi()
    reporter.fact("driver", smi)
    if device.type == "cuda":
        _card_facts(reporter, device)
        why = kernels.why_plain(device)
        reporter.check("kernels run on this card", lambda: (why is None, why or "they do"))
    elif smi is not None:
        reporter.check("the card is seen", lambda: (False, f"torch {torch.__version__} sees no CUDA device: {smi}"))
    else:
        reporter.check("a card", lambda: (None, f"no CUDA device; {kernels.why_plain(device)}"))


def _processor_facts(reporter: Reporter) -> None:
    memory = psutil.virtual_memory()  # type: ignore[no-untyped-call, unused-ignore]
    units = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    name = units.get("cpu_name") or platform.processor() or platform.machine()
    reporter.fact("processor", f"{name}, {os.cpu_count()} logical cores")
    reporter.fact("processor's units", " ".join(flag for flag in FLAGS if units.get(flag)) or "unknown")
    reporter.fact("memory", round(memory.total / 1e9, 1), "GB")
    reporter.fact("memory free", round(memory.available / 1e9, 1), "GB")
    reporter.fact("4-bit experts", experts_kernel())
    if (why := why_not_ours()) is not None:
        reporter.fact("why not by our kernel in C", why)
    reporter.fact("C compiler", os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang"))


def _card_facts(reporter: Reporter, device: torch.device) -> None:
    card = torch.cuda.get_device_properties(device)
    free, total = torch.cuda.mem_get_info(device)
    reporter.fact("card", card.name)
    reporter.fact("compute capability", f"{card.major}.{card.minor}")
    reporter.fact("CUDA of torch", torch.version.cuda)
    reporter.fact("multiprocessors", card.multi_processor_count)
    reporter.fact("L2 cache", round(card.L2_cache_size / 1e6, 1), "MB")
    reporter.fact("shared memory of a program", card.shared_memory_per_block_optin >> 10, "KiB")
    reporter.fact("card's memory", round(total / 1e9, 1), "GB")
    reporter.fact("card's memory free", round(free / 1e9, 1), "GB")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _nvidia_smi() -> str | None:
    """Returns driver, clocks and power limit from nvidia-smi; None without it."""
    fields = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.limit,temperature.gpu"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return "; ".join(done.stdout.strip().splitlines()) or None


OURS = {"amx": "AMX", "avx512": "AVX-512 VNNI", "avxvnni": "AVX-VNNI", "avx2": "AVX2"}  # by what it was built for


def experts_kernel() -> str:
    """Names the kernel of experts in int4."""
    if why_not_ours() is None:
        return f"ours in C, {OURS[native.instructions()]}"
    if cpu_int4.block():
        return f"torch's, {torch.backends.cpu.get_cpu_capability()}"
    return f"decoded and multiplied in {'bf16' if cpu.has_bf16_units() else 'fp32'}"


def why_not_ours() -> str | None:
    """Returns the reason why our kernel in C does not serve, and what to do; None if it does."""
    block, rows = cpu_int4.block(), cpu_w4a8.block()
    if block and rows == block:
        return None
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"it is written for x86-64, and this processor is {platform.machine()}"
    is_bundled = any(native.bundled(name).is_file() for name in native.INSTRUCTIONS)
    if not is_bundled and windows.IS_WINDOWS:
        return "it is not built on Windows yet"
    if not is_bundled and native.compiler() is None:
        return "there is no C compiler to build it with; install gcc or clang"
    if not block:
        return "it reads weights as torch's 4-bit kernel does, and this torch has none for this processor"
    if rows:
        return f"without AVX-512 VNNI it reads blocks of {rows} rows, and torch lays weights in blocks of {block} here"
    return "it could not be built or loaded here, the processor lacks AVX2, or its results were wrong"
