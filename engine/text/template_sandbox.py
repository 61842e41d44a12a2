"""Jinja with a budget: the operations that an untrusted template may use, and the cost of each.

Every operation of a template is a filter or test, a call, an operator, an attribute or item, or output. Operations that
Jinja would compile to plain Python go through filters of ours. Their names begin with a space, so that no template can
name them; ``template_compiling`` inserts them.
"""

from __future__ import annotations

import datetime
import functools
import json
import re
import types
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import markupsafe
from jinja2 import TemplateError, nodes, pass_context
from jinja2.ext import Extension
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.tests import TESTS
from jinja2.utils import Namespace

from engine.clock import this_moment
from engine.text.template_budget import CHARACTERS, LimitError, TemplateBudget, check_percent, length_of
from engine.text.tokenizer import BREAK

_THOUGHT = re.compile(r".*think.*|<\|channel>|<channel\|>|\[BEGIN FINAL RESPONSE\]", re.IGNORECASE | re.DOTALL)
"""Tags at which templates cut a thought off an assistant's text."""
_BREAK_ESCAPED = re.compile(r"(?<!\\)((?:\\\\)*)\\ufdd0")
MOST_BITS = 64  # of a whole number in arithmetic

current: ContextVar[TemplateBudget] = ContextVar("budget")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LOOKING = _names(
    "attr batch count d default first items last length list map reject rejectattr reverse select selectattr slice"
)
"""Filters that only iterate over the items of a value."""

_AT_ONCE = _names("attr count d default first last length")
"""Filters of these whose time does not depend on the value."""

_READING = _names(
    "abs capitalize center dictsort float format indent int join lower max min replace round sort string title trim "
    "truncate unique upper wordcount"
)
"""Filters that read a value completely, or write it out."""

_READING_TESTS = _names("in == eq equalto != ne > gt greaterthan >= ge < lt lessthan <= le lower upper")

_METHODS: dict[type, frozenset[str]] = {
    str: _names(
        "capitalize casefold center count endswith find index isalnum isalpha isascii isdecimal isdigit islower "
        "isnumeric isspace istitle isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind "
        "rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title upper zfill"
    ),
    list: _names("count index"),
    tuple: _names("count index"),
    dict: _names("get items keys values"),
}

_BY_PAIRS = _names("rfind rindex rsplit rpartition strip lstrip rstrip trim")
"""Methods that may compare each character of a text with each of the pattern."""


def _pay(name: str, value: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Spends steps for a filter or a method before it is called.

    A whole number may be a width, and is charged as one.
    """
    budget = current.get()
    arguments = (*args, *named.values())
    if name in _AT_ONCE or (name == "get" and isinstance(value, dict)):
        budget.spend()
        return
    (budget.look if name in _LOOKING else budget.write)(value)
    for argument in arguments:
        if isinstance(argument, int):
            budget.spend(abs(argument))
        (budget.read if name in _LOOKING else budget.write)(argument)
    budget.spend(_growth(name, value, args, named) // CHARACTERS)


def _growth(name: str, value: Any, args: tuple[Any, ...], named: dict[str, Any]) -> int:
    """Returns the characters of a result that may be longer than the input, or the number of comparisons."""
    weigh = current.get().weigh
    size, sizes = weigh(value).size, [weigh(argument).size for argument in (*args, *named.values())]
    longest = max(sizes, default=0)
    first = args[0] if args else None
    if name in _BY_PAIRS:
        size *= max(1, longest)
    elif name == "join":  # a text's method, or a filter of the items
        size = max(length_of(value) * longest, length_of(first) * size)
    elif name == "replace":
        size = longest * (value.count(first) if isinstance(value, str) and isinstance(first, str) else size)
    elif name in ("split", "splitlines"):
        size = CHARACTERS * (value.count(first) if isinstance(first, str) and first else size // 2)
    elif name == "indent":
        widths = [abs(argument) for argument in (*args, *named.values()) if isinstance(argument, int)]
        size = (1 + len(str(value).splitlines())) * max(4, longest, *widths)
    elif name in ("e", "escape", "forceescape"):
        size *= 5
    else:
        if name == "format":
            check_percent(str(value))
        return 0
    return size


def _paid_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    skip = 1 if hasattr(function, "jinja_pass_arg") else 0  # the context or environment comes first

    @functools.wraps(function)
    def paid(*args: Any, **named: Any) -> Any:
        _pay(name, args[skip] if len(args) > skip else None, args[skip + 1 :], named)
        return current.get().made(function(*args, **named))

    return paid


def _paid_test(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    skip = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def paid(*args: Any, **named: Any) -> Any:
        budget = current.get()
        budget.spend()
        if name in _READING_TESTS:
            for value in (*args[skip:], *named.values()):
                budget.read(value)
        return function(*args, **named)

    return paid


def _turn(steps: int) -> bool:
    current.get().spend(steps)
    return True


def _holder(value: Any) -> Any:
    """Returns the container that ``in`` searches; for a mapping the time is constant."""
    return value if isinstance(value, dict) else current.get().read(value)


def _within(value: Any, holder: Any) -> bool:
    """Evaluates ``value in holder``."""
    return _spelled(current.get().read(value), _holder(holder)) in holder


def _spelled(value: Any, text: Any) -> Any:
    """Returns the tag of a thought as it is spelled in a text whose control tokens are broken; else unchanged."""
    if isinstance(value, str) and isinstance(text, str) and _THOUGHT.fullmatch(value) and value not in text:
        return current.get().inert(value)
    return value


def _joined(parts: list[Any]) -> str:
    """Evaluates ``a ~ b``."""
    budget = current.get()
    return str(budget.made("".join(_text(budget.write(part)) for part in parts)))


def _text(value: Any) -> str:
    """Writes a value; Python writes ``BREAK`` in a list or a mapping as an escape."""
    return value if isinstance(value, str) else _BREAK_ESCAPED.sub(rf"\1{BREAK}", str(value))


def _escaped(value: Any) -> str:
    return str(markupsafe.escape(str(value)))  # plain text, since Markup escapes what is added to it


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """Writes JSON as transformers does: without HTML escapes, in the order of the mapping."""
    budget = current.get()
    weight = budget.weigh(budget.write(value))
    if not (indent is None or (isinstance(indent, int) and 0 <= indent <= CHARACTERS)):
        raise LimitError(f"it indents JSON by other than 0 to {CHARACTERS} characters")
    if separators is not None and any(len(separator) > 4 for separator in separators):
        raise LimitError("it separates JSON by more than 4 characters")
    budget.spend(weight.size * (1 + (indent or 0) * weight.depth // CHARACTERS))
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    return str(budget.made(_BREAK_ESCAPED.sub(rf"\1{BREAK}", text) if ensure_ascii else text))


def _raise(message: object = "") -> None:
    raise TemplateError(str(current.get().write(message)))


def _now(form: str) -> str:
    if not re.fullmatch(r"(?:[^%]|%-?[a-zA-Z%]){0,100}", form):
        raise LimitError("it asks for the time in a form that is not known")
    return datetime.datetime.fromtimestamp(this_moment()).strftime(form)


class _Formatter(SandboxedFormatter):
    """Formats ``"{}".format(…)`` with fields at most 99 wide."""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return super().convert_field(current.get().write(value), conversion)

    def format_field(self, value: Any, format_spec: str) -> Any:
        if re.search(r"[0-9]{3}", format_spec):
            raise LimitError("it formats a field that is wider than 99 characters")
        return current.get().made(super().format_field(current.get().write(value), format_spec))


class Generation(Extension):
    """``{% generation %}…{% endgeneration %}``, which marks the model's words for training; its body is rendered."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        """Returns the body, in a scope of its own as in ``transformers``."""
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.With([], [], body, lineno=lineno)


class Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # no constant folding: constants are computed, and charged, when rendering
            finalize=_written,
            extensions=["jinja2.ext.loopcontrols", Generation],
        )
        budget = current.get
        self.filters = {name: _paid_filter(name, FILTERS[name]) for name in _LOOKING | _READING}
        self.filters |= {name: _paid_filter(name, _escaped) for name in ("e", "escape", "forceescape")}
        self.filters |= {
            "string": _paid_filter("string", _text),
            "safe": lambda value: value,
            "tojson": _tojson,
            " turn": _turn,
            " joined": _joined,
            " holder": _holder,
            " within": _within,
            " made": lambda value: budget().made(value),
            " look": lambda value: budget().look(value),
            " read": lambda value: budget().read(value),
        }
        self.tests = {name: _paid_test(name, function) for name, function in dict[str, Any](TESTS).items()}
        self.globals = {
            "range": self.globals["range"],
            "dict": dict,
            "namespace": Namespace,
            "raise_exception": _raise,
            "strftime_now": _now,
        }

    def getattr(self, obj: Any, attribute: str) -> Any:
        current.get().spend()
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        current.get().read(argument)
        return super().getitem(obj, argument)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        form = getattr(value, "__self__", None)
        if isinstance(form, str) and isinstance(value, types.BuiltinMethodType) and value.__name__ == "format":
            return functools.partial(_format, self, form)
        return None

    def call(__self, __context: Any, __obj: Any, *args: Any, **named: Any) -> Any:  # noqa: N805
        budget = current.get()
        budget.spend()
        named = {name: value for name, value in named.items() if name not in ("_loop_vars", "_block_vars")}
        owner = getattr(__obj, "__self__", None)
        if isinstance(__obj, types.BuiltinMethodType) and __obj.__name__ in _METHODS.get(type(owner), ()):
            args = tuple(_spelled(argument, owner) for argument in args)
            _pay(__obj.__name__, owner, args, named)
        elif isinstance(__obj, functools.partial) and __obj.func is _format:
            pass  # charged by the field
        elif not (
            isinstance(__obj, Macro | LoopContext)
            or isinstance(owner, LoopContext)
            or any(__obj is known for known in __self.globals.values())
        ):
            raise LimitError(f"it calls a {type(__obj).__name__} that templates have no use for")
        return budget.made(__context.call(__obj, *args, **named))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # noqa: ARG002
        budget = current.get()
        numbers = [value for value in (left, right) if isinstance(value, int)]
        if any(value.bit_length() > MOST_BITS for value in numbers):
            raise LimitError("it computes with numbers larger than any template needs")
        if operator == "**" and len(numbers) == 2 and abs(left).bit_length() * abs(right) > MOST_BITS:
            raise LimitError("it computes a power larger than any template needs")
        if operator == "%" and isinstance(left, str):
            check_percent(budget.write(left))
            budget.write(right)
        elif operator == "*" and len(numbers) == 1:
            sequence, times = (right, left) if isinstance(left, int) else (left, right)
            budget.spend(max(0, times) * length_of(sequence) // (CHARACTERS if isinstance(sequence, str) else 1))
        else:
            budget.look(left)
            budget.look(right)
        return budget.made(self.binop_table[operator](left, right))


def _format(environment: Sandbox, form: str, /, *args: Any, **named: Any) -> str:
    current.get().write(form)
    return str(_Formatter(environment).vformat(form, args, named))


@pass_context
def _written(_context: Any, value: Any) -> str:
    """Writes the output of ``{{ … }}``, or of the text between tags."""
    return _text(current.get().write(value))
