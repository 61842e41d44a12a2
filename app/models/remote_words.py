"""The sentences about remote servers. Knows no Qt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.system.i18n import tr

if TYPE_CHECKING:
    from engine.service.remote import Reachability


def about() -> str:
    """Explains remote engines."""
    return tr(
        "A model that another program or machine runs: another Safelight, vLLM, or any server that speaks OpenAI's "
        "protocol. What you ask is sent there."
    )


def status(found: Reachability | None, *, is_trying: bool, is_loaded: bool, is_loading: bool) -> str:
    """Returns a server's state in a few words."""
    if is_trying:
        return tr("○ Asking…")
    if is_loading:
        return tr("○ Loading…")
    if is_loaded:
        return tr("● Loaded")
    if found is None:
        return tr("Not tried yet")
    if not found.is_reachable:
        return tr("✕ Wants a key") if found.wants_key else tr("✕ Not reachable")
    return tr("✓ Reachable in {count} ms", count=max(1, round(found.milliseconds)))


def purpose(found: Reachability | None) -> str:
    """Describes the kind of a server and what it can be used for."""
    kinds = {model.kind for model in found.models} if found is not None else set()
    if "safelight" in kinds:
        return tr("Another Safelight: the canvas, forks and the inspector work as with a model here")
    if "vllm" in kinds:
        return tr("A vLLM server: answers with text alone, so there is no canvas to watch")
    if kinds:
        return tr("A server of OpenAI's kind: answers with text alone, so there is no canvas to watch")
    return ""


def detail(found: Reachability | None, *, is_key_kept: bool = True) -> str:
    """Returns the result of a test if there are no models to choose from, and a note if the key is not stored."""
    said = [] if is_key_kept else [tr("No keyring works here, so the key is kept until Safelight is closed.")]
    if found is not None and not found.models:
        text = tr(found.words)
        said.insert(0, text if text.endswith(".") else f"{text}.")
    return " ".join(said)


def offline(name: str) -> str:
    """Explains that a server cannot be asked while the offline switch is on."""
    return tr(
        "The offline switch is on, and {host} is not this computer. Turn it off in the settings first.",
        host=name,
    )
