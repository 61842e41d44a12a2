"""Exports the shown path of a conversation as a document: Markdown, or HTML with all content escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from string import Template

from app.library.records import ROUNDS, StoredMessage, Whole, details_of
from app.state.chat.attachment import AttachedPicture, with_attachments
from app.state.chat.calls import ToolCall, ToolRound, rounds_from_json
from app.state.sudoku.placing import answered, is_puzzle, puzzle_in
from app.state.sudoku.solve_frame import ShownCell, SolveFrame, entered, settled
from app.system.i18n import tr
from engine import SafelightError
from engine.pictures import Picture, data_url

PICTURE_SIDE = 1280  # longest side of a picture in pixels; it takes some 200 kB


def path_on_show(messages: Iterable[StoredMessage]) -> list[StoredMessage]:
    """Returns the shown messages from the beginning of a conversation to its end."""
    following = {message.parent: message for message in messages if message.shown}
    path: list[StoredMessage] = []
    parent: int | None = None
    while parent in following:
        path.append(following[parent])
        parent = path[-1].id
    return path


def to_markdown(whole: Whole) -> str:
    """Returns a conversation as Markdown. Answers are Markdown already and are copied unchanged."""
    summary = whole.summary
    parts = [f"# {_title(whole)}", f"*{_day(summary.created)}*"]
    if summary.system_prompt:
        parts += [f"**{tr('System prompt')}**", _quoted(summary.system_prompt)]
    for message in path_on_show(whole.messages):
        parts.append(f"## {_speaker(message)}")
        for file in message.attachments:
            parts += [f"**{' '.join(file.name.split())}**", _fenced(file.text)]
        parts += [f"*{_named(picture)}*" for picture in message.pictures]
        for made in rounds_of(message):
            parts += [_quoted(made.thinking)] if made.thinking else []
            parts += [made.text] if made.text else []
            for call in made.calls:
                parts += [f"**{_called(call)}**", _fenced(call.written), _fenced(call.result)]
        if message.thinking:
            parts += [f"**{tr('Thinking')}**", _quoted(message.thinking)]
        parts += [message.content] if message.content else []
        parts += [f"*{remark}*" for remark in _remarks(message)]
    return "\n\n".join(parts) + "\n"


def to_html(whole: Whole) -> str:
    """Returns a conversation as one HTML file that loads and runs nothing; texts are shown literally."""
    title = _shown(_title(whole))
    parts = [f'<h1 dir="auto">{title}</h1>', f'<p class="faint">{_shown(_day(whole.summary.created))}</p>']
    if whole.summary.system_prompt:
        parts.append(_folded(tr("System prompt"), whole.summary.system_prompt))
    asked, pictures = "", {picture.digest: picture for picture in whole.pictures}
    for message in path_on_show(whole.messages):
        inner = [f'<h2 dir="auto">{_shown(_speaker(message))}</h2>']
        inner += [_folded(tr("File: {name}", name=file.name), file.text) for file in message.attachments]
        inner += [_pictured(shown, pictures.get(shown.digest)) for shown in message.pictures]
        for made in rounds_of(message):
            inner += [_folded(tr("Thinking"), made.thinking)] if made.thinking else []
            inner += [f'<div class="said" dir="auto">{_shown(made.text)}</div>'] if made.text else []
            inner += [_folded(_called(call), f"{call.written}\n\n{call.result}") for call in made.calls]
        inner += [_folded(tr("Thinking"), message.thinking)] if message.thinking else []
        inner += _board_of(message, asked) or _plain(message)
        asked = with_attachments(message.content, message.attachments) if message.role == "user" else asked
        inner += [f'<p class="faint" dir="auto">{_shown(remark)}</p>' for remark in _remarks(message)]
        parts.append(f'<section class="{message.role}">\n' + "\n".join(inner) + "\n</section>")
    return _PAGE.substitute(title=title, body="\n".join(parts))


def rounds_of(message: StoredMessage) -> list[ToolRound]:
    """Returns the rounds of tool calls before an answer's text."""
    try:
        return rounds_from_json(details_of(message.settings, "settings").get(ROUNDS))
    except SafelightError:
        return []


def _called(call: ToolCall) -> str:
    return tr("Call of a tool: {name}", name=call.called)


def _named(shown: AttachedPicture) -> str:
    name = " ".join(shown.name.split())
    return tr("Picture: {name}", name=name) if name else tr("Picture")


def _pictured(shown: AttachedPicture, picture: Picture | None) -> str:
    if picture is not None:
        with suppress(SafelightError):
            return f'<p><img alt="{_shown(_named(shown))}" src="{data_url(picture, PICTURE_SIDE)}"></p>'
    return f'<p class="faint" dir="auto">{_shown(_named(shown))} {_shown(tr("(missing)"))}</p>'


def _plain(message: StoredMessage) -> list[str]:
    return [f'<div class="said" dir="auto">{_shown(message.content)}</div>'] if message.content else []


def _board_of(message: StoredMessage, asked: str) -> list[str]:
    """Returns a puzzle, or the answer to one with its verdict, as a board; empty if a message has more text."""
    if message.role == "user":
        puzzle = puzzle_in(message.content) if is_puzzle(message.content) else None
        return [] if puzzle is None else [_table(entered(puzzle))]
    found = answered(asked, message.content)
    if found is None or not found.grid.is_alone:
        return []
    board = settled(found.puzzle, found.grid.answer)
    return [_table(board), f"<p>{_shown(board.verdict.text)}</p>"] if board.verdict is not None else [_table(board)]


def _table(board: SolveFrame) -> str:
    def square(cell: ShownCell) -> str:
        marks = {"given": cell.given, "wrong": cell.wrong or cell.violated}
        named = " ".join(name for name, is_so in marks.items() if is_so)
        return f'<td class="{named}">{cell.digit or cell.given}</td>' if named else f"<td>{cell.digit}</td>"

    rows = (board.cells[start : start + 9] for start in range(0, len(board.cells), 9))
    inner = "\n".join(f"<tr>{''.join(map(square, row))}</tr>" for row in rows)
    return f'<table class="sudoku">\n{inner}\n</table>'


def _title(whole: Whole) -> str:
    return " ".join(whole.summary.title.split()) or tr("Untitled")


def _day(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, OSError, ValueError):
        return ""


def _speaker(message: StoredMessage) -> str:
    return tr("You") if message.role == "user" else " ".join(message.model.split()) or tr("Assistant")


def _remarks(message: StoredMessage) -> Sequence[str]:
    if message.status == "failed":
        return (tr("Failed: {error}", error=message.error) if message.error else tr("Failed"),)
    return () if message.status == "done" else (tr("Stopped"),)


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"} | {0x7F: 0x2421}


def _shown(text: str) -> str:
    """Escapes a text for HTML; replaces control characters, which HTML forbids, by Unicode's control pictures."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return html.escape(lines.translate(_PICTURES))


def _folded(heading: str, text: str) -> str:
    said = f'<div class="said" dir="auto">{_shown(text)}</div>'
    return f'<details><summary dir="auto">{_shown(heading)}</summary>{said}</details>'


# The colours are those of the themes Paper (light) and Darkroom (dark).
_PAGE = Template("""<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root {
  color-scheme: light dark;
  --surface: #f8f3ea; --ink: #231c16; --faint: #6d6254; --line: #e0d6c7; --wrong: #b2143f;
}
@media (prefers-color-scheme: dark) {
  :root { --surface: #171310; --ink: #f2eadf; --faint: #a99e90; --line: #352d27; --wrong: #ff7591; }
}
body { background: var(--surface); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 0; }
main { max-width: 44rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.5rem; margin: 0; }
h2 { font-size: 0.85rem; font-weight: 600; color: var(--faint); margin: 0 0 0.25rem; }
section { border-top: 1px solid var(--line); padding: 1rem 0; }
.said { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext; }
img { max-width: 100%; max-height: 28rem; }
.faint, summary { color: var(--faint); font-size: 0.85rem; }
.sudoku { border-collapse: collapse; border: 2px solid var(--faint); font-variant-numeric: tabular-nums; }
.sudoku td { border: 1px solid var(--line); width: 2rem; height: 2rem; padding: 0; text-align: center; }
.sudoku td:nth-child(3n) { border-right: 2px solid var(--faint); }
.sudoku tr:nth-child(3n) td { border-bottom: 2px solid var(--faint); }
.sudoku .given { font-weight: 700; background: color-mix(in srgb, var(--line) 60%, var(--surface)); }
.sudoku .wrong { text-decoration: line-through; color: var(--wrong); }
details { margin: 0.5rem 0; }
details .said { border-left: 2px solid var(--line); padding-left: 0.75rem; margin-top: 0.25rem; }
</style>
</head>
<body>
<main>
$body
</main>
</body>
</html>
""")
