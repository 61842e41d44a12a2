"""Texts in view: Markdown, formulas and code, as an answer or a prompt is shown, and all of it after "Show all"."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from random import Random
from time import perf_counter, sleep, thread_time
from typing import TYPE_CHECKING

from tests.hostile import mutate
from tests.hostile.kind import Attempt, Kind

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication, QWidget

WAITS = 20.0  # seconds for formulas and colours, which are made in another process
WORDS = (
    "the", "of", "entropy", "*emphasis*", "**strong**", "`code`", "$x^2$", "~~gone~~", "[a](https://b.org)", "[[", "]]",
    "![", "<b>", "&amp;", "&#0;", "\\*", "\\(y\\)", "\\[", "$", "$$", "`", "``", "***", "_a_", "<http://a.b>", "|",
    "שלום",
    "漢字", "👩‍👩‍👧", "ﷺ", "a\u0300\u0301\u0302", "\u202e", "\x00", "\ufffc", "x" * 200, "  \n", "\\\n", "<!--", "[^1]",
)  # fmt: skip
MATH = (
    "x", "1", "+", "^2", "_i", r"\frac{a}{b}", r"\sqrt x", r"\sum_{i=0}^n", r"\left(", r"\right)", r"\hat", "{",
    "}", "&",
    r"\\", r"\begin{matrix}", r"\end{matrix}", r"\text{a}", r"\color{red}", r"\rule{1em}{9999em}", r"\hspace{1e99pt}",
    r"\href{http://x}{y}", r"\big\{", r"\overbrace", r"\not", r"\mathbb", r"\def\x{\x}", "\x00", "é", "'", "^",
    "_", "%",
    r"\begin{align}", r"\unknown", r"\left.", r"\middle|", "~", "#1",
)  # fmt: skip
NESTS = (
    ("{", "}"), (r"\sqrt{", "}"), (r"\frac{1}{1+", "}"), (r"\hat{", "}"), ("x^{", "}"), ("x_{", "}"), (r"\left(",
    r"\right)"),
    (r"\begin{matrix}", r"\end{matrix}"), (r"\text{", "}"), (r"\overbrace{", "}"), (r"\sqrt", ""), (r"\hat", ""),
    (r"\binom{a}{", "}"), (r"\begin{cases}", r"\end{cases}"), (r"\left\{", r"\right."), (r"\color{red}{", "}"),
)  # fmt: skip
LINES = ("---\n\n", "***\n", "===\n", "\n", "a\n\n", "[a]: http://b\n", "- \n", "> \n", "    a\n", "a|b\n-|-\n")
MARKS = ("[", "![", "*", "_", "~~", "`", "<", "&", "\\", "$", "(", "*a_b", "[a](b", "|", "$a", "[a]", "<!--", "**a*")
UNITS = (
    "x", "aب", "ب1", "aא1 ", "漢", "👩‍👩‍👧", "ﷺ", "a\u0301", "\u202ea", "\u2067", "\u2028", "\u2029", "\t", "\ufffc",
    "\n",
)  # fmt: skip
LANGUAGES = (
    "python", "c", "cpp", "javascript", "html", "css", "json", "xml", "diff", "make", "sed", "console", "bash", "sql",
    "perl", "ruby", "php", "rust", "go", "java", "latex", "yaml", "toml", "ini", "markdown", "haskell", "lisp", "awk",
    "vim", "powershell", "docker", "nginx", "matlab", "r", "swift", "kotlin", "text", "no-such", "../x", "pycon",
)  # fmt: skip
BAIT = (
    "(", ")", "[", "{", "}", "<", ">", "<!--", "/*", "*/", "//", "#", '"', "'", '"""', "'''", "`", "\\", "$", "${",
    "$(",
    "%", "@", "=", "==", "-", "+", "+++ ", "--- ", "@@ ", "\t", " ", "\n", ":", ";", "a", "0", "1.", "e", "\\\n",
    "<<EOF\n",
    "s/", "/", "y/", "$ ", "\t@", "ifeq", "define", "<?php", "?>", "<a ", "a=", "&", "|", "~", "^", "é", "\x00", "def ",
    "class ", "return ", "0x", "r'", "=begin\n", "__END__", "&#", "]]>", "<![CDATA[", "#{", "#!", "1e", "\r\n", "!",
)  # fmt: skip


def _times(random: Random, most: int) -> int:
    """A number from 1 to ``most``, small ones as likely as large ones."""
    return int(most ** random.random())


def _line(random: Random, words: tuple[str, ...], most: int) -> str:
    between = random.choice((" ", " ", ""))
    some = random.sample(words, random.randrange(1, min(6, len(words)))) if random.random() < 0.4 else words
    return between.join(random.choice(some) for _ in range(_times(random, most)))


def _latex(random: Random) -> str:
    match random.randrange(4):
        case 0:
            return _line(random, MATH, 60)
        case 1:
            opener, closer = random.choice(NESTS)
            depth = _times(random, 60)
            return opener * depth + random.choice(MATH) + closer * (depth - random.choice((0, 0, 0, 1)))
        case 2:
            made = "x"
            for _ in range(_times(random, 40)):
                opener, closer = random.choice(NESTS)
                made = opener + made + closer
            return made
        case _:
            row = " & ".join(random.choice(MATH) for _ in range(_times(random, 30)))
            return r"\begin{pmatrix}" + (row + r" \\ ") * _times(random, 30) + r"\end{pmatrix}"


def _code(random: Random) -> str:
    match random.randrange(3):
        case 0:
            return random.choice(BAIT) * _times(random, 20_000)
        case 1:
            return "".join(random.choice(BAIT) for _ in range(random.randrange(1, 6))) * _times(random, 6_000)
        case _:
            return _line(random, BAIT, 8_000)


def _block(random: Random, depth: int = 0) -> str:
    """One construct of Markdown, at times far too much of it."""
    many = _times(random, random.choice((8, 8, 60, 900)))
    match random.randrange(15):
        case 0:
            return _line(random, WORDS, random.choice((20, 100, 2_000)))
        case 1:
            return "#" * random.randrange(1, 8) + " " + _line(random, WORDS, 12)
        case 2:
            return "".join(f"{random.choice('-*+')} {_line(random, WORDS, 5)}\n" for _ in range(many))
        case 3:
            return "".join("  " * (number % 40) + "1. a\n" for number in range(many))
        case 4:
            return (random.choice((">", "> ")) * _times(random, 80) + "a\n" + random.choice(("", "\n"))) * many
        case 5:
            columns = _times(random, random.choice((8, 8, 300)))
            cell = random.choice(("1", "$x$", "**a**", "", "x" * 100, f"${_latex(random)}$".replace("|", "")))
            row = "|" + f"{cell}|" * columns + "\n"
            rule = "|" + random.choice(("-", ":-:", "--:")) + "|" + "-|" * (columns - 1) + "\n"
            return row + rule + row * many
        case 6:
            fence = random.choice(("```", "~~~", "`" * 50))
            return f"{fence}{random.choice(LANGUAGES)}\n{_code(random)[:9_000]}\n{random.choice((fence, ''))}"
        case 7:
            return f"$${_latex(random)}$$"
        case 8:
            return " ".join(f"${_latex(random)}$" for _ in range(_times(random, 40)))
        case 9:
            return random.choice(LINES) * many
        case 10:
            return random.choice(MARKS) * _times(random, 12_000)
        case 11:
            return random.choice(mutate.TEXTS) * _times(random, 40)
        case 12 if depth < 4:
            inner = _block(random, depth + 1)
            before = random.choice(("> ", "- ", "  ", "1. ", "    ", "\t"))
            return "\n".join(before + line for line in inner.split("\n"))
        case 13:
            return random.choice("x漢ﷺ👍<\u0300 \t") * _times(random, 40_000)
        case _:
            return "- [ ] a\n  - [x] b\n" * many


def _markdown(random: Random) -> str:
    if random.random() < 0.06:  # far more than is laid out at first
        unit = random.choice(("wordy ", "x", "a line\n", "漢字 ", "- a\n", "\n", "> a\n", "*a* "))
        return unit * (_times(random, 400_000) // len(unit) + 1)
    text = "\n\n".join(_block(random) for _ in range(random.randrange(1, 6)))
    if random.random() < 0.2:
        text = mutate.damaged(random, text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
    return text


# --- shown ---------------------------------------------------------------------------------------------------------


@cache
def _app() -> QApplication:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtWidgets import QApplication

    made = QApplication.instance()
    return made if isinstance(made, QApplication) else QApplication([])


_shown: list[QWidget] = []


def _prepare() -> None:
    _app()
    _attempt("warm up **a** `b` $c$\n\n```python\nd\n```\n\n|e|\n|-|\n|f|", markdown=True)()
    _clean()


def _prepare_pastes() -> None:
    """Besides, have Qt look for the fonts of all the scripts, which takes it half a second once."""
    _prepare()
    _attempt(" ".join(UNITS), markdown=False)()
    _clean()


def _clean() -> None:
    from PySide6.QtCore import QCoreApplication, QEvent

    while _shown:
        _shown.pop().deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


class _Held:
    """Does one thing at a time as Qt's loop would, and notes the longest that one took."""

    def __init__(self) -> None:
        self.longest = 0.0

    def __call__(self, act: object = None) -> None:
        began = thread_time()
        if callable(act):
            act()
        else:
            _app().processEvents()
        self.longest = max(self.longest, thread_time() - began)


def _attempt(text: str, *, markdown: bool) -> Attempt:
    """Show a text in a column that scrolls, all of it, to its end, and at another width."""

    def attempt() -> float:
        from app.chat.markdown_view.widget import MarkdownView
        from app.chat.messages.scroller import Scroller
        from tests.app.chat.settled import is_settled

        prose = MarkdownView("Answer", markdown=markdown)
        column = Scroller(lambda _: prose, lambda *_: 200, lambda _: (), lambda: 700)
        _shown.append(column)
        column.resize(760, 600)
        held = _Held()

        def settle() -> None:
            ends = perf_counter() + WAITS
            while not is_settled(prose) and perf_counter() < ends:
                held()
                sleep(0.0005)
            held()

        held(lambda: prose.set_text(text))
        held(lambda: column.set_items([0], follow=True))
        held(column.show)
        settle()
        if not prose.show_all.isHidden():
            held(prose.show_all.click)
            settle()
        bar = column.verticalScrollBar()
        for part in (0.0, 0.5, 1.0):
            held(lambda part=part: bar.setValue(round(part * bar.maximum())))
            held()
        held(lambda: column.resize(560, 600))
        settle()
        held(prose.select_all)
        held(prose.selected_text)
        return held.longest

    return attempt


def _make_markdown(random: Random, _folder: Path) -> Attempt:
    return _attempt(_markdown(random), markdown=random.random() < 0.85)


def _make_latex(random: Random, _folder: Path) -> Attempt:
    parts = []
    for _ in range(_times(random, 12)):
        opener, closer = random.choice((("$", "$"), ("$$", "$$\n\n"), (r"\(", r"\)"), ("\\[", "\\]\n\n")))
        parts.append(f"{opener}{_latex(random)}{closer}")
    return _attempt(" ".join(parts), markdown=True)


def _make_code(random: Random, _folder: Path) -> Attempt:
    return _attempt(f"```{random.choice(LANGUAGES)}\n{_code(random)}\n```", markdown=True)


# --- put into fields -----------------------------------------------------------------------------------------------


def _paste(random: Random) -> str:
    """A text as it may lie on the clipboard, often just short enough to stay in a field."""
    unit = random.choice(UNITS)
    match random.randrange(4):
        case 0:
            return _markdown(random)
        case 1:
            return (unit * 5_000)[: random.choice((4_999, 5_000))] + random.choice(("", "x", "\n"))
        case 2:
            length = _times(random, 5_000)
            line = (unit * length)[:length] + random.choice(("\n", "\r\n", "\u2029"))
            return line * _times(random, 100_000 // length)
        case _:
            return unit * (_times(random, 2_500_000) // len(unit) + 1)


def _make_paste(random: Random, _folder: Path) -> Attempt:
    texts, into = [_paste(random) for _ in range(random.choice((1, 1, 3)))], random.randrange(5)

    def attempt() -> float:
        from PySide6.QtCore import QMimeData, Qt
        from PySide6.QtGui import QKeyEvent
        from PySide6.QtWidgets import QLineEdit, QPlainTextEdit

        from app.chat.composer.composer import Composer
        from app.chat.messages.prompt_editor import PromptEditor
        from app.design.action import Actions
        from app.presets.editor import PresetForm
        from app.presets.store import Preset
        from app.settings.values import SettingsValues
        from app.state.sudoku.placing import board_in
        from app.window.palette import Palette
        from app.window.sidebar.sidebar import SearchField

        held = _Held()
        composer, editor = Composer(), PromptEditor(lambda _text: None, lambda: None)
        form, search, palette = PresetForm(SettingsValues()), SearchField(), Palette(Actions())
        places: tuple[tuple[QWidget, QPlainTextEdit | QLineEdit], ...] = (
            (composer, composer.edit), (editor, editor.field), (form, form.system_prompt), (search, search),
            (palette, palette.field),
        )  # fmt: skip
        shown, field = places[into]
        if into == 0:
            composer.edit.history.set_conversation(texts)
            for _ in range(3):
                key = QKeyEvent(QKeyEvent.Type.KeyPress, Qt.Key.Key_Up, Qt.KeyboardModifier.NoModifier)
                held(lambda key=key: field.keyPressEvent(key))
                held()
            for text in texts:
                held(lambda text=text: composer.set_text(text))
                held()
        elif into == 1:
            editor.edit("Before")
        elif into == 2:
            held(lambda: form.show_preset(Preset("1", "Name", texts[0])))
        _shown.extend(widget for widget, _ in places)
        shown.resize(640, 300)
        held(shown.show)
        held()
        for text in texts:
            if isinstance(field, QLineEdit):
                held(lambda text=text: field.insert(text))
            else:
                data = QMimeData()
                data.setText(text)
                held(lambda data=data: field.insertFromMimeData(data))
            held()
        held(lambda: shown.resize(480, 300))
        held()
        held(field.selectAll)
        held(field.undo)
        held()
        held(lambda: board_in(texts[0]))
        return held.longest

    return attempt


KINDS = (
    Kind("markdown", _make_markdown, in_window=True, prepare=_prepare, clean=_clean),
    Kind("latex", _make_latex, in_window=True, prepare=_prepare, clean=_clean),
    Kind("code", _make_code, in_window=True, prepare=_prepare, clean=_clean),
    Kind("pastes", _make_paste, in_window=True, prepare=_prepare_pastes, clean=_clean),
)
