"""Translation: every string on screen passes through ``tr`` or ``trn``. Without Qt.

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
