"""The progress of an answer under its format: the tokens that the format takes, forces and allows next.

If an answer can no longer be held to its format, ``failure`` says why, and nothing more is taken, forced or allowed.
"""

from __future__ import annotations

import contextlib
import json
import re
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engine.errors import SafelightError, quoted
from engine.text.grammar_tokens import GrammarTokens
from engine.text.matching import TOO_COMPLEX, Matcher, MatcherProcess, MatchingEndedError
from engine.text.output_format import OutputFormat
from engine.text.schema_check import check_pattern, checked_schema
from engine.text.schema_parts import inner_schemas
from engine.text.tags import MARK
from engine.text.tool_grammar import tool_grammar
from engine.types import Cancel

NO_TEXT = "there is no such text"
FREE_CLOSINGS = 8
"""How often the model may choose where the end of a string or value is asked for and cannot come at once."""
MAX_BLANKS = 40  # signs of white space between two parts of JSON
_TIGHT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_LOOSE = {"whitespace_pattern": rf"[\x20\x0A\x0D\x09]{{1,{MAX_BLANKS}}}"}
"""JSON is written tight, so that as many tokens as possible are forced; what a model wrote in between is accepted."""
_BLANKS_BEHIND = tuple(bytes((sign,)) for sign in b":,0123456789")

_MARK = MARK.encode()


@dataclass(frozen=True)
class _Place:
    """The state at the end of a text of JSON, or of calls, whose strings stand between quotation marks or tags."""

    string: Literal["", "quoted", "marked"] = ""
    is_escaped: bool = False  # the next character of a quoted string is escaped
    tail: bytes = b""  # the beginning of a tag around a string

    def behind(self, written: bytes) -> _Place:
        string, escaped, tail = self.string, self.is_escaped, self.tail
        for byte in written:
            if string == "quoted":
                if not escaped and byte == 0x22:
                    string = ""
                escaped = not escaped and byte == 0x5C
                continue
            tail = (tail + bytes((byte,)))[-len(_MARK) :]
            if tail == _MARK:
                string, tail = "" if string else "marked", b""
            elif not string and byte == 0x22 and not _MARK.startswith(tail[-3:]):
                string = "quoted"
        return _Place(string, escaped, tail)


class GrammarState:
    """An answer under a format. Closing it returns its process to the pool."""

    def __init__(self, format: OutputFormat, tokens: GrammarTokens, cancel: Cancel | None = None) -> None:
        """Begins an answer.

        Args:
            cancel: ends the process at any moment.

        Raises:
            SafelightError: no text of the model fits, or none can be held to it; names the place.
        """
        self._tokens = tokens
        self.has_ended = False  # an end token was taken
        self.failure = ""
        self._json = tokens.json_signs if format.is_json else None
        self._calls = tokens.json_signs if format.tools else None
        self._place = _Place()
        self._closings = 0
        process = tokens.processes.lend(cancel)
        self._give_back = weakref.finalize(self, tokens.processes.give_back, process)
        try:
            self._matchers = matchers_of(format, tokens, process)
        except BaseException as error:
            self.close()
            if isinstance(error, MatchingEndedError):
                raise SafelightError(f"this format cannot be followed: {error}") from None
            raise

    def close(self) -> None:
        """Frees its resources. May be called twice; the garbage collector calls it at the latest."""
        self._matchers = []
        self._give_back()

    def take(self, ids: Sequence[int]) -> int:
        """Takes tokens as far as the format allows them; returns how many, including an end token."""
        if self.has_ended or self.failure:
            return 0
        ends = self._tokens.ends
        stop = next((place for place, token in enumerate(ids) if token in ends), len(ids))
        wanted = list(ids[:stop])
        try:
            taken = max((self._count(matcher, wanted) for matcher in self._matchers), default=0)
            following = [one for one in self._matchers if not taken or one.take(wanted[:taken]) == taken]
        except MatchingEndedError as error:
            return self._fail(str(error))
        if not self._keep(following):
            return 0
        self._place = self._place_behind(wanted[:taken])
        if taken == stop < len(ids) and self.may_end:
            self.has_ended = True
            taken += 1
        return taken

    @property
    def may_end(self) -> bool:
        """True if the answer is complete as it is."""
        return any(matcher.is_accepting for matcher in self._matchers)

    @property
    def must_end(self) -> bool:
        """True if the answer is complete, and nothing can follow."""
        return bool(self._matchers) and all(one.is_accepting and one.is_stopped for one in self._matchers)

    def forced(self) -> list[int]:
        """Returns the tokens that must come next, as far as there is no choice; not taken yet."""
        ids = list[int]()
        if not self.has_ended:
            try:
                ids = self._matchers[0].forced() if self._matchers else []
            except MatchingEndedError as error:
                self._fail(str(error))
            self._keep(self._matchers)
        return ids[: next((place for place, token in enumerate(ids) if token >= self._tokens.size), len(ids))]

    def allowed(self) -> NDArray[np.bool_]:
        """Returns the mask (V,) of tokens that may come next.

        Behind a sign of ``_BLANKS_BEHIND``, JSON may have a token of white space where the model wants one, and none
        where only the tight form has one, so that values are the model's own: a vocabulary has `` -`` and nothing like
        `` 3``, and behind ``2.5`` a line may end. Elsewhere white space is not needed, and could go on for ever.
        """
        mask = self._first_mask()
        if self._json is None or self._place.string:
            return mask
        if self._place.tail[-1:] in _BLANKS_BEHIND:
            for loose in self._matchers[1:]:
                mask |= self._mask(loose)
        elif (mask & ~self._json.blank).any():
            mask &= ~self._json.blank
        return mask

    def _first_mask(self) -> NDArray[np.bool_]:
        """Returns the mask (V,) of the first matcher that does not fail at it."""
        mask = np.zeros(self._tokens.size, dtype=np.bool_)
        while self._matchers and not mask.any():
            mask = self._mask(self._matchers[0])
            if not self._matchers or not self._matchers[0].error:
                break
            self._keep(self._matchers)
        return mask

    def _mask(self, matcher: Matcher) -> NDArray[np.bool_]:
        try:
            return allowed_by(matcher, self._tokens)
        except MatchingEndedError as error:
            self._fail(str(error))
            return np.zeros(self._tokens.size, dtype=np.bool_)

    def closing(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns those of the allowed tokens (V,) that bring the answer to its end; all, if none is known."""
        signs = self._json or self._calls
        if self.may_end:
            return self._tokens.only(self._tokens.ends) & allowed
        if signs is None:
            return allowed
        for mask in signs.closing(self._place.string):
            if (allowed & mask).any():
                return allowed & mask
        self._closings += 1
        if self._closings <= FREE_CLOSINGS:
            return allowed
        return self._nearer(allowed, signs.shortest(self._place.string))

    def _nearer(self, allowed: NDArray[np.bool_], wanted: Sequence[int]) -> NDArray[np.bool_]:
        """Returns the allowed tokens (V,) that begin the shortest path to a wanted one; all, if it is not found."""
        try:
            nearest = self._matchers[0].nearest(wanted)
        except MatchingEndedError as error:
            self._fail(str(error))
            return np.zeros_like(allowed)
        mask = self._tokens.only(token for token in nearest if token < self._tokens.size) & allowed
        return mask if mask.any() else allowed

    @property
    def has_called(self) -> bool:
        """True if the answer is a whole call, or several."""
        return self._calls is not None and self.may_end

    def _count(self, matcher: Matcher, ids: Sequence[int]) -> int:
        """Returns how many tokens fit, without white space at their end that JSON does not need."""
        count = matcher.count(ids)
        if self._json is not None and count < len(ids) and not self._place_behind(ids[:count]).string:
            while count and self._json.blank[ids[count - 1]]:
                count -= 1
        return count

    def _place_behind(self, ids: Sequence[int]) -> _Place:
        if self._json is None and self._calls is None:
            return self._place
        return self._place.behind(b"".join(self._tokens.written.tokens[token] for token in ids))

    def _keep(self, matchers: Sequence[Matcher]) -> bool:
        """Keeps the matchers that have not failed; False if none is left."""
        intact = [matcher for matcher in matchers if not matcher.error]
        if not intact and self._matchers:
            self._fail(next((reason(one.error) for one in self._matchers if one.error), "nothing may follow"))
        self._matchers = intact
        return bool(intact)

    def _fail(self, why: str) -> int:
        self.failure, self._matchers = f"the answer can no longer follow its format: {why}", []
        return 0


def matchers_of(format: OutputFormat, tokens: GrammarTokens, process: MatcherProcess) -> list[Matcher]:
    """Returns the matchers of a format at the beginning of an answer; the first one forces the most.

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
            only = "" if tokens.writable is None else f" & /{_in_lark(tokens.writable)}/"
            source = f"start: TEXT\nTEXT: /{_in_lark(format.pattern)}/{only}"
            refused = f"no answer can match the regular expression {quoted(format.pattern)}"
        case "choices":
            source = _choices_source(format.choices, tokens)
            refused = "no answer can be one of these choices"
        case "tool_calls" | "text_or_calls":
            source = tool_grammar(
                format.tools, tokens.token_id, tokens.written.lacks, tokens.writable, is_strict=not format.may_be_text
            )
            refused = "calls of these tools cannot be checked"
    matcher = process.make("lark", source)
    problem = _problem(matcher, tokens)
    if problem and format.may_be_text:
        matcher = process.make("lark", tool_grammar([], tokens.token_id, tokens.written.lacks, tokens.writable))
        problem = _problem(matcher, tokens)
    if problem:
        for tool in format.tools:
            _check_parameters(tool.get("function", tool), tokens, process)
        raise SafelightError(f"{refused}: {problem}")
    return [matcher]


def _check_parameters(function: Mapping[str, Any], tokens: GrammarTokens, process: MatcherProcess) -> None:
    """Checks that there are arguments of a tool, by themselves; names the place in their schema."""
    try:
        _of_schema({"type": "object", **(function.get("parameters") or {})}, tokens, process)
    except SafelightError as error:
        raise SafelightError(f"the parameters of the tool {quoted(function['name'])}: {error}") from None


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
    shared = {"$defs": schema.get("$defs", {})}
    place, here, is_inner = "", schema, True
    with contextlib.suppress(MatchingEndedError):
        while is_inner:
            is_inner = False
            for name, inner in inner_schemas(here):
                if not isinstance(inner, Mapping):
                    continue
                inner_problem = _problem(process.make("json", json.dumps({**inner, **shared}), _TIGHT), tokens)
                if inner_problem:
                    place, here, problem, is_inner = f"{place}/{name}", inner, inner_problem, True
                    break
    where = f"the schema's {place}" if place else "the schema"
    return f"{where} cannot be satisfied: {problem}"


def _choices_source(choices: Sequence[str], tokens: GrammarTokens) -> str:
    for choice in choices:
        lacking = tokens.written.lacks(choice)
        if lacking:
            raise SafelightError(f"the choice {quoted(choice)} has {quoted(lacking)}, which this model cannot write")
    return "start: " + " | ".join(map(json.dumps, dict.fromkeys(choices)))


def _in_lark(pattern: str) -> str:
    """Returns a pattern that may stand between slashes, in one line."""
    escaped = re.sub(r"\\.|/", lambda match: match[0] if len(match[0]) > 1 else "\\/", pattern, flags=re.DOTALL)
    return escaped.replace("\n", "\\n").replace("\r", "\\r")


def allowed_by(matcher: Matcher, tokens: GrammarTokens) -> NDArray[np.bool_]:
    """Returns a mask (V,) of the tokens that may come next."""
    bits = np.unpackbits(np.frombuffer(matcher.mask(), dtype=np.uint8), bitorder="little")
    mask = np.zeros(tokens.size, dtype=np.bool_)
    if not matcher.error:
        mask |= bits[: tokens.size].astype(np.bool_)
        mask[list(tokens.ends)] = matcher.is_accepting
    return mask


def reason(error: str) -> str:
    """Returns the library's message in one line."""
    if "NoExtension" in error:
        return NO_TEXT
    if any(sign in error for sign in ("TooComplex", "fuel", "too large", "too many", "Unable to determine")):
        return TOO_COMPLEX
    if "coerce_one_of" in error:
        return "more than one of its parts may hold at once; write anyOf in place of oneOf"
    _, is_named, rest = error.partition("Unsatisfiable schema: ")
    first = (rest.split("\n")[0] if is_named else error).split("<state>")[0]
    match = re.search(r"error: (.+)", first)  # in a regular expression's message, after a drawing of it
    return " ".join((match[1] if match else first).split())[:200] or "it cannot be read"


def _problem(matcher: Matcher, tokens: GrammarTokens) -> str:
    """Returns why no answer can be held to a grammar; empty if one can."""
    if not matcher.error and not allowed_by(matcher, tokens).any() and not matcher.error:
        return NO_TEXT
    return reason(matcher.error) if matcher.error else ""
