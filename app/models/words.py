"""The sentences of the models page. Knows neither Qt nor torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from app.models.entries import Action, ModelEntry
from app.models.jobs import JobKind, JobProgress, Phase
from app.system.i18n import tr, trn

if TYPE_CHECKING:
    from engine.memory.plan import Plan


def amount(count: int) -> str:
    """A number of bytes in decimal units."""
    if count >= 1e11:
        return f"{count / 1e9:,.0f} GB"
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.1f} MB" if count < 1e7 else f"{count / 1e6:.0f} MB"


def duration(seconds: float) -> str:
    """An approximate duration."""
    if seconds < 90:
        return tr("{count} s", count=max(round(seconds), 1))
    minutes = round(seconds / 60)
    if minutes < 90:
        return tr("{count} min", count=minutes)
    return tr("{hours} h {minutes} min", hours=minutes // 60, minutes=minutes % 60)


def action_text(action: Action, entry: ModelEntry) -> str:
    """The text of a button."""
    return {
        "load": tr("Load"),
        "unload": tr("Unload"),
        "download": tr("Download {size}", size=amount(entry.bytes_total)),
        "resume": tr("Resume"),
        "pause": tr("Pause"),
        "cancel": tr("Cancel"),
        "verify": tr("Verify"),
        "convert": tr("Convert to 4 bits"),
        "delete": tr("Delete…"),
        "remove": tr("Remove from the list"),
    }[action]


def action_tip(action: Action) -> str:
    """The tool tip of a button, if its text does not suffice."""
    return {
        "load": tr("Loads this model in place of the one that answers now"),
        "unload": tr("Frees the memory that the model takes"),
        "download": tr("Can be paused; goes on where it stood, also after a restart"),
        "resume": tr("Goes on where it stood"),
        "pause": tr("Keeps what is here"),
        "cancel": tr("Removes what is here of it"),
        "verify": tr("Reads all files and compares their hashes"),
        "convert": tr("Writes a copy with 4-bit experts to the data folder; the original stays"),
        "delete": tr("Removes its files from this computer"),
        "remove": tr("Its files stay where they are"),
    }[action]


def status(entry: ModelEntry, job: tuple[JobKind, Phase] | None, *, loaded: bool, before: str = "") -> str:
    """A model's state in a few words; ``before`` names what a queued job waits for."""
    if job is not None:
        kind, phase = job
        if phase == "queued":
            return tr("Waiting for {title}", title=before) if before else tr("Waiting")
        if phase == "pausing":
            return tr("Pausing…")
        if phase == "cancelling":
            return tr("Cancelling…")
        return {"download": tr("Downloading"), "convert": tr("Converting"), "verify": tr("Verifying")}.get(kind, "")
    here = amount(entry.bytes_here)
    if entry.state == "absent":
        return tr("Not downloaded")
    if entry.state == "unfinished":
        return tr("Paused")
    if entry.state == "unpacked":
        return tr("Conversion paused")
    if entry.state == "missing":
        return tr("The folder is gone")
    if loaded:
        return tr("● Loaded, {size} on disk", size=here)
    return tr("{size} on disk", size=here)


def progress_line(progress: JobProgress) -> str:
    """The progress of a running job."""
    if progress.stage == "starting":
        return tr("Starting the engine")
    parts = []
    if progress.total_bytes:
        done, total = amount(progress.done_bytes), amount(progress.total_bytes)
        parts.append(tr("{done} of {total}", done=done, total=total))
    parts.append(f"{progress.share:.0%}")
    if progress.kind == "download" and progress.stage == "checking":
        parts.append(tr("checking a file's hash"))
    elif progress.bytes_per_second > 0:
        parts.append(tr("{speed} a second", speed=amount(round(progress.bytes_per_second))))
        left = (progress.total_bytes - progress.done_bytes) / progress.bytes_per_second
        parts.append(tr("about {time} left", time=duration(left)))
    return " · ".join(parts)


def disk_line(entry: ModelEntry, free: int, folder: Path) -> str:
    """What is still to be written, and the free disk space."""
    missing = max(entry.bytes_total - entry.bytes_here, 0)
    if not entry.bytes_total:
        return tr("Disk: {here} are here, and {free} free", here=amount(entry.bytes_here), free=amount(free))
    known = {"missing": amount(missing), "free": amount(free), "here": amount(entry.bytes_here)}
    if missing > free:
        short = amount(missing - free)
        return tr(
            "✕ Disk: needs {missing}, and {folder} has {free} free. Free {short} or choose another data folder.",
            short=short,
            folder=folder,
            **known,
        )
    if entry.bytes_here:
        return tr("✓ Disk: {here} are here; the other {missing} fit into {free} free", **known)
    return tr("✓ Disk: needs {missing} of {free} free", **known)


def memory_line(plan: Plan, *, loaded: bool, held: int, holder: str) -> str:
    """The memory that a model needs, whether it fits, and what to change.

    Args:
        loaded: the model is the one that is loaded.
        held: bytes of the loaded model, which are freed when another is loaded.
        holder: the loaded model's title.
    """
    device = plan.device.upper() if plan.device == "cpu" else plan.device
    how = tr("as stored") if plan.quantization == "as stored" else plan.quantization
    how = plan.dtype if how == "none" else how
    context = trn("{count} token of context", "{count} tokens of context", plan.context)
    own = plan.parts["process"]  # on a CPU: this process, counted in both
    need, free = amount(plan.total_bytes - own), amount(plan.free_bytes - own)
    needs = {"need": need, "free": free, "device": device, "how": how}
    if loaded:
        return tr("Memory: takes {need} ({device}, {how}, {context})", context=context, **needs)
    line = tr("Memory: needs {need} of {free} free ({device}, {how}, {context}).", context=context, **needs)
    if not plan.fits and plan.total_bytes <= plan.free_bytes + held:
        return f"✓ {line} " + tr("It fits once {holder} is unloaded, which loading it does.", holder=holder)
    slow = plan.device == "cpu" and plan.precision.is_packed
    warning = " " + tr("It would be slow: the fast kernels need an NVIDIA graphics card.") if slow else ""
    return f"{'✓' if plan.fits else '✕'} {line} {plan.advice}{warning}"


def delete_question(entry: ModelEntry) -> str:
    """The question before files are deleted."""
    if entry.state in ("unfinished", "unpacked"):
        return tr(
            "Remove what is here of {title}? This frees {size}.", title=entry.title, size=amount(entry.bytes_here)
        )
    return tr(
        "Delete {title}? This frees {size} on disk. {folder} is removed for good.",
        title=entry.title,
        size=amount(entry.bytes_here),
        folder=entry.folder,
    )
