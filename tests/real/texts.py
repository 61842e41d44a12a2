"""Texts to try a tokenizer with, made by a seeded generator: code, scripts of the world, emoji, and what breaks rules."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

WORDS = [
    "the",
    "of",
    "and",
    "def",
    "return",
    "import",
    "self",
    "data",
    "value",
    "index",
    "İstanbul",
    "Straße",
    "naïve",
    "Ångström",
    "don't",
    "I'LL",
    "we've",
    "They're",
    "it'S",
    "ﬁnance",
    "fiancé",
    "co-op",
    "3rd",
    "v2.0",
    "x86_64",
    "snake_case",
    "camelCase",
    "HTTPServer",
    "getURL",
    "λx",
    "∑",
    "½",
    "²",
    "Ⅳ",
    "①",
    "٣٤",
    "३४",
    "12345678",
    "0x1F",
    "你好",
    "世界",
    "中文分词",
    "東京都",
    "カタカナ",
    "ひらがな",
    "한국어",
    "안녕하세요",
    "привет",
    "мир",
    "Україна",
    "שלום",
    "עולם",
    "مرحبا",
    "بالعالم",
    "السَّلامُ",
    "عَلَيْكُم",
    "नमस्ते",
    "ภาษาไทย",
    "ខ្មែរ",
    "ქართული",
    "አማርኛ",
    "ꦗꦮ",
    "𝒜𝒷𝒸",
    "𠮷野家",
    "𐍈",
    "👍🏽",
    "👨\u200d👩\u200d👧\u200d👦",
    "🏳️\u200d🌈",
    "🇩🇪🇫🇷",
    "❤️",
    "1️⃣",
    "☕︎",
    "é",
    "ȫ",
    "à֮̀̕b",
    "ẛ̣",
    "Å",
    "\xa0",
    "\u200b\u200d",
    "\ufeff",
    "\u2028",
    "\u3000",
    "\x85",
    "\x00",
    "\x1b[0m",
    "�",
    "\ue000",
    "\U0010ffff",
    "ſ",
    "'ſ",
    "'S",
]
SPACES = (
    " ",
    "  ",
    "   ",
    "\n",
    "\r\n",
    "\r",
    "\n\n\n",
    "\t",
    " \n ",
    "\r\n\r\n",
    "        ",
    "\x0b",
    "\x0c",
    "\u00a0",
    "",
)
CODE = (
    "def f(x):\n    return x  # 1  2\n", "for (int i = 0; i < 10; ++i) {\r\n\tprintf(\"%d\\n\", a[i]);\r\n}\n",
    "SELECT  *  FROM t WHERE a='b''c';", "<div class=\"a\">&nbsp;</div>\n", "{\"a\": [1, 2.5e-3, null]}\n", "x = 1   +  22",
    "| a  | 1  |\n|----|----|\n", "https://example.org/?q=1&r=%20#x", "\\frac{a}{b}$$", "'''\"\"\"```", "!!!???...---___///",
)  # fmt: skip
SURROGATES = ("\ud800", "\udfff", "\ud83d \ude00")


def texts(seed: int, count: int, special: Sequence[str] = ()) -> list[str]:
    """``count`` texts; tokens of ``special`` are written in some."""
    random = Random(seed)
    found = ["", " ", "\n", "  1", "a  1", *WORDS, *CODE, *SURROGATES, *special]
    while len(found) < count:
        parts: list[str] = []
        for _ in range(random.choice((1, 2, 5, 20, 60))):
            match random.randrange(12):
                case 0:
                    parts.append(random.choice(CODE))
                case 1:
                    parts.append("".join(chr(random.choice(RANGES)[random.randrange(64)]) for _ in range(6)))
                case 2:
                    parts.append(str(random.randrange(10 ** random.randrange(1, 12))))
                case 3:
                    parts.append(random.choice((" ", "\n", "\t", "a", "!", "\u0301", "字", "'")) * random.randrange(40))
                case 4 if special:
                    parts.append(random.choice(special))
                case 5:
                    parts.append(random.choice(SURROGATES))
                case 6:
                    parts.append(random.choice(WORDS).upper())
                case _:
                    parts.append(random.choice(WORDS))
            parts.append(random.choice(SPACES))
        found.append("".join(parts))
    return found[:count]


RANGES = [
    range(start, start + 64)
    for start in (
        0x20, 0x40, 0xA0, 0x2B0, 0x300, 0x370, 0x400, 0x5D0, 0x620, 0x900, 0xE00, 0x10A0, 0x1100, 0x1E00, 0x2000, 0x2070,
        0x20D0, 0x2150, 0x2460, 0x3040, 0x4E00, 0xAC00, 0xF900, 0xFB00, 0xFE00, 0xFF00, 0x1D400, 0x1F1E0, 0x1F600, 0xE0020,
    )
]  # fmt: skip
