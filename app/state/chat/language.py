"""The language of a prompt: clearly not English, by its script and a few function words, or not."""

from __future__ import annotations

import re
import unicodedata

READ = 2_000  # characters that are looked at
FEW = 0.2  # share of foreign function words that is enough where there is no English one
_ENGLISH = (
    "the a an are of and to in for what how do does you i my me it this that with on can who where why which "
    "write please make give be have not your about"
)
_OTHERS = (
    "und ist nicht ich ein eine einen wie für mit auf warum bitte mir es sind kannst dir mich wer das der auch "
    "est une je vous que qui dans avec pourquoi quel quelle nous bonjour merci "
    "una qué cómo cuál por para dónde eres puedes hola gracias porque "
    "che è sono perché cosa ciao quale dimmi gli della "
    "uma não você qual obrigado são também "
    "het een niet ik wat hoe waarom zijn voor"
)
"""Function words of German, French, Spanish, Italian, Portuguese and Dutch that are no English words."""


def is_foreign(text: str) -> bool:
    """Returns True if most letters are not Latin, or if foreign function words outnumber the English ones."""
    text = unicodedata.normalize("NFC", text[:READ])
    letters = [letter for letter in text if letter.isalpha()]
    latin = sum(unicodedata.name(letter, "").startswith("LATIN") for letter in letters)
    if 2 * latin < len(letters):
        return True
    words = re.findall(r"[^\W\d_]+", text.casefold())
    foreign, english = (sum(word in known.split() for word in words) for known in (_OTHERS, _ENGLISH))
    return foreign > english and (foreign >= 2 or foreign >= FEW * len(words))
