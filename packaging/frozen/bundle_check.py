"""``safelight --check-bundle``: proves that a bundle is whole, without a GPU. One JSON object, exit status 0 or 1.

Every kernel's source is read as Triton reads it, and one kernel is compiled to machine code for a card that need not be
there, with the bundle's own compiler. The kernel launcher itself can only be loaded where an NVIDIA driver is.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import bundle_fixes

KERNELS = (
    *("attention", "decode", "expert_gemm", "linear_w4a16", "linear_w8a16"),
    *("norms", "router", "settle", "vocabulary"),
)
CAPABILITY = 89  # RTX 40


def read_kernels() -> int:
    """How many kernels' sources are readable.

    Raises:
        AssertionError: a module of kernels is not loaded from a source file, or has no kernels.
    """
    from triton.runtime.jit import JITFunction

    count = 0
    for name in KERNELS:
        module = importlib.import_module(f"engine.kernels.{name}")
        kernels = [thing for thing in vars(module).values() if isinstance(thing, JITFunction)]
        assert kernels, f"{name} has no kernels"
        for kernel in kernels:
            assert kernel.src.startswith("def "), f"{kernel} has no source"
            count += 1
    return count


def compile_one() -> int:
    """Bytes of machine code of one kernel, compiled from its source."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from engine.kernels.norms import norm_kernel as kernel

    constants = {"H": 2816, "BLOCK": 4096}
    types = {name: "*bf16" if name.endswith("_ptr") else "fp32" for name in kernel.arg_names}
    source = ASTSource(kernel, types | dict.fromkeys(constants, "constexpr"), constants)
    target, options = GPUTarget("cuda", CAPABILITY, 32), {"num_warps": 8, "enable_fp_fusion": True}
    with tempfile.TemporaryDirectory() as cache:  # what was compiled before must not stand in for compiling
        os.environ["TRITON_CACHE_DIR"] = cache
        built = triton.compile(source, target=target, options=options)
    return len(built.asm["cubin"])


def hold_to_a_format() -> str:
    """The token that a format forces, found by the process that holds answers to formats."""
    from contextlib import closing

    from engine import MINI, catalog
    from engine.text.grammar import GrammarState
    from engine.text.grammar_tokens import GrammarTokens
    from engine.text.output_format import OutputFormat
    from engine.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_folder(Path(catalog.resolve(MINI)))
    tokens = GrammarTokens.from_tokenizer(tokenizer, tokenizer.vocab_size, (1,))
    with closing(GrammarState(OutputFormat("choices", choices=("x",)), tokens)) as state:
        return tokenizer.decode(state.forced())


def main() -> int:
    """Check, print what was found, and say whether all is well."""
    import engine

    found: dict[str, Any] = {"folder": str(bundle_fixes.here()), "python": sys.version.split()[0]}
    try:
        found["models"] = [model.id for model in engine.EMBEDDED if (model.folder / "model.safetensors").is_file()]
        assert len(found["models"]) == len(engine.EMBEDDED), "an embedded model is missing"
        found["format"] = hold_to_a_format()
        assert found["format"] == "x", "an answer is not held to its format"
        import torch

        found["torch"], found["cuda"] = torch.__version__, torch.version.cuda
        found["gpu"] = torch.cuda.is_available()
        found["cpu_only"] = (bundle_fixes.here() / bundle_fixes.MARK).exists()
        if not found["cpu_only"] and importlib.util.find_spec("triton") is not None:
            found["kernels"] = read_kernels()
            found["cubin_bytes"] = compile_one()
            found["launcher"] = bundle_fixes.launcher().exists()
            assert found["launcher"], "the kernel launcher is missing"
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"
    found["ok"] = "error" not in found
    print(json.dumps(found), flush=True)
    return 0 if found["ok"] else 1


def sources() -> list[Path]:
    """The kernels' source files, which must lie beside the program."""
    return [bundle_fixes.here() / "engine" / "kernels" / f"{name}.py" for name in KERNELS]
