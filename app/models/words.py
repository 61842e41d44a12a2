"""The sentences of the models page, and those about this computer. Knows neither Qt nor torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from app.models.entries import Action, ModelEntry
from app.models.jobs import JobKind, JobProgress, Phase
from app.state.models.recommendation import Note, sold_size
from app.system.folders import shortened
from app.system.i18n import size, tr, trn
from engine.hub_cache import repo_of
from engine.memory.machine import Machine
from engine.model_files import is_gguf

if TYPE_CHECKING:
    from engine.memory.plan import Plan
    from engine.service.remote import Reachability

SLOW_BYTES = 10**9  # a larger model is slow without a graphics card
LEAST_CONTEXT = 4096  # tokens that must fit for a model to be loaded


def amount(count: int) -> str:
    """Formats a number of bytes in decimal units."""
    return f"{count / 1e6:.1f} MB" if count < 1e7 else size(count)


def download_size(entry: ModelEntry) -> str:
    """Returns the size of a download, with "about" where it is reckoned."""
    size = amount(entry.bytes_total)
    return tr("about {size}", size=size) if entry.is_reckoned else size


def download_tip(entry: ModelEntry) -> str:
    """Says where the size of a download is from."""
    if entry.is_reckoned:
        return tr("The size is reckoned from the count of parameters. The hub says the exact one before it begins.")
    return tr("As the hub listed it on {day}", day=entry.listed) if entry.listed else ""


def duration(seconds: float) -> str:
    """Formats an approximate duration."""
    if seconds < 90:
        return tr("{count} s", count=max(round(seconds), 1))
    minutes = round(seconds / 60)
    if minutes < 90:
        return tr("{count} min", count=minutes)
    return tr("{hours} h {minutes} min", hours=minutes // 60, minutes=minutes % 60)


def action_text(action: Action, entry: ModelEntry, job: JobKind | None = None, *, loading: bool = False) -> str:
    """Returns the text of a button; ``job`` is the running one, and ``loading`` means that the model is being
    loaded."""
    cancel = tr("Remove what is here") if job is None else tr("Cancel and remove")
    resume = tr("Resume the conversion") if entry.state == "unpacked" else tr("Resume the download")
    return {
        "load": tr("Load"),
        "unload": tr("Stop loading") if loading else tr("Unload"),
        "download": tr("Download {size}", size=download_size(entry)) if entry.bytes_total else tr("Download"),
        "resume": resume,
        "pause": tr("Pause"),
        "cancel": cancel,
        "convert": tr("Import") if is_gguf(entry.folder) else tr("Make a 4-bit copy"),
        "delete": tr("Delete from disk…"),
        "remove": tr("Remove from the list"),
    }[action]


def action_tip(action: Action) -> str:
    """Returns the tool tip of a button, if its text does not suffice."""
    return {
        "load": tr("Loads this model in place of the one that answers now"),
        "unload": tr("Frees the memory that the model takes"),
        "download": tr("Can be paused and continued, also after a restart"),
        "resume": tr("Continues where it stopped"),
        "pause": tr("Keeps what is here"),
        "cancel": tr("Removes all of it"),
        "convert": tr("Writes a smaller copy to the data folder, most of it in 4 bits; the original stays"),
        "delete": tr("Removes its files from this computer"),
        "remove": tr("Its files stay where they are"),
    }[action]


def blocked(entry: ModelEntry, *, offline: bool, loaded: bool) -> dict[Action, str]:
    """Returns why buttons are disabled, by action."""
    reasons: dict[Action, str] = {}
    if offline and entry.state in ("absent", "unfinished"):
        reasons["download"] = reasons["resume"] = tr("Offline is on; turn it off in the settings first")
    if loaded:
        reasons["delete"] = reasons["remove"] = tr("Unload it first")
    return reasons


def status(
    entry: ModelEntry, job: tuple[JobKind, Phase] | None, *, loaded: bool, loading: bool = False, before: str = ""
) -> str:
    """Returns a model's state in a few words; ``before`` names what a queued job waits for."""
    if job is not None:
        return {
            "queued": tr("Waiting for {title}", title=before) if before else tr("Waiting"),
            "running": tr("Downloading") if job[0] == "download" else tr("Converting"),
            "pausing": tr("Pausing…"),
            "cancelling": tr("Cancelling…"),
        }[job[1]]
    here = amount(entry.bytes_here)
    on_disk = tr("● Loaded, {size} on disk", size=here) if loaded else tr("{size} on disk", size=here)
    return {
        "absent": tr("Not downloaded"),
        "unfinished": tr("Paused"),
        "unpacked": tr("Conversion paused"),
        "missing": tr("The file is gone") if is_gguf(entry.folder) else tr("The folder is gone"),
        "ready": tr("○ Loading…") if loading else on_disk,
        "gguf": on_disk,
    }[entry.state]


def beginning_line(kind: JobKind, hub: str) -> str:
    """Describes a job before it reports progress; ``hub`` is the address of the downloads."""
    return tr("Asking {host}…", host=hub.partition("://")[2]) if kind == "download" else tr("Starting…")


def progress_line(progress: JobProgress) -> str:
    if progress.stage == "starting":
        return tr("Starting the program that does it (PyTorch)")
    if progress.stage == "waiting":
        return tr("No answer from the hub yet. Check the network, or wait.")
    parts = []
    if progress.total_bytes:
        done, total = amount(progress.done_bytes), amount(progress.total_bytes)
        parts.append(tr("{done} of {total}", done=done, total=total))
    parts.append(f"{progress.share:.0%}")
    if progress.kind == "download" and progress.stage == "checking":
        parts.append(tr("checking a file's hash"))
    elif progress.kind == "download" and not progress.bytes_per_second:
        parts.append(tr("nothing arrives"))
    elif progress.bytes_per_second > 0:
        parts.append(tr("{speed} a second", speed=amount(round(progress.bytes_per_second))))
        left = (progress.total_bytes - progress.done_bytes) / progress.bytes_per_second
        parts.append(tr("about {time} left", time=duration(left)))
    file, here, whole = progress.file
    if file:  # at the end, where a narrow window cuts it off
        parts.append(tr("{file}: {done} of {total}", file=file, done=amount(here), total=amount(whole)))
    return " · ".join(parts)


def place_line(folder: Path, free: int, offline: bool) -> str:
    """Names the folder of downloads, or says that there are none while offline."""
    if offline:
        return tr("Offline is on: nothing is downloaded.")
    place = shortened(str(folder))
    return tr("Downloads go to {folder}, which has {free} free.", folder=place, free=amount(free))


def disk_line(entry: ModelEntry, free: int, folder: Path, copy: int = 0) -> str:
    """Names the model's folder, or compares what is still to be written with the free disk space.

    ``copy`` is the size in bytes of the copy that an import would write; 0 for none."""
    if entry.group == "embedded":
        return ""
    if entry.state not in ("absent", "unfinished") and not copy:
        return tr("In {folder}", folder=shortened(str(entry.folder)))
    missing = copy or max(entry.bytes_total - entry.bytes_here, 0)
    if not (copy or entry.bytes_total):
        return tr("Disk: {here} are here, and {free} free", here=amount(entry.bytes_here), free=amount(free))
    needed = amount(missing) if copy or entry.state != "absent" else download_size(entry)
    known = {"missing": needed, "free": amount(free), "here": amount(entry.bytes_here)}
    if missing > free:
        short = amount(missing - free)
        return tr(
            "✕ Disk: needs {missing}, and {folder} has {free} free. Free {short} or choose another folder.",
            short=short,
            folder=folder,
            **known,
        )
    if entry.bytes_here and not copy:
        return tr("✓ Disk: {here} are here; the other {missing} fit into {free} free", **known)
    return tr("✓ Disk: needs {missing} of {free} free", **known)


def memory_line(plan: Plan, *, loaded: bool, held_bytes: int) -> str:
    """Says in one line whether a model runs on this machine.

    Args:
        loaded: the model is the one that is loaded.
        held_bytes: bytes of the loaded model, which are freed when another is loaded.
    """
    is_cpu = plan.device == "cpu"
    needed = plan.total_bytes - plan.parts["process"]  # on a CPU both counts include this process
    need, free = amount(needed), amount(max(0, plan.free_bytes + held_bytes - plan.parts["process"]))
    size = tr("{size} GB", size=sold_size(plan.device_bytes))
    if loaded:
        taken = tr("Takes {need} of memory", need=need)
        return taken if is_cpu else tr("Takes {need} of your {size} card", need=need, size=size)
    if plan.total_bytes > plan.free_bytes + held_bytes:
        return _short_line(plan, need, free, size)
    known = {"need": need, "size": size, "context": tokens(plan.context), "bits": f"{plan.bits}"}
    if is_cpu and needed >= SLOW_BYTES:
        if not plan.bits:
            return tr("✓ Runs on the processor, slowly ({need} at {context} tokens)", **known)
        return tr("✓ Runs on the processor in {bits} bits, slowly ({need} at {context} tokens)", **known)
    if is_cpu:
        return tr("✓ Fits: {need} of memory", need=need)
    if plan.bits and plan.quantization != "as stored":
        return tr("✓ Fits your {size} card in {bits} bits at {context} tokens of context ({need})", **known)
    return tr("✓ Fits your {size} card at {context} tokens of context ({need})", **known)


def _short_line(plan: Plan, need: str, free: str, size: str) -> str:
    """Returns the line of ``memory_line`` for a model that does not fit at the usual context."""
    place = tr("this computer") if plan.device == "cpu" else tr("your {size} card", size=size)
    known = {"need": need, "free": free, "place": place}
    if plan.longest >= min(LEAST_CONTEXT, plan.context):
        less, more = tokens(plan.longest), tokens(plan.context)
        return tr("✓ Fits {place} at {less} tokens of context, not at {more}", place=place, less=less, more=more)
    if plan.total_bytes > plan.device_bytes:
        return tr("✕ Too large for {place}: needs {need} of memory", **known)
    return tr("✕ Needs {need} of memory and {free} are free: close other programs", **known)


def memory_tip(plan: Plan) -> str:
    """Lists the figures behind ``memory_line``."""
    device = plan.device.upper() if plan.device == "cpu" else plan.device
    how = tr("as stored") if plan.quantization == "as stored" else plan.quantization
    process_bytes = plan.parts["process"]
    line = tr(
        "Needs {need} of {free} free ({device}, {how}, {context}).",
        need=amount(plan.total_bytes - process_bytes),
        free=amount(plan.free_bytes - process_bytes),
        device=device,
        how=plan.dtype if how == "none" else how,
        context=trn("{count} token of context", "{count} tokens of context", plan.context),
    )
    most = trn("{count} token would fit.", "{count} tokens would fit.", plan.longest) if plan.longest else ""
    text = tr("{size} of it hold the text.", size=amount(plan.parts["kv_cache"])) if plan.parts.get("kv_cache") else ""
    notes = (f"{note[:1].upper()}{note[1:]}." for note in plan.notes)
    return " ".join(filter(None, (line, text, most, *notes)))


def sentence(text: str) -> str:
    """Makes an error of the engine a sentence of its own; a name or a path at its start stays unchanged."""
    first = text.partition(" ")[0]
    is_word = first.isalpha() and first.islower()
    return f"{text[:1].upper() if is_word else text[:1]}{text[1:].rstrip('.')}."


def tokens(count: int) -> str:
    """Formats a number of tokens, in units of 1024 if large."""
    return f"{count // 1024}k" if count >= 1024 else str(count)


def delete_question(entry: ModelEntry) -> str:
    """Returns the question that is asked before files are deleted."""
    if entry.state in ("unfinished", "unpacked"):
        return tr(
            "Remove what is here of {title}? This frees {size}.", title=entry.title, size=amount(entry.bytes_here)
        )
    if repo_of(entry.folder) is not None:
        return tr(
            "Delete {title}? This frees {size} on disk. Other programs that use the Hugging Face cache lose it, too.",
            title=entry.title,
            size=amount(entry.bytes_here),
        )
    return tr(
        "Delete {title}? This frees {size} on disk. {folder} is removed for good.",
        title=entry.title,
        size=amount(entry.bytes_here),
        folder=entry.folder,
    )


def facts_line(entry: ModelEntry) -> str:
    """Lists how a model writes, its licence, its date, and whether its weights were ever run by us."""
    writes = {"": "", "diffusion": tr("diffusion"), "word by word": tr("word by word")}[entry.writes]
    untried = tr("not run by us yet") if entry.is_experimental else ""
    line = " · ".join(filter(None, (writes, entry.licence, entry.date, untried)))
    return f"{line[:1].upper()}{line[1:]}"


def server_status(reachability: Reachability | None, *, is_trying: bool, is_loaded: bool, is_loading: bool) -> str:
    if is_trying:
        return tr("○ Asking…")
    if is_loading:
        return tr("○ Loading…")
    if is_loaded:
        return tr("● Loaded")
    if reachability is None:
        return tr("Not tried yet")
    if not reachability.is_reachable:
        return tr("✕ Wants a key") if reachability.wants_key else tr("✕ Not reachable")
    return tr("✓ Reachable in {count} ms", count=max(1, round(reachability.milliseconds)))


def server_purpose(reachability: Reachability | None) -> str:
    """Describes the kind of a server and what it can be used for."""
    kinds = {model.kind for model in reachability.models} if reachability is not None else set()
    if "safelight" in kinds:
        return tr("Another Safelight: the canvas, forks and the inspector work as with a model here")
    if "vllm" in kinds:
        return tr("A vLLM server: sends only text, so there is no canvas to watch")
    if kinds:
        return tr("A server with OpenAI's protocol: sends only text, so there is no canvas to watch")
    return ""


def server_detail(reachability: Reachability | None, *, is_key_kept: bool = True) -> str:
    """Returns the result of a test if there are no models to choose from, and a note if the key is not stored."""
    said = [] if is_key_kept else [tr("No keyring works here, so the key is kept until Safelight is closed.")]
    if reachability is not None and not reachability.models:
        text = tr(reachability.words)
        said.insert(0, text if text.endswith(".") else f"{text}.")
    return " ".join(said)


GET_CUDA = "uv pip install --reinstall torch --torch-backend auto"


def machine_line(machine: Machine) -> str:
    """Names the card and the memory of a computer."""
    memory = tr("{size} of memory", size=size(machine.memory_bytes))
    card = machine.card
    if card is None:
        return tr("No graphics card found · {memory}", memory=memory)
    name = card.name or tr("{maker} graphics", maker=card.maker)
    sold = tr("{size} GB", size=sold_size(card.total_bytes)) if card.total_bytes else ""
    return " · ".join(filter(None, (", ".join(filter(None, (name, sold))), memory)))


def note_line(note: Note) -> str:
    """Says what is so with the card, and what to do about it."""
    other = tr(
        "Safelight is made for NVIDIA cards. Others are experimental: one that PyTorch supports is checked when a "
        "model is loaded, else the processor computes."
    )
    if getattr(sys, "frozen", False):
        get = tr("This copy of Safelight was built without CUDA; install the one with CUDA.")
    else:
        get = tr("Close Safelight, run “{command}”, and start it again.", command=GET_CUDA)
    return {
        "": "",
        "no card": tr("Models run on the processor here. DiffusionGemma 26B is meant for an NVIDIA card of 24 GB."),
        "no CUDA": tr("This NVIDIA card is not used yet: PyTorch is installed without CUDA. {get}", get=get),
        "no driver": tr(
            "PyTorch cannot use this NVIDIA card: its driver is missing or too old. Update it and restart Safelight."
        ),
        "AMD": tr("{other} An AMD card can be used through a server: see “Remote engines” below.", other=other),
        "Intel": other,
        "Apple": tr(
            "A Mac's graphics are experimental: they are checked when a model is loaded, and if they are wrong, the "
            "processor computes."
        ),
        "small card": tr("DiffusionGemma 26B needs a card of 24 GB; this model fits yours."),
    }[note]
