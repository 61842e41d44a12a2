"""Holds texts to grammars in a separate process, which can be ended: native code may take any time and memory.

Run as a file, so that it loads only the library; imports nothing of ours. Jobs arrive as lines of JSON on standard
input, ``[name, …]``, each answered by a line, in order. The first line is the vocabulary. In the middle of a job the
process may ask for a text's tokens by a line that is a string, with a character for each byte. It ends when its input
ends.
"""

from __future__ import annotations

import base64
import contextlib
import faulthandler
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

MAX_LOOKED = 1_000  # paths to the end of a value
_ASCII = range(0x20, 0x7F)
MEMORY = 2**31  # bytes of address space, on systems that can limit it
PATIENCE = 120  # seconds of wall time for a job, after which the process ends even if its parent is gone
_LIMITS = LLParserLimits(  # a useful grammar stays far below these limits; the parent process bounds everything else
    max_items_in_row=20_000,
    initial_lexer_fuel=5_000_000,
    step_lexer_fuel=10_000_000,
    step_max_items=500_000,
    max_lexer_states=200_000,
    max_grammar_size=200_000,
    verbose_errors=False,
)


class _Vocabulary:
    """A model's tokens, with the interface that the library expects."""

    bos_token_id = None

    def __init__(self, raw: dict[str, Any], jobs: IO[bytes], answers: IO[bytes]) -> None:
        self.tokens = [text.encode("latin-1") for text in raw["tokens"]]
        self.special_token_ids: list[int] = raw["special"]
        self.eos_token_id: int = raw["ends"][0]
        self._jobs, self._answers = jobs, answers

    def __call__(self, text: bytes | str) -> list[int]:
        written = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        _say(self._answers, written.decode("latin-1"))
        ids: list[int] = json.loads(self._jobs.readline())
        return ids


class _Matchers:
    def __init__(self, library: LLTokenizer, signs: Mapping[int, int]) -> None:
        self._library, self._signs = library, signs
        self._all: list[LLMatcher] = []

    def perform(self, name: str, rest: Sequence[Any]) -> tuple[Any, LLMatcher | None]:
        """Runs a job; returns its result, and its matcher."""
        if name == "forget":
            self._all.clear()
            return None, None
        if name == "make":
            matcher = LLMatcher(self._library, _source(*rest), log_level=0, limits=_LIMITS)
            self._all.append(matcher)
            return len(self._all) - 1, matcher
        matcher = self._all[rest[0]]
        match name:
            case "count":
                return matcher.validate_tokens(rest[1]), matcher
            case "take":
                return matcher.try_consume_tokens(rest[1]), matcher
            case "forced":
                return matcher.compute_ff_tokens(), matcher
            case "nearest":
                return _nearest(matcher, rest[1], self._signs), matcher
        return base64.b64encode(matcher.compute_bitmask()).decode(), matcher


def _nearest(matcher: LLMatcher, wanted: Sequence[int], signs: Mapping[int, int]) -> list[int]:
    """Returns those tokens of one sign that begin the shortest paths to a wanted token, or to an end of the text.

    Signs after which the same signs may follow count as one, and none at all if the same could have come before them.
    Looks at ``MAX_LOOKED`` paths. Masks of a large vocabulary would take too long.

    Args:
        wanted: tokens of one sign, or tags. signs: the tokens of one sign, by their bytes.
    """
    ends, tokens, looked = set(wanted), tuple({*signs.values(), *wanted}), 0
    reached = [(matcher, _following(matcher, tokens), set[int](), 0)]
    while reached:
        further, nearest = list[tuple[LLMatcher, tuple[int, ...], set[int], int]](), set[int]()
        for here, allowed, begun, quotes in reached:
            kinds = dict[tuple[int, ...], set[int]]()
            for sign in allowed:
                looked += 1
                if looked > MAX_LOOKED:
                    return sorted(nearest)
                there = here.deep_copy()
                there.consume_token(sign)
                written = there.compute_ff_bytes().partition(b"\xff")[0]  # up to a tag
                forced = [signs[byte] for byte in written if byte in signs]
                there.try_consume_tokens(forced)
                following, begins = _following(there, tokens), begun or {sign}
                marks = quotes + [sign, *forced].count(signs.get(0x22, -1))  # odd: within a string, or behind it
                if there.is_accepting() or (marks % 2 == 0 and ends.intersection((*following, *forced))):
                    nearest |= begins
                elif following in kinds:
                    kinds[following] |= begins
                elif following != allowed:
                    kinds[following] = set(begins)
                    further.append((there, following, kinds[following], marks))
        if nearest:
            return sorted(nearest)
        reached = further
    return []


def _following(matcher: LLMatcher, tokens: Sequence[int]) -> tuple[int, ...]:
    """Returns those of the tokens that may come next."""
    return tuple(token for token in tokens if matcher.validate_tokens([token]))


def _source(kind: str, text: str, style: dict[str, Any] | None) -> str:
    if kind == "lark":
        return LLMatcher.grammar_from_lark(text)
    return LLMatcher.grammar_from_json_schema(text, overrides=style)  # type: ignore[arg-type]


def _say(answers: IO[bytes], line: Any) -> None:
    answers.write(json.dumps(line).encode() + b"\n")
    answers.flush()


def _state(value: Any, matcher: LLMatcher | None) -> dict[str, Any]:
    """Returns an answer: a job's value, the matcher's state, and the processor's seconds since the start."""
    state = {"value": value, "seconds": time.process_time()}
    if matcher is None:
        return state
    error = matcher.get_error() if matcher.is_error() else ""
    is_accepting = not error and matcher.is_accepting()
    return state | {"error": error, "is_accepting": is_accepting, "is_stopped": matcher.is_stopped()}


def _serve(jobs: IO[bytes], answers: IO[bytes], silence: IO[str]) -> None:
    raw = json.loads(jobs.readline())
    vocabulary = _Vocabulary(raw, jobs, answers)
    wrapped = TokenizerWrapper(vocabulary)
    library = LLTokenizer(wrapped, eos_token=raw["ends"])
    signs = {
        written[0]: token
        for token, written in enumerate(vocabulary.tokens)
        if len(written) == 1 and written[0] in _ASCII
    }
    del raw
    wrapped.tokens = vocabulary.tokens = []  # the library has copied them
    matchers = _Matchers(library, signs)
    _say(answers, _state(None, None))
    for line in jobs:
        name, *rest = json.loads(line)
        with _ending(silence):
            try:
                answer = _state(*matchers.perform(name, rest))
            except BaseException as error:  # the library's panics are no Exceptions
                answer = _state(None, None) | {"error": str(error) or type(error).__name__}
        _say(answers, answer)


@contextlib.contextmanager
def _ending(silence: IO[str]) -> Iterator[None]:
    """Ends the process, even in native code, if a job takes too long."""
    if sys.platform != "win32":
        signal.alarm(PATIENCE)
        yield
        signal.alarm(0)
    else:  # Windows has no such timer; this one costs a thread each time
        faulthandler.dump_traceback_later(PATIENCE, exit=True, file=silence)
        yield
        faulthandler.cancel_dump_traceback_later()


def main() -> None:
    """Serves until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in a terminal is for the parent process
    with contextlib.suppress(ImportError, OSError, ValueError):  # a lower limit may be set already
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A bundled program without a console has no ``sys.stdin``; library output must not mix with answers.
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    silence = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    os.dup2(silence.fileno(), 1)
    answers.write(b"\n")  # it is ready
    answers.flush()
    _serve(jobs, answers, silence)


if __name__ == "__main__":
    main()
