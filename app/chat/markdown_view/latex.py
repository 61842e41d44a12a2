r"""Parses ``$ $``, ``$$ $$``, ``\( \)`` and ``\[ \]`` as formulas; Markdown itself knows none. Knows no Qt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

CLOSERS = {r"\(": r"\)", r"\[": r"\]"}
_MARK = re.compile(r"\\.|`+|\$+", re.DOTALL)  # an escaped character, a mark of code, or dollars


def dollars(md: MarkdownIt) -> None:
    """Adds formulas between dollars, without those that are prices."""
    from mdit_py_plugins.dollarmath.index import math_block_dollar  # as in ``_reader`` of ``parse``

    whole = math_block_dollar(allow_labels=False, allow_blank_lines=True)

    def block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        line = state.src[state.bMarks[start] : state.eMarks[start]]
        return line.count("$$") <= 2 and whole(state, start, end, silent)  # a line of several is a paragraph

    md.inline.ruler.before("escape", "math_inline", _dollars)
    md.block.ruler.before("fence", "math_block", block)


def _dollars(state: StateInline, silent: bool) -> bool:
    source, start = state.src, state.pos
    if source[start] != "$" or (start and source[start - 1].isdigit()):
        return False
    mark = "$$" if source.startswith("$$", start, state.posMax) else "$"
    end = _closing(source, start + len(mark), state.posMax, mark)
    content = source[start + len(mark) : end]
    is_price = mark == "$" and content != content.strip()
    if end < 0 or not content.strip() or is_price or source[end + len(mark) :][:1].isdigit():
        return False
    if not silent:
        token = state.push("math_inline" if mark == "$" else "math_inline_double", "math", 0)
        token.content, token.markup = content, mark
    state.pos = end + len(mark)
    return True


def _closing(source: str, place: int, most: int, mark: str) -> int:
    """Returns where the next ``mark`` outside of code begins; -1 if there is none."""
    while (match := _MARK.search(source, place, most)) is not None:
        said, place = match.group(), match.end()
        if said.startswith("$") and len(said) >= len(mark):
            return match.start()
        if said.startswith("`"):
            code = re.compile(rf"(?<!`){said}(?!`)").search(source, place, most)
            place = place if code is None else code.end()
    return -1


def brackets(md: MarkdownIt) -> None:
    md.inline.ruler.before("escape", "math_brackets", _inline)
    md.block.ruler.before("fence", "math_brackets_block", _block, {"alt": ["paragraph", "reference", "blockquote"]})


def _inline(state: StateInline, silent: bool) -> bool:
    opener = state.src[state.pos : state.pos + 2]
    closer = CLOSERS.get(opener)
    if closer is None:
        return False
    end = state.src.find(closer, state.pos + 2, state.posMax)
    if end < 0 or not state.src[state.pos + 2 : end].strip():
        return False
    if not silent:
        token = state.push("math_inline" if opener == r"\(" else "math_inline_double", "math", 0)
        token.content = state.src[state.pos + 2 : end]
        token.markup = opener
    state.pos = end + 2
    return True


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    begin = state.bMarks[start] + state.tShift[start]
    if not state.src.startswith(r"\[", begin) or state.is_code_block(start):
        return False
    for line in range(start, end):
        if line > start and state.sCount[line] < state.blkIndent:
            return False
        written = state.src[(begin if line == start else state.bMarks[line]) : state.eMarks[line]].rstrip()
        if r"\]" not in written:
            continue
        if not written.endswith(r"\]"):
            return False  # text follows the formula, so it is part of a paragraph
        if not silent:
            content = state.getLines(start, line + 1, state.blkIndent, False).strip()
            token = state.push("math_block", "math", 0)
            token.content = content[2:-2]
            token.markup = r"\["
            token.map = [start, line + 1]
            state.line = line + 1
        return True
    return False
