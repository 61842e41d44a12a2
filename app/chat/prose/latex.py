r"""Parses ``\( \)`` and ``\[ \]`` as formulas, which Markdown itself takes for escaped brackets. Knows no Qt."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

CLOSERS = {r"\(": r"\)", r"\[": r"\]"}


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
        stop = state.eMarks[line]
        written = state.src[(begin if line == start else state.bMarks[line]) : stop].rstrip()
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
