"""The sentences about models that were found on this computer. Knows neither Qt nor torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.models.words import amount
from app.system.i18n import tr, trn
from engine.found import FoundModel, Why

NAMED = 5  # models, or families, of a line


def found_line(model: FoundModel) -> str:
    """Says whose store a model lies in, what it is, and how large."""
    store = tr("a folder of yours") if model.store == "added" else model.store
    return " · ".join((f"{store[:1].upper()}{store[1:]}", model.family, amount(model.bytes)))


def refused_title(count: int) -> str:
    """Returns the text of the line that stands for models that cannot run here."""
    return trn("{count} other cannot run here", "{count} others cannot run here", count)


def refused_lines(refused: Sequence[FoundModel]) -> list[str]:
    """Says why models cannot run here, a line for each kind of reason."""
    lines = []
    for why in dict.fromkeys(each.why for each in refused):
        models = [each for each in refused if each.why == why]
        lines.append(_refused_line(why, len(models), first_of(map(_named, models))))
    return lines


def first_of(names: Iterable[str]) -> str:
    """Returns the first few of the names, each once, and a mark where there are more."""
    known = list(dict.fromkeys(names))
    return "; ".join(known[:NAMED]) + ("; …" if len(known) > NAMED else "")


def _named(model: FoundModel) -> str:
    if model.why in ("family", "form"):
        return model.detail
    return model.name if model.why == "none" else f"{model.name} ({model.detail})"


def _refused_line(why: Why, count: int, names: str) -> str:
    said = {
        "family": trn(
            "{count} needs a family that is not supported", "{count} need a family that is not supported", count
        ),
        "form": trn(
            "{count} is stored in a form that is not read", "{count} are stored in a form that is not read", count
        ),
        "size": trn("{count} is too large for this computer", "{count} are too large for this computer", count),
        "none": trn("{count} has no language model", "{count} have no language model", count),
    }
    other = trn("{count} cannot be opened", "{count} cannot be opened", count)
    return f"{said.get(why, other)}: {names}"
