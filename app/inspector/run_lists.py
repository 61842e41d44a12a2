"""Lists of runs for the welcome page, the comparison and the fork panel. Functions of headers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from app.inspector.forks.panel import RunItem
from app.inspector.run_cards import Offer
from app.inspector.run_catalog import Listed
from app.inspector.words import (
    MAX_TITLE,
    Piece,
    asked_in_words,
    made_in_words,
    prompt_in_line,
    run_title,
    title_in_words,
)
from app.state.run.comparison import asked
from app.state.run.task_words import kind_words
from app.system.i18n import tr
from engine import GalleryTrace, TraceHeader

Pieces = Callable[[TraceHeader], Piece | None]


def first_offers(
    gallery: Sequence[GalleryTrace], recent: Iterable[Listed], titles: Mapping[str, str] | None = None
) -> list[Offer]:
    """Returns the runs of the welcome page: the user's, then the gallery.

    ``titles`` are those of named runs, by key.
    """
    offers = []
    for header, key in recent:
        title = (titles or {}).get(key, "")[:MAX_TITLE] or title_in_words(header)
        hint = _line(kind_words(header), _when(header), run_title(header))
        offers.append(Offer(title, hint, key, tr("Your runs"), is_own=True))
    shipped = (Offer(tr(one.title), tr(one.note), str(one.path), tr("Gallery"), has_picture=True) for one in gallery)
    return [*offers, *shipped]


def other_offers(
    here: TraceHeader,
    session: Iterable[Listed],
    recent: Iterable[Listed],
    gallery: Iterable[Listed],
    titles: dict[str, str],
) -> list[Offer]:
    """Returns the runs that a run can be compared with, each once; those of the same prompt come first.

    Args:
        here: the header of the run itself, which is left out.
        titles: titles of the gallery's runs and of named ones, by key.
    """
    found = [(header, key, tr("This session")) for header, key in session]
    found += [(header, key, tr("Your runs")) for header, key in recent]
    found += [(header, key, tr("Gallery")) for header, key in gallery]
    seen = {here.id}
    offers = []
    for header, key, section in found:
        if header.id in seen:
            continue
        seen.add(header.id)
        of = titles.get(key, "")
        if asked(header) == asked(here):
            hint = _line(of or _when(header), asked_in_words(here, header))
            offers.append(Offer(run_title(header), hint, key, _alike()))
        else:
            hint = _line(kind_words(header), run_title(header))
            offers.append(Offer(of or title_in_words(header), hint, key, section))
    order = (_alike(), tr("This session"), tr("Your runs"), tr("Gallery"))
    return sorted(offers, key=lambda offer: order.index(offer.section))


def run_tree(here: TraceHeader, listed: Iterable[Listed], titles: dict[str, str], pieces: Pieces) -> list[RunItem]:
    """Returns the open run with its ancestors and all forks of them, parents before their forks.

    A parent whose file is gone is included without a key, so that its forks stay together.

    Args:
        here: the header of the open run.
        listed: all known runs, including ``here``; the first one of each id counts.
        titles: titles of the gallery's runs and of named ones, by key.
        pieces: gives a run's function from token to text, if that is known.
    """
    headers: dict[str, Listed] = {}
    for header, key in listed:
        headers.setdefault(header.id, (header, key))
    found = sorted((header for header, _ in headers.values()), key=lambda header: header.created)
    parents = {header.id: header.parent.id if header.parent is not None else "" for header in found}
    parents |= {id: "" for id in parents if id in _above(id, parents)}
    family = _family(here.id, parents)
    lost = {parents[id]: headers[id][0] for id in parents if parents[id] in family and parents[id] not in headers}
    items = [RunItem(id, "", "", tr("{prompt} (no longer kept)", prompt=prompt_in_line(of))) for id, of in lost.items()]
    for header in found:
        if header.id in family:
            key = headers[header.id][1]
            made = made_in_words(header, pieces(header)) if header.parent is not None else ""
            title = titles.get(key) or made
            items.append(RunItem(header.id, parents[header.id], key, title or prompt_in_line(header)))
    return items


def _above(id: str, parents: dict[str, str]) -> list[str]:
    """Returns the ids of a run's ancestors, nearest first. Stops at a cycle, which a damaged file may claim."""
    found: list[str] = []
    while (id := parents.get(id, "")) and id not in found:
        found.append(id)
    return found


def _family(id: str, parents: dict[str, str]) -> set[str]:
    """Returns the ids of all runs related to a run, including unknown parents."""
    first = [id, *_above(id, parents)][-1]
    return {first} | {other for other in parents if first in _above(other, parents)}


def _when(header: TraceHeader) -> str:
    return header.created_at.astimezone().strftime("%Y-%m-%d %H:%M")


def _line(*parts: str) -> str:
    return " · ".join(filter(None, parts))


def _alike() -> str:
    return tr("The same prompt")
