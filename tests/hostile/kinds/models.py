"""Chat templates that a stranger wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

from engine import EMBEDDED
from engine.files import read_json
from engine.text.chat_template import ChatTemplate
from tests.hostile import mutate
from tests.hostile.kind import Attempt, Kind

FOLDERS = [model.folder for model in EMBEDDED]
SETTINGS = read_json(FOLDERS[0] / "tokenizer_config.json")

# --- templates ---------------------------------------------------------------------------------------------------

NAMES = ("messages", "messages[0]", "messages[-1].content", "m", "x", "ns.x", "loop", "loop.index", "ns", "bos_token")
NUMBERS = ("0", "-1", "3", "99", "1000", "100000", "10000000000", "9" * 400, "1e308", "2.5", "true", "none")
WORDS = ("'a'", "''", "'%s'", "'%9999999999d'", "'{:999999999}'", "'\\n'", "'content'", "'é😀'", "'\\ud800'", "' ab '")
FILTERS = re.findall(
    r"\w+",
    "length list upper lower trim join string tojson first last reverse sort unique escape indent title capitalize int "
    "float abs items dictsort min max wordcount round safe default truncate batch slice center replace format map "
    "select reject selectattr rejectattr attr count e random sum pprint xmlattr urlize groupby wordwrap missing",
)
METHODS = re.findall(
    r"\w+",
    "upper strip split rsplit splitlines join replace center ljust zfill rfind count startswith format format_map "
    "encode translate expandtabs items keys get values append update copy index partition title __class__ mro",
)
TESTS = ("defined", "string", "mapping", "in x", "none", "iterable", "sequence", "divisibleby(0)", "eq(x)", "odd")
GLOBALS = ("range", "dict", "namespace", "raise_exception", "strftime_now", "lipsum", "cycler", "macro1", "loop")


class Writer:
    """Writes a Jinja program at random; half of what it writes is meant to grow."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def some(self, most: int, depth: int) -> str:
        return ", ".join(self.expression(depth) for _ in range(self.random.randrange(most + 1)))

    def expression(self, depth: int) -> str:
        pick = self.random.choice
        if depth <= 0 or self.random.random() < 0.25:
            return pick((pick(NAMES), pick(NAMES), pick(NUMBERS), pick(WORDS)))
        inner = self.expression(depth - 1)
        match self.random.randrange(13):
            case 0 | 1:
                return f"({inner} {pick(('+', '*', '~', '**', '%', '-', '//', '/'))} {self.expression(depth - 1)})"
            case 2 | 3 | 4:
                return f"{inner}|{pick(FILTERS)}" + (
                    f"({self.some(2, depth - 2)})" if self.random.random() < 0.5 else ""
                )
            case 5 | 6:
                return f"{inner}.{pick(METHODS)}({self.some(2, depth - 2)})"
            case 7:
                return f"{pick(GLOBALS)}({self.some(3, depth - 2)})"
            case 8:
                return pick(("[{0}, {0}]", "({0}, {0})", "{{'k': {0}, {0}: 1}}", "[{0}]")).format(inner)
            case 9:
                return f"{inner}[{pick(('1:', '::-1', ':-1', '0', '-1', 'x', self.expression(1)))}]"
            case 10:
                return f"({inner} {pick(('==', '<', 'in', 'not in', 'and', 'or', '!='))} {self.expression(depth - 1)})"
            case 11:
                return f"({inner} if {inner} is {pick(TESTS)} else {self.expression(depth - 1)})"
            case _:
                return f"{pick(('not', '-', '+'))} {inner}"

    def block(self, depth: int) -> str:
        return "".join(self.statement(depth) for _ in range(1 + self.random.randrange(3)))

    def statement(self, depth: int) -> str:
        pick, value = self.random.choice, self.expression(self.random.randrange(5))
        inner = self.block(depth - 1) if depth > 0 else f"{{{{ {value} }}}}"
        times = pick(("messages", "range(3)", "range(1000)", "range(100000)", "x", "[1, 2]", value))
        match self.random.randrange(13):
            case 0 | 1:
                return f"{{% for m in {times} %}}{inner}{{% endfor %}}"
            case 2:
                return f"{{% for m in {times} if {value} %}}{inner}{{% else %}}e{{% endfor %}}"
            case 3:
                return f"{{% for m in {times} recursive %}}{inner}{{{{ loop({value}) }}}}{{% endfor %}}"
            case 4:
                return f"{{% if {value} %}}{inner}{{% elif x %}}{{% else %}}{inner}{{% endif %}}"
            case 5:
                return f"{{% set x = {value} %}}"
            case 6:
                grown = ("[ns.x, ns.x]", "ns.x ~ ns.x", "ns.x + ns.x", "ns.x * 2", "(ns.x, x)", "{'k': ns.x}", value)
                return f"{{% set ns.x = {pick(grown)} %}}" * pick((1, 1, 40))
            case 7:
                return f"{{% set x %}}{inner}{{{{ x }}}}{{% endset %}}"
            case 8:
                return f"{{% macro macro1(a=1) %}}{inner}{{{{ macro1({value}) }}}}{{% endmacro %}}{{{{ macro1() }}}}"
            case 9:
                return f"{{% filter {pick(FILTERS)} %}}{inner}{{% endfilter %}}"
            case 10:
                called = f"{{% call macro1({value}) %}}{inner}{{% endcall %}}"
                return pick((called, f"{{% with x = {value} %}}{inner}{{% endwith %}}"))
            case 11:
                return pick(
                    ("{% break %}", "{% continue %}", "{% include 'x' %}", "{% block b %}{% endblock %}", "a\n")
                )
            case _:
                return f"{{{{ {value} }}}}"


PLAIN = (
    "{% for m in messages %}<|turn>{{ m['role'] }}\n{{ m['content'] | trim }}<turn|>\n{% endfor %}",
    "{%- set ns = namespace(x='', last=-1) -%}{%- for m in messages[::-1] -%}{%- if m.role == 'user' -%}"
    "{%- set ns.last = loop.index0 -%}{%- endif -%}{%- set ns.x = ns.x ~ m.content.split('</think>')[-1].strip() -%}"
    "{%- endfor -%}{{ ns.x }}{% if add_generation_prompt %}<|turn>model{% endif %}",
    *((folder / "chat_template.jinja").read_text(encoding="utf-8") for folder in FOLDERS),
)


def _deep(random: Random) -> str:
    """Nested or chained beyond what compilers take."""
    count = random.choice((50, 200, 2_000, 20_000))
    head, body, tail = random.choice(
        (
            ("{{ ", "(", "1" + ")" * count + " }}"), ("{{ a", ".a", " }}"), ("{{ 1", "+1", " }}"),
            ("{{ ", "not ", "1 }}"), ("{{ a", "|upper", " }}"), ("{{ [", "[", "]" * count + "] }}"),
            ("", "{% if a %}", "{% endif %}" * count), ("", "{% for a in b %}", "{% endfor %}" * count),
            ("{% if a %}", "{% elif b %}", "{% endif %}"), ("", "{% set a = 1 %}{% if a %}{% endif %}", ""),
            ("", "{{ a }}", ""), ("{{ '", "x", "' }}"), ("{# ", "{", " #}"), ("", "{%", ""),
        )
    )  # fmt: skip
    return f"{head}{body * count}{tail}"


def _make_templates(random: Random, folder: Path) -> Attempt:
    writer = Writer(random)
    match random.randrange(12):
        case 0:
            source = _deep(random)
        case 1 | 2:
            text = random.choice(PLAIN)
            places = [place.start() for place in re.finditer(r"[{%|.(\['~]|\b", text)]
            for place in sorted(random.sample(places, 2), reverse=True):
                put = random.choice(("|" + random.choice(FILTERS), f"[{writer.expression(2)}]", writer.statement(1)))
                text = text[:place] + put + text[place:]
            source = text
        case 3:
            source = mutate.damaged(random, random.choice(PLAIN).encode()).decode("utf-8", "replace")
        case _:
            source = "{% set x = 'a' %}{% set ns = namespace(x='ab') %}" + writer.block(random.randrange(4))
    data = source.encode("utf-8", "surrogatepass")
    if random.random() < 0.5:
        (folder / "chat_template.jinja").write_bytes(data)
        (folder / "tokenizer_config.json").write_bytes(
            mutate.dumped(random, mutate.tree(random, SETTINGS) if random.random() < 0.2 else SETTINGS)
        )
    else:
        (folder / "tokenizer_config.json").write_text(json.dumps(SETTINGS | {"chat_template": source}))
    said = random.choice(("Hi", "Hi <there> &", "", "line\n" * 50, "x" * 20_000, "é\u202e😀"))
    turns = random.choice((0, 0, 1, 5, 60))
    messages = [{"role": role, "content": said} for _ in range(turns) for role in ("user", "assistant")]
    messages = [*messages, {"role": "user", "content": said}]
    options = {"enable_thinking": random.random() < 0.5}

    def attempt() -> None:
        template = ChatTemplate.from_folder(folder)
        template.render(messages)
        template.render(messages, **options)

    return attempt


KINDS = (Kind("templates", _make_templates),)
