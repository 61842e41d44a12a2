"""Texts about lanes and races, for labels and assistive technology. Has no widgets."""

from __future__ import annotations

from collections.abc import Sequence

from app.settings.decoders import DecodingChoice, decoder_title
from app.settings.spec import SAMPLER
from app.settings.words import decoding_words
from app.state.adapters import title_of_adapter, with_adapter
from app.state.race.lanes import LaneSpec
from app.system.i18n import tr
from app.system.memory_use import size

UNKNOWN = "–"
LONGEST_TITLE = 60  # characters


def lane_title(lane: LaneSpec, model: str, decoder: str = "") -> str:
    """Returns a lane's title: its model, its adapter and its decoder.

    Args:
        model: The model's title.
        decoder: The model's default decoder; empty while it is not known.
    """
    who = with_adapter(model, title_of_adapter(lane.adapter) if lane.adapter else "")
    name = lane.decoder or decoder
    how = decoder_title(name) if name else ""
    return tr("{model} · {decoder}", model=who, decoder=how) if how else who


def changes_words(lane: LaneSpec) -> str:
    """Returns the lane's settings that differ from its model's, in one line; empty if none does."""
    said = [*decoding_words(DecodingChoice.read(lane.changes))]
    for setting in SAMPLER:
        if setting.name in lane.changes:
            value = f"{lane.changes[setting.name]:g}"
            shown = tr("{value} {unit}", value=value, unit=tr(setting.unit)) if setting.unit else value
            said.append(tr("{setting}: {value}", setting=tr(setting.label), value=shown))
    return " · ".join(said)


def settings_words(lane: LaneSpec) -> str:
    """Returns ``changes_words``, or a sentence that says that there are no changes."""
    return changes_words(lane) or tr("The model's own settings")


def loaded_words(models: Sequence[tuple[str, int]]) -> str:
    """Returns a sentence about further models that have to be loaded: title and bytes of each, 0 if unknown."""
    said = [tr("{model} ({size})", model=title, size=size(bytes)) if bytes else title for title, bytes in models]
    return tr("The race also loads {models}.", models=", ".join(said)) if said else ""


def rate_words(rate: float) -> str:
    """Returns the playback speed relative to real time in words; ``rate`` is recorded seconds per second played."""
    if rate >= 1:
        return tr("{times} times as fast", times=f"{rate:.1f}") if rate > 1.05 else ""
    return tr("{times} times slower", times=f"{1 / rate:,.0f}" if rate < 0.1 else f"{1 / rate:.1f}")


def fairness() -> str:
    """Returns a sentence about how lanes that share one machine are timed."""
    return tr("All lanes answer the same prompt, in turns of one pass. Seconds count a lane's own passes.")


def race_title(prompt: str) -> str:
    """Returns a race's prompt as one line of at most ``LONGEST_TITLE`` characters."""
    line = " ".join(prompt.split())
    return line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 1]}…"
