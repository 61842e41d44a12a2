"""The format of an answer as a grammar over a model's tokens, and reading tokens under it.

JSON is written with ``", "`` and ``": "`` and no further white space, so that as much as can be is forced; what a model
has written with other white space is taken, too, up to ``MOST_BLANKS`` in one place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from engine.errors import SafelightError, quoted
from engine.text.output_format import OutputFormat
from engine.text.pattern_size import check_pattern
from engine.text.schema_check import checked_schema
from engine.text.token_bytes import TokenBytes
from engine.text.tokenizer import Tokenizer

NO_TEXT = "there is no such text"
MOST_BLANKS = 40  # signs of white space between two parts of JSON
_TIGHT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_LOOSE = {"whitespace_pattern": rf"[\x20\x0A\x0D\x09]{{1,{MOST_BLANKS}}}"}
_LIMITS = LLParserLimits(
    max_items_in_row=1_000,
    initial_lexer_fuel=1_000_000,  # 20 ms
    step_lexer_fuel=200_000,
    step_max_items=50_000,
    max_lexer_states=20_000,  # of 2 KB each
    max_grammar_size=100_000,
    verbose_errors=False,
)


class GrammarTokens:
    """A model's tokens as grammars know them.

    Args:
        size: of the model's vocabulary. ends: tokens that end a text.

    Raises:
        SafelightError: its tokenizer writes tokens in a way that is not known here.
    """

    def __init__(self, tokenizer: Tokenizer, size: int, ends: Sequence[int]) -> None:
        self.size, self.ends = size, tuple(sorted({end for end in ends if end < size}))
        if not self.ends:
            raise SafelightError("this model has no token that ends a text; an answer cannot be held to a format")
        self.written = TokenBytes(tokenizer, size)
        self.library = LLTokenizer(TokenizerWrapper(_Vocabulary(self.written, self.ends)), eos_token=list(self.ends))

    @staticmethod
    def of(tokenizer: Tokenizer, size: int, ends: Sequence[int]) -> GrammarTokens:
        """A tokenizer's own, kept as long as it is; one a tokenizer."""
        kept = _KEPT.get(tokenizer)
        if kept is None or (kept.size, kept.ends) != (size, tuple(sorted({end for end in ends if end < size}))):
            kept = _KEPT[tokenizer] = GrammarTokens(tokenizer, size, ends)
        return kept

    @property
    def writable(self) -> str | None:
        """A pattern of all texts that can be written; None: any."""
        alphabet = self.written.alphabet
        return None if alphabet is None else f"[{''.join(map(_in_class, sorted(alphabet)))}]*"


_KEPT: WeakKeyDictionary[Tokenizer, GrammarTokens] = WeakKeyDictionary()


class _Vocabulary:
    """What the library asks of a tokenizer."""

    bos_token_id = None

    def __init__(self, written: TokenBytes, ends: Sequence[int]) -> None:
        self.eos_token_id, self.tokens = ends[0], written.with_bytes
        self.special_token_ids = sorted(written.special | set(ends))
        self._encode = written.encode

    def __call__(self, text: str | bytes) -> list[int]:
        return self._encode(text)


@dataclass(frozen=True, eq=False)
class Grammar:
    """A format over a model's tokens."""

    tokens: GrammarTokens
    sources: tuple[str, ...]  # in the library's words; the first one forces the most
    closing: Closing | None = None  # None: what closes it is not known

    @staticmethod
    def of(format: OutputFormat, tokens: GrammarTokens) -> Grammar:
        """
        Raises:
            SafelightError: no text of the model fits, or none can be held to it; names the place.
        """
        match format.kind:
            case "json_schema":
                assert format.schema is not None
                return _of_schema(format.schema, tokens)
            case "json_object":
                return _of_schema({"type": "object"}, tokens)
            case "regex":
                return _of_regex(format.pattern, tokens)
            case "choices":
                return _of_choices(format.choices, tokens)
            case "tool_calls":
                raise SafelightError("tool calls cannot be held to their schemas yet")

    def begin(self) -> GrammarState:
        """At the beginning of the answer."""
        return GrammarState(self)


class Closing:
    """What brings JSON to its end soonest, as masks over the tokens (V,): in a string, and outside of one."""

    def __init__(self, tokens: GrammarTokens) -> None:
        def begin_with(signs: bytes) -> NDArray[np.bool_]:
            written = tokens.written.tokens
            return np.array([text[:1] != b"" and text[:1] in signs for text in written], dtype=np.bool_)

        self.in_string = (begin_with(b'"'),)
        self.outside = begin_with(b"}]"), begin_with(b",")


class GrammarState:
    """How far an answer has come under its grammar."""

    def __init__(self, grammar: Grammar) -> None:
        self._tokens = grammar.tokens
        self._matchers = [_matcher(source, grammar.tokens) for source in grammar.sources]
        self.has_ended = False  # an end token was taken
        self._closing, self._is_in_string = grammar.closing, False
        self._is_escaped = False  # the next sign of the string is

    def take(self, ids: Sequence[int]) -> int:
        """Take tokens as far as the format allows them; returns how many, with an end token that was taken."""
        if self.has_ended:
            return 0
        ends = self._tokens.ends
        stop = next((place for place, token in enumerate(ids) if token in ends), len(ids))
        wanted = list(ids[:stop])
        counts = [matcher.try_consume_tokens(wanted) for matcher in self._matchers]
        taken = max(counts)
        self._matchers = [matcher for matcher, count in zip(self._matchers, counts, strict=True) if count == taken]
        self._check()
        if self._closing is not None:
            self._follow_strings(wanted[:taken])
        if taken == stop < len(ids) and self.may_end:
            self.has_ended = True
            taken += 1
        return taken

    @property
    def may_end(self) -> bool:
        """Whether the answer is whole as it is."""
        return any(matcher.is_accepting() for matcher in self._matchers)

    @property
    def must_end(self) -> bool:
        """Whether it is whole, and nothing can follow."""
        return all(matcher.is_accepting() and matcher.is_stopped() for matcher in self._matchers)

    def forced(self) -> list[int]:
        """The tokens that must come next, as far as nothing else is possible; not taken yet."""
        found = [] if self.has_ended else self._matchers[0].compute_ff_tokens()
        return found[: next((place for place, token in enumerate(found) if token >= self._tokens.size), len(found))]

    def allowed(self) -> NDArray[np.bool_]:
        """Which tokens may come next: (V,)."""
        found = _allowed(self._matchers[0], self._tokens)
        self._check()
        return found

    def closing(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Of the tokens (V,) that are allowed next, those that bring the answer to its end; all, if none is known."""
        if self._closing is not None:
            for mask in self._closing.in_string if self._is_in_string else self._closing.outside:
                if (allowed & mask).any():
                    return allowed & mask
        return allowed

    def _follow_strings(self, ids: Sequence[int]) -> None:
        """Note whether the text now ends inside a string."""
        written = b"".join(self._tokens.written.tokens[token] for token in ids)
        for byte in written:
            if self._is_escaped:
                self._is_escaped = False
            elif byte == 0x22:
                self._is_in_string = not self._is_in_string
            else:
                self._is_escaped = self._is_in_string and byte == 0x5C

    def _check(self) -> None:
        for matcher in self._matchers:
            if matcher.is_error():
                raise SafelightError(f"the answer cannot be held to its format: {_reason(matcher.get_error())}")


# --- formats ---------------------------------------------------------------------------------------------------------


def _of_schema(schema: Mapping[str, Any], tokens: GrammarTokens) -> Grammar:
    only = tokens.writable
    cleaned = checked_schema(schema, tokens.written.lacks, None if only is None else f"^{only}$")
    problem = _problem_of_schema(cleaned, tokens)
    if problem:
        raise SafelightError(_named(cleaned, tokens, problem))
    return Grammar(tokens, tuple(_schema_source(cleaned, style) for style in (_TIGHT, _LOOSE)), Closing(tokens))


def _schema_source(schema: Mapping[str, Any], style: Mapping[str, Any]) -> str:
    try:
        return LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=dict(style))  # type: ignore[arg-type]
    except ValueError as error:
        raise SafelightError(f"the schema cannot be read: {_reason(str(error))}") from None


def _problem_of_schema(schema: Mapping[str, Any], tokens: GrammarTokens) -> str:
    return _problem(_schema_source(schema, _TIGHT), tokens)


def _named(schema: Mapping[str, Any], tokens: GrammarTokens, problem: str) -> str:
    """A problem with the innermost schema that has one by itself."""
    shared = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    place, here, is_inner = "", schema, True
    while is_inner:
        is_inner = False
        for name, inner in _inner(here):
            found = _problem_of_schema({**inner, **shared}, tokens)
            if found:
                place, here, problem, is_inner = f"{place}/{name}", inner, found, True
                break
    return (
        f"the schema's {place} cannot be fulfilled: {problem}"
        if place
        else f"the schema cannot be fulfilled: {problem}"
    )


def _inner(schema: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The schemas in a schema, but its definitions, with their places."""
    found: list[tuple[str, Any]] = []
    for name in ("properties", "patternProperties"):
        found += [(f"{name}/{key}", inner) for key, inner in schema.get(name, {}).items()]
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        found += [(f"{name}/{index}", inner) for index, inner in enumerate(schema.get(name, []))]
    found += [(name, schema.get(name)) for name in ("items", "additionalProperties")]
    return [(name, inner) for name, inner in found if isinstance(inner, dict)]


def _of_regex(pattern: str, tokens: GrammarTokens) -> Grammar:
    check_pattern(pattern, "the regular expression")
    source = _regex_source(pattern, tokens.writable)
    problem = _problem(source, tokens)
    if problem:
        raise SafelightError(f"no answer can be held to the regular expression {quoted(pattern)}: {problem}")
    return Grammar(tokens, (source,))


def _regex_source(pattern: str, only: str | None) -> str:
    body = f"/{_in_lark(pattern)}/" + ("" if only is None else f" & /{_in_lark(only)}/")
    return LLMatcher.grammar_from_lark(f"start: TEXT\nTEXT: {body}")


def _of_choices(choices: Sequence[str], tokens: GrammarTokens) -> Grammar:
    for choice in choices:
        lacking = tokens.written.lacks(choice)
        if lacking:
            raise SafelightError(f"the choice {quoted(choice)} has {quoted(lacking)}, which this model cannot write")
    source = LLMatcher.grammar_from_lark("start: " + " | ".join(map(json.dumps, dict.fromkeys(choices))))
    problem = _problem(source, tokens)
    if problem:
        raise SafelightError(f"no answer can be held to these choices: {problem}")
    return Grammar(tokens, (source,))


# --- the library -----------------------------------------------------------------------------------------------------


def _matcher(source: str, tokens: GrammarTokens) -> LLMatcher:
    return LLMatcher(tokens.library, source, log_level=0, limits=_LIMITS)


def _problem(source: str, tokens: GrammarTokens) -> str:
    """Why no answer can be held to a grammar; empty if one can."""
    matcher = _matcher(source, tokens)
    if not matcher.is_error() and not _allowed(matcher, tokens).any():
        return NO_TEXT
    return _reason(matcher.get_error()) if matcher.is_error() else ""


def _allowed(matcher: LLMatcher, tokens: GrammarTokens) -> NDArray[np.bool_]:
    """Which tokens may come next: (V,)."""
    bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8), bitorder="little")
    found = bits[: tokens.size].astype(np.bool_)
    found[list(tokens.ends)] = matcher.is_accepting()
    return found


def _reason(error: str) -> str:
    """The library's words in one line."""
    if "NoExtension" in error:
        return NO_TEXT
    if "TooComplex" in error or "fuel" in error or "too large" in error:
        return "it is too complex; make it simpler"
    first = error.removeprefix("Unsatisfiable schema: ").split("<state>")[0]
    found = re.search(r"error: (.+)", first)  # of a regular expression, behind a drawing of it
    return " ".join((found[1] if found else first).split())[:200] or "it cannot be read"


def _in_class(sign: str) -> str:
    return f"\\{sign}" if sign in r"\]^-[&~/" else "\\n" if sign == "\n" else sign


def _in_lark(pattern: str) -> str:
    """A pattern as it may stand between slashes, in one line."""
    escaped = re.sub(r"\\.|/", lambda found: found[0] if len(found[0]) > 1 else "\\/", pattern, flags=re.DOTALL)
    return escaped.replace("\n", "\\n").replace("\r", "\\r")
