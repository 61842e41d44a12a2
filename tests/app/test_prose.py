"""Reading Markdown: pure, and safe whatever a model writes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from app.chat.prose.blocks import (
    Code,
    Formula,
    Heading,
    Item,
    Listing,
    Math,
    Paragraph,
    Quote,
    Rule,
    Table,
    Text,
    plain,
)
from app.chat.prose.highlight import parts
from app.chat.prose.parse import MOST_IN_PARAGRAPH, opens, parse
from app.chat.prose.rows import DONE, OPEN, flatten, formulas
from app.chat.prose.safe import is_rtl, safe
from app.chat.prose.typeset import typeset


def letters(text: str) -> str:
    """What is read of a text, row by row."""
    return "\n".join(row.copied for row in flatten(parse(text)))


def test_styles_within_a_line() -> None:
    (block,) = parse("a **b** *c* ~~d~~ `e` [f](https://g.org/h)")
    assert isinstance(block, Paragraph)
    assert block.inlines == (
        Text("a "),
        Text("b", bold=True),
        Text(" "),
        Text("c", italic=True),
        Text(" "),
        Text("d", struck=True),
        Text(" "),
        Text("e", code=True),
        Text(" "),
        Text("f", link="https://g.org/h"),
    )


def test_headings_rules_quotes_and_line_breaks() -> None:
    heading, rule, quote = parse("## Two\n\n---\n\n> one\n> two  \n> three\n>\n> > deep")
    assert heading == Heading(2, (Text("Two"),))
    assert rule == Rule()
    assert quote == Quote((Paragraph((Text("one two\nthree"),)), Quote((Paragraph((Text("deep"),)),))))


def test_lists_count_from_their_start_and_tasks_have_boxes() -> None:
    numbers, tasks = parse("7. a\n8. b\n   - c\n\n* [x] done\n* [ ] open\n* [x](https://a.b) a link\n")
    assert isinstance(numbers, Listing)
    assert numbers.start == 7
    assert isinstance(tasks, Listing)
    assert [item.done for item in tasks.items] == [True, False, None]
    assert tasks.items[0] == Item((Paragraph((Text("done"),)),), True)
    rows = flatten((numbers, tasks))
    assert [row.marker for row in rows] == ["7.", "8.", "◦", DONE, OPEN, "•"]
    assert [row.indent for row in rows] == [1, 1, 2, 1, 1, 1]


def test_code_in_a_list_is_a_row_of_its_own_at_its_depth() -> None:
    rows = flatten(parse("1. a\n   ```Python\n   def f():\n       pass\n   ```\n2. b"))
    assert rows[1].content == Code("def f():\n    pass", "python")
    assert rows[1].indent == 1
    assert [row.marker for row in rows] == ["1.", "", "2."]


def test_an_item_that_begins_with_code_keeps_its_marker() -> None:
    rows = flatten(parse("- ```\n  x\n  ```"))
    assert [(row.marker, type(row.content)) for row in rows] == [("•", Paragraph), ("", Code)]


def test_a_table_has_its_alignment_and_is_copied_with_tabs() -> None:
    (table,) = parse("| a | b |\n|:-:|--:|\n| 1 | **2** |\n| 3 |")
    assert isinstance(table, Table)
    assert table.aligns == ("center", "right")
    assert [[plain(cell) for cell in row] for row in table.rows] == [["a", "b"], ["1", "2"], ["3", ""]]
    assert flatten((table,))[0].copied == "a\tb\n1\t2\n3\t"


@pytest.mark.parametrize("written", ["$a^2$", r"\(a^2\)"])
def test_formulas_within_a_line(written: str) -> None:
    (block,) = parse(f"so {written} holds")
    assert isinstance(block, Paragraph)
    assert block.inlines[1] == Formula("a^2", written)
    assert letters(f"so {written} holds") == f"so {written} holds"


@pytest.mark.parametrize(
    "written",
    ["$$\na\n- b\n$$", "\\[\na\n- b\n\\]", r"\[ a - b \]", "$$a-b$$"],
    ids=["dollars", "brackets", "one", "two"],
)
def test_formulas_on_lines_of_their_own(written: str) -> None:
    before, math, after = parse(f"before\n\n{written}\n\nafter")
    assert isinstance(math, Math)
    assert math.source.replace("\n", "").replace(" ", "") == "a-b"
    assert (before, after) == (Paragraph((Text("before"),)), Paragraph((Text("after"),)))
    assert list(formulas(flatten((math,)))) == [(math.source, True)]


@pytest.mark.parametrize("text", ["It costs $5, or $10 for two.", r"a \( b", r"\[ never closed"])
def test_prices_and_open_brackets_are_no_formulas(text: str) -> None:
    assert not list(formulas(flatten(parse(text))))


@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script>", "<for example>", 'a <img src="file:///etc/passwd" onerror=x> b', "<!-- note -->"],
)
def test_html_is_text(text: str) -> None:
    assert letters(text) == text


def test_images_are_named_and_not_links() -> None:
    (block,) = parse("![a *cat*](https://x.org/cat.png)")
    assert isinstance(block, Paragraph)
    assert block.inlines == (Text("[image: a cat] (https://x.org/cat.png)"),)


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "ftp://a.b/c", "notes.md", "#top"]
)
def test_other_addresses_are_no_links_but_stay_readable(address: str) -> None:
    assert not opens(address)
    (block,) = parse(f"[look]({address})")
    assert isinstance(block, Paragraph)
    assert all(isinstance(part, Text) and not part.link for part in block.inlines)
    assert address in plain(block.inlines)


def test_control_characters_and_turned_directions_are_made_visible() -> None:
    assert safe("a\x00b\x1b[31m\x7f") == "a␀b␛[31m␡"
    assert safe("user\u202etxt.exe") == "user[U+202E]txt.exe"
    assert safe("\ufdd0\ufffc\ud800\uffff") == "\ufffd" * 4
    assert safe("a\r\nb\rc\u2028d") == "a\nb\nc\nd"
    assert safe("👩‍👩‍👧 é \u200f\t") == "👩‍👩‍👧 é \u200f\t"
    assert "\u202e" not in letters("**bold \u202e**")


def test_the_first_letter_tells_the_direction() -> None:
    assert is_rtl("123 שלום hello")
    assert is_rtl("مرحبا")
    assert not is_rtl("hello שלום")
    assert not is_rtl("123")


def test_a_very_long_paragraph_is_shown_as_it_is_and_its_neighbours_as_markdown() -> None:
    line = "*a" * MOST_IN_PARAGRAPH
    _, long, after = parse(f"# One\n\n{line}\n\n**two**")
    assert long == Paragraph((Text(line),))
    assert after == Paragraph((Text("two", bold=True),))


@pytest.mark.parametrize("text", [">" * 5000 + " x", "- " * 3000 + "x", "[" * 20_000, "![" * 2000, "a" * 100_000])
def test_hostile_nesting_and_length_lose_no_letters(text: str) -> None:
    said = letters(text)
    assert said.replace("•", "-").count(text[-1]) >= 1
    assert len(said.replace(" ", "")) >= len(text.replace(" ", "")) * 0.99


def test_programs_are_told_apart_and_unknown_languages_stay_plain() -> None:
    found = {
        ("def f(): # hi\n"[start : start + length], part) for start, length, part in parts("def f(): # hi\n", "python")
    }
    assert {("def", "keyword"), ("f", "name"), ("# hi", "remark")} <= found
    assert parts("def f()", "no-such-language") == ()
    assert parts("x" * 30_000, "python") == ()


def test_latex_becomes_a_picture_in_the_inks_colour() -> None:
    picture = typeset(r"\frac{a}{b}", False, 16, "#ff0000")
    assert picture is not None
    assert picture.height > 16 > picture.descent > 4
    assert b"#ff0000" in picture.svg


@pytest.mark.parametrize("source", [r"\frac{a", "", "x" * 5000, "{" * 400])
def test_latex_that_is_not_understood_has_no_picture(source: str) -> None:
    assert typeset(source, True, 16, "#ff0000") is None


def test_a_formula_draws_paths_and_nothing_that_could_load() -> None:
    picture = typeset(r"\text{<image href='file:///etc/passwd'>} \href{http://x.y}{z}", True, 16, "#ff0000")
    assert picture is None or not any(word in picture.svg for word in (b"<image", b"href=", b"<a "))


def test_nothing_heavy_is_imported_with_the_page() -> None:
    code = (
        "import sys; import app.chat.page; "
        "heavy = {'markdown_it', 'pygments', 'ziamath', 'mdit_py_plugins', 'PySide6.QtSvg', 'torch'}; "
        "heavy &= sys.modules.keys(); "
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_the_pure_layer_knows_no_qt() -> None:
    code = (
        "import sys; from app.chat.prose import parse, rows, highlight, typeset; parse.parse('# a $b$'); "
        "typeset.typeset('b', True, 16, '#000000'); assert not any(n.startswith('PySide6') for n in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
