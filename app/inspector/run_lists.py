"""The runs to choose from, as the welcome page, the comparison and the fork panel list them. Functions of headers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.inspector.forks.panel import RunItem
from app.inspector.run_cards import Offer
from app.inspector.run_catalog import Listed
from app.inspector.words import run_title, short_difference
from app.state.run.comparison import asked
from app.system.i18n import tr, trn
from engine import GalleryTrace, TraceHeader, step_number

MOST_PROMPT = 1_000  # characters that are looked at for a title


def first_offers(gallery: Sequence[GalleryTrace], recent: Iterable[Listed]) -> list[Offer]:
    """What there is to begin with: the gallery, then the user's runs."""
    offers = [Offer(tr(one.title), tr(one.note), str(one.path), tr("Gallery")) for one in gallery]
    for header, key in recent:
        offers.append(Offer(_prompt(header), f"{_when(header)} · {run_title(header)}", key, tr("Your runs")))
    return offers


def other_offers(
    here: TraceHeader,
    session: Iterable[Listed],
    recent: Iterable[Listed],
    gallery: Iterable[Listed],
    titles: dict[str, str],
) -> list[Offer]:
    """What a run can be compared with, those of the same prompt first; each run once.

    Args:
        here: of the run itself, which is left out.
        titles: of the gallery's runs, by key.
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
            title, hint = run_title(header), short_difference(here, header)
            offers.append(Offer(title, " · ".join(filter(None, (of or _when(header), hint))), key, _alike()))
        else:
            offers.append(Offer(of or _prompt(header), run_title(header), key, section))
    order = (_alike(), tr("This session"), tr("Your runs"), tr("Gallery"))
    return sorted(offers, key=lambda offer: order.index(offer.section))


def run_tree(listed: Iterable[Listed]) -> list[RunItem]:
    """The runs with what they were forked from, parents before their forks; the first of an id counts."""
    headers: dict[str, Listed] = {}
    for header, key in listed:
        headers.setdefault(header.id, (header, key))
    items = []
    for header, key in sorted(headers.values(), key=lambda found: found[0].created):
        parent = headers[header.parent.id][1] if header.parent is not None and header.parent.id in headers else ""
        items.append(RunItem(key, parent, _change(header)))
    return items


def _change(header: TraceHeader) -> str:
    """What makes a run another than the one it was forked from; of a root, its prompt."""
    if header.marks:
        blocks = sorted({mark.block + 1 for mark in header.marks})
        return trn(
            "Block {blocks}: {count} span written anew",
            "Block {blocks}: {count} spans written anew",
            len(header.marks),
            blocks=", ".join(map(str, blocks)),
        )
    if header.changes:
        newest = header.changes[-1]
        return tr("Forked at block {block}, step {step}", block=newest.block + 1, step=step_number(newest.step))
    return _prompt(header)[:60]


def _prompt(header: TraceHeader) -> str:
    return " ".join(header.prompt[:MOST_PROMPT].split())[:80]


def _when(header: TraceHeader) -> str:
    return header.created_at.astimezone().strftime("%x %H:%M")


def _alike() -> str:
    return tr("The same prompt")
