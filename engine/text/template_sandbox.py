"""Compiles and renders a stranger's chat template by Jinja's sandbox, with what transformers adds, within bounds.

Time is looked at in each turn of a loop or a macro, and for each new value. That is weighed, with everything in it, so
that none is larger than a template needs. What may multiply at once is weighed before: products, powers, widths,
replacements.
"""

from __future__ import annotations

import datetime
import functools
import json
import re
import time
import types
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from jinja2 import Template, TemplateError, Undefined, nodes, pass_context
from jinja2.ext import Extension
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from engine.clock import this_moment
from engine.errors import SafelightError
from engine.text.tokenizer import BREAK

MAX_SOURCE = 2**16  # characters; published templates have up to 30 000
SECONDS = 2.0  # of the thread's processor time for a rendering; published templates take milliseconds
MAX_BITS = 64  # of a whole number in arithmetic
MAX_WIDTH = 99  # characters of a formatted field, of an indentation, or of a padded text
MAX_COMPARED = 2**30  # pairs of characters that a search or a trim may compare

_THOUGHT = re.compile(r".*think.*|<\|channel>|<channel\|>|\[BEGIN FINAL RESPONSE\]", re.IGNORECASE | re.DOTALL)
"""Tags at which templates cut a thought off an assistant's text."""
_BREAK_ESCAPED = re.compile(r"(?<!\\)((?:\\\\)*)\\ufdd0")
_WIDE_FIELD = re.compile(r"[0-9]{3}|\*|\{[^{}]*\{|%\([^)]*\(")
_CLOCK = re.compile(r"(?:[^%]|%-?[a-zA-Z%]){0,100}")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILTERS = _names(
    "abs attr batch capitalize center count d default dictsort first float format indent int items join last length "
    "list lower map max min reject rejectattr replace reverse round select selectattr slice sort sum title trim "
    "truncate unique upper wordcount"
)
_WIDTHS = _names("batch center indent ljust rjust round slice truncate zfill")
"""Filters and methods whose whole numbers are widths."""
_COMPARING = _names("lstrip rfind rindex rpartition rsplit rstrip strip trim")
"""Filters and methods that may compare each character of their text with each of an argument."""
_METHODS: dict[type, frozenset[str]] = {
    str: _names(
        "capitalize casefold center count endswith find format index isalnum isalpha isascii isdecimal isdigit islower "
        "isnumeric isspace istitle isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind "
        "rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title upper zfill"
    ),
    list: _names("count index"),
    tuple: _names("count index"),
    dict: _names("get items keys values"),
}


class LimitError(Exception):
    """A template exceeds a limit; the message says which."""


class Rendering:
    """The bounds of one rendering.

    Args:
        largest: items and characters of a single value, and of all text that is written.
        inert: function that was applied to all texts of the conversation.
    """

    def __init__(self, largest: int, inert: Callable[[str], str] = str) -> None:
        self.inert = inert
        self._largest, self._written = largest, 0
        self._ends = time.thread_time() + SECONDS
        self._sizes: dict[int, tuple[int, object]] = {}  # by id; holds the object, so that its id stays unique

    def turn(self) -> bool:
        """Goes on if there is time left; always True, so that it can stand in a loop's test."""
        if time.thread_time() > self._ends:
            raise LimitError("it takes longer than any template needs")
        return True

    def written(self, value: Any) -> str:
        """Returns a value as it is written out."""
        if not _is_plain(value):
            raise LimitError(f"it writes out a {type(value).__name__}, which is not text")
        text = _text(self.made(value))
        self._written += len(text)
        self.bound(self._written)
        return text

    def bound(self, size: int) -> None:
        """Refuses a value of so many items and characters if that is too large."""
        if size > self._largest:
            raise LimitError("it makes a value larger than any template needs")

    def made(self, value: Any) -> Any:
        """Returns a new value, which is not too large, if there is time left."""
        self.turn()
        self.bound(self.size(value))
        return value

    def size(self, value: Any) -> int:
        """Returns the items and characters of a value; a part that occurs twice counts twice.

        Raises:
            LimitError: a list or a mapping holds something other than text, numbers, lists and mappings.
        """
        if isinstance(value, str):
            return 2 + len(value)
        if not isinstance(value, list | tuple | Mapping):
            return 1
        if (known := self._sizes.get(id(value))) is not None:
            return known[0]
        size = 2
        for part in (one for pair in value.items() for one in pair) if isinstance(value, Mapping) else value:
            if not _is_plain(part):
                raise LimitError(f"it puts a {type(part).__name__} into a list or a mapping")
            size += self.size(part)
        self.bound(size)
        self._sizes[id(value)] = size, value
        return size


_current: ContextVar[Rendering] = ContextVar("rendering")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | list | tuple | Mapping | Undefined)


def _text(value: Any) -> str:
    """Writes a value; Python writes ``BREAK`` in a list or a mapping as an escape."""
    return value if isinstance(value, str) else _BREAK_ESCAPED.sub(rf"\1{BREAK}", str(value))


def _spelled(value: Any, text: Any) -> Any:
    """Returns the tag of a thought as it is spelled in a text whose control tokens are broken; else unchanged."""
    if isinstance(value, str) and isinstance(text, str) and _THOUGHT.fullmatch(value) and value not in text:
        return _current.get().inert(value)
    return value


def _check_call(name: str, value: Any, arguments: tuple[Any, ...]) -> None:
    """Checks before a filter or a method is called that its result cannot be far larger than its input."""
    _current.get().turn()
    bound, size = _current.get().bound, _current.get().size
    if name in _WIDTHS:
        numbers = [abs(one) for one in arguments if isinstance(one, int)]
        if max(numbers, default=0) > MAX_WIDTH * (10 if name == "truncate" else 1):
            raise LimitError(f"it asks {name} for more than {MAX_WIDTH}")
    texts = [len(one) for one in arguments if isinstance(one, str)]
    if name == "format" and _WIDE_FIELD.search(str(value)):
        raise LimitError(f"it formats a field that is wider than {MAX_WIDTH} characters, or of no known form")
    if name == "indent":
        bound((1 + str(value).count("\n")) * (MAX_WIDTH + max(texts, default=0)))
    elif name == "replace" and isinstance(value, str) and arguments and isinstance(arguments[0], str):
        bound(value.count(arguments[0]) * max(texts))
    elif name == "join":
        items = arguments[0] if isinstance(value, str) and arguments else value
        count = len(items) if isinstance(items, str | list | tuple | Mapping) else 0
        bound(count * max(size(value) if isinstance(value, str) else 0, *texts, 0))
    elif name == "sum" and any(isinstance(one, list | tuple) for one in arguments):
        raise LimitError("it sums lists")  # each sum of the first ones is a new list
    elif name in _COMPARING and isinstance(value, str) and len(value) * max(texts, default=0) > MAX_COMPARED:
        raise LimitError("it compares two texts that are longer than any template needs")


def _filter(name: str) -> Callable[..., Any]:
    function = FILTERS[name]
    skip = 1 if hasattr(function, "jinja_pass_arg") else 0  # the context or environment comes first

    @functools.wraps(function)
    def checked(*args: Any, **named: Any) -> Any:
        if name == "join" and len(args) > skip and not isinstance(args[skip], str | Mapping):
            args = (*args[:skip], list(args[skip]), *args[skip + 1 :])  # an iterator cannot be weighed
        _check_call(name, args[skip] if len(args) > skip else None, (*args[skip + 1 :], *named.values()))
        return _current.get().made(function(*args, **named))

    return checked


@pass_context  # else constants would be written when the template is compiled
def _written(_context: Any, value: Any) -> str:
    """Writes the output of ``{{ … }}``, or of the text between tags."""
    return _current.get().written(value)


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """Writes JSON as transformers does: without HTML escapes, in the order of the mapping."""
    _check_call("round", value, (indent,))
    if separators is not None and any(len(separator) > 4 for separator in separators):
        raise LimitError("it separates JSON by more than 4 characters")
    rendering = _current.get()
    rendering.bound(rendering.size(value) * (1 + (indent or 0)))
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    return _BREAK_ESCAPED.sub(rf"\1{BREAK}", text) if ensure_ascii else text


def _raise(message: object = "") -> None:
    raise TemplateError(_current.get().written(message))


def _now(form: str) -> str:
    if not _CLOCK.fullmatch(form):
        raise LimitError("it asks for the time in a form that is not known")
    return datetime.datetime.fromtimestamp(this_moment()).strftime(form)


def _filtered(name: str, node: Any, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)


class _Rewriting(NodeTransformer):
    """Routes what Jinja would compile to plain Python through filters, whose names no template can write."""

    def visit_For(self, node: nodes.For | nodes.Macro | nodes.CallBlock) -> nodes.Node:
        self.generic_visit(node)
        turn = _filtered(" turn", nodes.Const(0, lineno=node.lineno))
        node.body.insert(0, nodes.ExprStmt(turn, lineno=node.lineno))
        if isinstance(node, nodes.For) and node.test is not None:  # it is computed for items that are left out, too
            node.test = nodes.And(turn, node.test, lineno=node.lineno)
        return node

    visit_Macro = visit_CallBlock = visit_For  # noqa: N815

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Const:
        return nodes.Const(node.data, lineno=node.lineno)  # so that it is written as other output

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:
        self.generic_visit(node)
        return _filtered(" joined", nodes.List(node.nodes, lineno=node.lineno))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Expr:
        self.generic_visit(node)
        if [operand.op for operand in node.ops] in (["in"], ["notin"]):
            within = _filtered(" within", node.expr, node.ops[0].expr)
            return within if node.ops[0].op == "in" else nodes.Not(within, lineno=node.lineno)
        return node

    def visit_List(self, node: Any) -> nodes.Expr:
        self.generic_visit(node)
        return node if getattr(node, "ctx", "load") == "store" else _filtered(" made", node)

    visit_Tuple = visit_Dict = visit_List  # noqa: N815


class _Generation(Extension):
    """``{% generation %}…{% endgeneration %}``, which marks the model's words for training; its body is rendered."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        """Returns the body, in a scope of its own as in ``transformers``."""
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.With([], [], body, lineno=lineno)


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(("+", "*", "%", "**"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # no constant folding: constants are computed, and weighed, when rendering
            finalize=_written,
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )
        self.filters = {name: _filter(name) for name in _FILTERS} | {
            **dict.fromkeys(("e", "escape", "forceescape"), FILTERS["forceescape"]),
            "safe": lambda value: value,
            "string": lambda value: _text(_current.get().made(value)),
            "tojson": _tojson,
            " turn": lambda _: _current.get().turn(),
            " made": lambda value: _current.get().made(value),
            " joined": lambda parts: _current.get().made("".join(map(_text, _current.get().made(parts)))),
            " within": lambda value, holder: _spelled(value, holder) in holder,
        }
        self.globals = {
            "range": self.globals["range"],
            "dict": dict,
            "namespace": Namespace,
            "raise_exception": _raise,
            "strftime_now": _now,
        }

    def call(__self, __context: Any, __obj: Any, *args: Any, **named: Any) -> Any:  # noqa: N805
        named = {name: value for name, value in named.items() if name not in ("_loop_vars", "_block_vars")}
        method = getattr(__obj, "__wrapped__", __obj)  # the sandbox has wrapped a text's format
        owner = getattr(method, "__self__", None)
        if isinstance(method, types.BuiltinMethodType) and method.__name__ in _METHODS.get(type(owner), ()):
            args = tuple(_spelled(argument, owner) for argument in args)
            _check_call(method.__name__, owner, (*args, *named.values()))
        elif not (
            isinstance(__obj, Macro | LoopContext)
            or isinstance(owner, LoopContext)
            or any(__obj is known for known in __self.globals.values())
        ):
            raise LimitError(f"it calls a {type(__obj).__name__} that templates have no use for")
        return _current.get().made(__context.call(__obj, *args, **named))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        numbers = [one for one in (left, right) if isinstance(one, int)]
        if any(one.bit_length() > MAX_BITS for one in numbers):
            raise LimitError("it computes with numbers larger than any template needs")
        if operator == "**" and len(numbers) == 2 and abs(left).bit_length() * abs(right) > MAX_BITS:
            raise LimitError("it computes a power larger than any template needs")
        if operator == "%" and isinstance(left, str):
            _check_call("format", left, ())
        if operator == "*" and len(numbers) == 1:
            _current.get().bound(max(0, numbers[0]) * sum(map(_current.get().size, (left, right))))
        return _current.get().made(super().call_binop(context, operator, left, right))


_SANDBOX = _Sandbox()


@functools.lru_cache(maxsize=16)
def compile_template(source: str) -> Template:
    """Compiles a template for ``render``; the same one is compiled once, since models are loaded again and again.

    Raises:
        SafelightError: it is not a template.
    """
    if len(source) > MAX_SOURCE:
        raise SafelightError(
            f"the model's chat template is longer than {MAX_SOURCE:,} characters, the most that is read"
        )
    try:
        tree = _Rewriting().visit(_SANDBOX.parse(source))
        tree.set_environment(_SANDBOX)
        return _SANDBOX.from_string(tree)
    except Exception as error:  # nested too deeply for Jinja or Python, which raise several types
        raise SafelightError(f"the model's chat template is damaged: {_why(error)}") from error


@functools.lru_cache(maxsize=16)
def names_in(source: str) -> frozenset[str]:
    """Returns the names of attributes, and the texts, that a template which compiles has in its expressions."""
    tree = _SANDBOX.parse(source)
    texts = {node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)}
    return frozenset(texts | {node.attr for node in tree.find_all(nodes.Getattr)})


def render(template: Template, rendering: Rendering, values: dict[str, Any]) -> str:
    """Renders a template within what ``rendering`` may take.

    Raises:
        SafelightError: the template refuses the values, or takes too much.
    """
    token = _current.set(rendering)
    try:
        return template.render(values)
    except Exception as error:  # a template may raise anything
        raise SafelightError(f"the model's chat template refuses this conversation: {_why(error)}") from error
    finally:
        _current.reset(token)


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError | MemoryError):
        return "it is nested too deeply"
    return str(error) or type(error).__name__
