"""Matchers of an answer's format, at the beginning of the answer: the first one forces the most.

JSON is written with ``", "`` and ``": "`` and no further white space, so that as many tokens as possible are forced.
Other white space that a model has written is accepted, too, up to ``MOST_BLANKS`` in one place.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import SafelightError, quoted
from engine.text.grammar_tokens import GrammarTokens
from engine.text.matching import TOO_COMPLEX, Matcher, MatcherProcess, MatchingEndedError
from engine.text.output_format import OutputFormat
from engine.text.pattern_size import check_pattern
from engine.text.schema_check import checked_schema
from engine.text.tool_grammar import tool_grammar

NO_TEXT = "there is no such text"
MOST_BLANKS = 40  # signs of white space between two parts of JSON
_TIGHT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_LOOSE = {"whitespace_pattern": rf"[\x20\x0A\x0D\x09]{{1,{MOST_BLANKS}}}"}


def matchers_of(format: OutputFormat, tokens: GrammarTokens, process: MatcherProcess) -> list[Matcher]:
    """Returns the matchers of a format.

    Raises:
        SafelightError: no text of the model fits, or none can be held to it; names the place.
        MatchingEndedError: see ``MatcherProcess.ask``.
    """
    match format.kind:
        case "json_schema":
            assert format.schema is not None
            return _of_schema(format.schema, tokens, process)
        case "json_object":
            return _of_schema({"type": "object"}, tokens, process)
        case "regex":
            check_pattern(format.pattern, "the regular expression")
            source = _regex_source(format.pattern, tokens.writable)
            refused = f"no answer can be held to the regular expression {quoted(format.pattern)}"
        case "choices":
            source = _choices_source(format.choices, tokens)
            refused = "no answer can be held to these choices"
        case "tool_calls":
            source = tool_grammar(format.tools, tokens.token_id, tokens.written.lacks, tokens.writable)
            refused = "no call of these tools can be held to"
    made = process.make("lark", source)
    problem = _problem(made, tokens)
    if problem:
        raise SafelightError(f"{refused}: {problem}")
    return [made]


def _of_schema(schema: Mapping[str, Any], tokens: GrammarTokens, process: MatcherProcess) -> list[Matcher]:
    only = tokens.writable
    cleaned = checked_schema(schema, tokens.written.lacks, None if only is None else f"^{only}$")
    tight = process.make("json", json.dumps(cleaned), _TIGHT)
    problem = _problem(tight, tokens)
    if problem:
        raise SafelightError(_named(cleaned, tokens, process, problem))
    loose = process.make("json", json.dumps(cleaned), _LOOSE)
    return [tight] if loose.error else [tight, loose]


def _named(schema: Mapping[str, Any], tokens: GrammarTokens, process: MatcherProcess, problem: str) -> str:
    """Describes a problem with the innermost schema that has one by itself, if the search does not take too long."""
    shared = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    place, here, is_inner = "", schema, True
    with contextlib.suppress(MatchingEndedError):
        while is_inner:
            is_inner = False
            for name, inner in _inner(here):
                found = _problem(process.make("json", json.dumps({**inner, **shared}), _TIGHT), tokens)
                if found:
                    place, here, problem, is_inner = f"{place}/{name}", inner, found, True
                    break
    where = f"the schema's {place}" if place else "the schema"
    return f"{where} cannot be fulfilled: {problem}"


def _inner(schema: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Returns the schemas in a schema, without its definitions, with their places."""
    found: list[tuple[str, Any]] = []
    for name in ("properties", "patternProperties"):
        found += [(f"{name}/{key}", inner) for key, inner in schema.get(name, {}).items()]
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        found += [(f"{name}/{index}", inner) for index, inner in enumerate(schema.get(name, []))]
    found += [(name, schema.get(name)) for name in ("items", "additionalProperties")]
    return [(name, inner) for name, inner in found if isinstance(inner, dict)]


def _regex_source(pattern: str, only: str | None) -> str:
    body = f"/{_in_lark(pattern)}/" + ("" if only is None else f" & /{_in_lark(only)}/")
    return f"start: TEXT\nTEXT: {body}"


def _choices_source(choices: Sequence[str], tokens: GrammarTokens) -> str:
    for choice in choices:
        lacking = tokens.written.lacks(choice)
        if lacking:
            raise SafelightError(f"the choice {quoted(choice)} has {quoted(lacking)}, which this model cannot write")
    return "start: " + " | ".join(map(json.dumps, dict.fromkeys(choices)))


def _in_lark(pattern: str) -> str:
    """Returns a pattern that may stand between slashes, in one line."""
    escaped = re.sub(r"\\.|/", lambda found: found[0] if len(found[0]) > 1 else "\\/", pattern, flags=re.DOTALL)
    return escaped.replace("\n", "\\n").replace("\r", "\\r")


def allowed_by(matcher: Matcher, tokens: GrammarTokens) -> NDArray[np.bool_]:
    """Returns a mask (V,) of the tokens that may come next."""
    bits = np.unpackbits(np.frombuffer(matcher.mask(), dtype=np.uint8), bitorder="little")
    found = np.zeros(tokens.size, dtype=np.bool_)
    if not matcher.error:
        found |= bits[: tokens.size].astype(np.bool_)
        found[list(tokens.ends)] = matcher.is_accepting
    return found


def reason(error: str) -> str:
    """Returns the library's message in one line."""
    if "NoExtension" in error:
        return NO_TEXT
    if any(sign in error for sign in ("TooComplex", "fuel", "too large", "too many", "Unable to determine")):
        return TOO_COMPLEX
    if "coerce_one_of" in error:
        return "more than one of its parts may hold at once; write anyOf in place of oneOf"
    first = error.removeprefix("Unsatisfiable schema: ").split("<state>")[0]
    found = re.search(r"error: (.+)", first)  # in a regular expression's message, after a drawing of it
    return " ".join((found[1] if found else first).split())[:200] or "it cannot be read"


def _problem(matcher: Matcher, tokens: GrammarTokens) -> str:
    """Returns why no answer can be held to a grammar; empty if one can."""
    if not matcher.error and not allowed_by(matcher, tokens).any() and not matcher.error:
        return NO_TEXT
    return reason(matcher.error) if matcher.error else ""
