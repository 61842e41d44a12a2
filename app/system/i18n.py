"""Translation: every string on screen passes through ``tr`` or ``trn``; and bytes in words. Without Qt.

There is no catalogue yet: the strings in the source are English, and tests put others in their place.
"""

from __future__ import annotations

import gettext

from engine.errors import Sentence

_catalogue: gettext.NullTranslations = gettext.NullTranslations()


def use(catalogue: gettext.NullTranslations) -> None:
    """Uses this catalogue for later translations; text already on screen does not change."""
    global _catalogue
    _catalogue = catalogue


def tr(text: str, /, **values: object) -> str:
    """Returns a translated string, with ``{name}`` filled from ``values``; a ``Sentence`` has its own values."""
    pattern, values = (text.pattern, text.values) if isinstance(text, Sentence) else (text, values)
    said = _catalogue.gettext(pattern)
    return said.format(**values) if values else said


def trn(one: str, many: str, count: int, /, **values: object) -> str:
    """Returns a translated string with the plural form for ``{count}``."""
    return _catalogue.ngettext(one, many, count).format(count=f"{count:,}", **values)


def size(count: float) -> str:
    """Returns a number of bytes in decimal units, such as "1.5 GB"."""
    if count >= 1e9:
        shown = count / 1e9
        return tr("{count} GB", count=f"{shown:.1f}" if shown < 100 else f"{shown:,.0f}")
    if count >= 1e6:
        return tr("{count} MB", count=f"{count / 1e6:.0f}")
    if count >= 1e3:
        return tr("{count} kB", count=f"{count / 1e3:.0f}")
    return tr("{count} B", count=f"{count:.0f}")
