"""Translation: every string on screen passes through ``tr`` or ``trn``. Without Qt.

Catalogues are gettext's, in ``assets/locale/CODE/LC_MESSAGES/safelight.mo``; the strings in the source are English.
"""

from __future__ import annotations

import gettext
import re
from pathlib import Path

from engine.errors import Sentence

LOCALE = Path(__file__).resolve().parents[2] / "assets" / "locale"
DOMAIN = "safelight"

_catalogue: gettext.NullTranslations = gettext.NullTranslations()


def use(catalogue: gettext.NullTranslations) -> None:
    """Uses this catalogue for later translations; text already on screen does not change."""
    global _catalogue
    _catalogue = catalogue


def use_code(code: str) -> None:
    """Uses a language by its code; English if it has no catalogue or the code is invalid."""
    known = [code] if re.fullmatch(r"[A-Za-z]{2,8}([_-][A-Za-z0-9]{2,8}){0,2}", code) else []  # it is part of a path
    use(gettext.translation(DOMAIN, LOCALE, known, fallback=True))


def tr(text: str, /, **values: object) -> str:
    """Returns a translated string, with ``{name}`` filled from ``values``; a ``Sentence`` has its own values."""
    pattern, values = (text.pattern, text.values) if isinstance(text, Sentence) else (text, values)
    said = _catalogue.gettext(pattern)
    return said.format(**values) if values else said


def trn(one: str, many: str, count: int, /, **values: object) -> str:
    """Returns a translated string with the plural form for ``{count}``."""
    return _catalogue.ngettext(one, many, count).format(count=f"{count:,}", **values)
