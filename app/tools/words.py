"""Texts of the tools' section of the settings. Knows no widgets."""

from __future__ import annotations

from app.design.controls import folded
from app.system.hidden import visible
from app.system.i18n import tr, trn
from engine.tools.declared import ToolServer
from engine.tools.tool import Tool, ToolServerState

LONGEST_TIP = 700  # characters
LONGEST_LINE = 300


def plain(text: str, most: int = LONGEST_LINE) -> str:
    """Returns a text from outside in one line; signs that nobody would see are shown by their numbers."""
    shown = " ".join(visible(" ".join(text[: 4 * most].split())).split())
    return shown if len(shown) <= most else f"{shown[:most]}…"


def sentence(fault: str) -> str:
    """Returns a fault as a sentence."""
    said = tr(fault).strip()
    stop = "" if not said or said.endswith((".", "…", "?", "!")) else "."
    return f"{said[:1].upper()}{said[1:]}{stop}"


def target_tip(server: ToolServer) -> str:
    """Returns the whole target, and the names of variables and headers; their values may be secrets."""
    lines = [plain(server.target, LONGEST_TIP)]
    if server.cwd:
        lines.append(tr("Folder: {folder}", folder=plain(server.cwd)))
    if server.env:
        lines.append(tr("Variables: {names}", names=plain(", ".join(name for name, _ in server.env))))
    if server.headers:
        lines.append(tr("Headers: {names}", names=plain(", ".join(name for name, _ in server.headers))))
    return folded(*lines)


def state_text(state: ToolServerState) -> str:
    """Returns a server's state in plain words, with a dot that is filled while it runs."""
    if not state.server.is_on:
        return tr("○ Off")
    match state.status:
        case "ready":
            return trn("● Ready · {count} tool", "● Ready · {count} tools", len(state.tools))
        case "failed":
            return f"✕ {sentence(plain(tr(state.problem)) or tr('has ended'))}"
        case "off" if state.problem:
            return tr("○ Off: {reason}.", reason=state.problem)
    return tr("○ Starting…")


def question_of(called: str, server: ToolServer) -> str:
    """Returns the question for leave to call a tool: which, whose, and what runs then."""
    names = {"tool": plain(called, 128), "server": plain(server.name, 80), "target": plain(server.target, LONGEST_TIP)}
    return tr("The model wants to call {tool} of the server {server} ({target}) with these arguments.", **names)


def tool_text(tool: Tool) -> str:
    """Returns a tool's title and description in one line."""
    parts = (plain(tool.title, 100), plain(tool.description))
    return " · ".join(part for part in parts if part)


def tool_tip(tool: Tool) -> str:
    parts = (tool.name, plain(tool.title, 100), plain(tool.description, LONGEST_TIP))
    return folded(*(part for part in parts if part))


def sum_text(servers: int, count: int, unable: str) -> str:
    """Returns how many tools are offered; ``unable``: the title of the loaded model, if it cannot use tools."""
    if not servers:
        return tr(
            "There is no server yet. Add one by its command or its address, or paste what its guide shows, or open "
            "another program's mcp.json, under Edit as text."
        )
    said = trn("{count} tool is offered.", "{count} tools are offered.", count)
    return f"{said} {tr('{model}, which is loaded, cannot use tools.', model=unable)}" if unable else said
