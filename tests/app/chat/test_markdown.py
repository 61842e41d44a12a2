"""Reading Markdown: pure, and safe whatever a model writes."""

from __future__ import annotations

import pytest

from app.chat.markdown_view.blocks import (
    DONE,
    MAX_IN_ROW,
    OPEN,
    Code,
    Formula,
    Heading,
    Item,
    Listing,
    Math,
    Paragraph,
    Quote,
    Table,
    Text,
    ThematicBreak,
    cut,
    flatten,
    plain,
    safe,
    verbatim_rows,
)
from app.chat.markdown_view.parse import MAX_CELLS, MAX_IN_PARAGRAPH, opens, parse
from app.chat.markdown_view.slow import INK, MAX_NESTED, SIZE, may_be_drawn, parts, typeset


def letters(text: str) -> str:
    """Returns what is read of a text, row by row."""
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
    assert rule == ThematicBreak()
    assert quote == Quote((Paragraph((Text("one\ntwo\nthree"),)), Quote((Paragraph((Text("deep"),)),))))


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


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("$x$ costs 5", ["$x$"]),
        ("$a$-$b$ and $5-$6", ["$a$", "$b$"]),
        ("- $$x$$ and $$y$$ 3", ["$$x$$", "$$y$$"]),
        (r"\$5 and $x$", ["$x$"]),
        (r"$a\$b$ 7", [r"$a\$b$"]),
        ("**$x$ 5**", ["$x$"]),
        ("$5 and `$x$`", []),
        ("$5 `$` $6", []),
        ("$x$7", []),
        ("$ $$ $$$", []),
        (r"a \( b", []),
    ],
)
def test_formulas_between_dollars_are_distinguished_from_prices_and_code(text: str, formulas: list[str]) -> None:
    rows = flatten(parse(text))
    inlines = [one for row in rows if isinstance(row.content, Paragraph) for one in row.content.inlines]
    assert [one.written for one in inlines if isinstance(one, Formula)] == formulas
    assert "".join(one.text for one in inlines if isinstance(one, Text) and one.code) in text


@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script>", 'a <img src="file:///etc/passwd" onerror=x> b', "<!-- note -->"],
)
def test_html_is_text(text: str) -> None:
    assert letters(text) == text


def test_images_are_named_and_not_links() -> None:
    (block,) = parse("![a *cat*](https://x.org/cat.png)")
    assert isinstance(block, Paragraph)
    assert block.inlines == (Text("[image: a cat] (https://x.org/cat.png)"),)


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "notes.md", "#top"]
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


def test_a_very_long_paragraph_is_shown_as_it_is_and_its_neighbours_as_markdown() -> None:
    line = "*a" * MAX_IN_PARAGRAPH
    _, long, after = parse(f"# One\n\n{line}\n\n**two**")
    assert long == Paragraph((Text(line),))
    assert after == Paragraph((Text("two", bold=True),))


@pytest.mark.parametrize("text", [">" * 5000 + " x", "- " * 3000 + "x", "[" * 20_000, "![" * 2000, "a" * 100_000])
def test_hostile_nesting_and_length_lose_no_letters(text: str) -> None:
    said = letters(text)
    assert said.replace("•", "-").count(text[-1]) >= 1
    assert len(said.replace(" ", "")) >= len(text.replace(" ", "")) * 0.99


def test_programs_are_distinguished_and_unknown_languages_stay_plain() -> None:
    found = {
        ("def f(): # hi\n"[start : start + length], part) for start, length, part in parts("def f(): # hi\n", "python")
    }
    assert {("def", "keyword"), ("f", "name"), ("# hi", "remark")} <= found
    assert parts("def f()", "no-such-language") == ()
    assert parts("x" * 30_000, "python") == ()


def test_latex_becomes_a_picture_in_the_inks_colour() -> None:
    picture = typeset(r"\frac{a}{b}", False)
    assert picture is not None
    assert picture.height > SIZE > picture.descent > 4
    shown = picture.shown(2 * SIZE, "#ff0000")
    assert b"#ff0000" in shown.svg
    assert INK.encode() not in shown.svg
    assert (shown.width, shown.height, shown.descent) == (2 * picture.width, 2 * picture.height, 2 * picture.descent)


@pytest.mark.parametrize("source", [r"\frac{a", "", "x" * 5000, "{" * 400])
def test_latex_that_is_not_understood_has_no_picture(source: str) -> None:
    assert typeset(source, True) is None


def test_a_formula_draws_paths_and_nothing_that_could_load() -> None:
    picture = typeset(r"\text{<image href='file:///etc/passwd'>} \href{http://x.y}{z}", True)
    assert picture is None or not any(word in picture.svg for word in (b"<image", b"href=", b"<a "))


@pytest.mark.parametrize(
    ("opener", "closer"),
    [("{", "}"), (r"\frac{1}{1+", "}"), (r"\left(", r"\right)")],
)
def test_the_work_of_typesetting_does_not_double_with_each_level(
    opener: str, closer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert typeset("x", True)
    from ziamath.nodes import Mnode

    made = Mnode.fromelement
    count = 0

    def counted(*args: object, **options: object) -> object:
        nonlocal count
        count += 1
        assert count < 50_000  # it were millions
        return made(*args, **options)

    monkeypatch.setattr(Mnode, "fromelement", counted)
    depth = MAX_NESTED - 4
    assert typeset(opener * depth + "x" + closer * depth, True) is not None


@pytest.mark.parametrize("kind", ["pmatrix", "cases", "matrix"])
def test_a_matrix_may_have_an_index(kind: str) -> None:
    matrix = rf"\begin{{{kind}}} a & b \\ c & d \end{{{kind}}}"
    plain = typeset(matrix, True)
    assert plain is not None
    for source in (f"{matrix}^{{-1}}", f"{matrix}_2", f"{matrix}^T_i", rf"\begin{{{kind}}}{matrix}^2\end{{{kind}}}^2"):
        picture = typeset(source, True)
        assert picture is not None, source
        assert picture.width > plain.width


def test_a_formula_nested_deeper_than_anybody_writes_is_not_tried() -> None:
    assert may_be_drawn(r"\{" * 100 + "{" * MAX_NESTED + "x" + "}" * MAX_NESTED)
    assert may_be_drawn("{x}" * 200)
    for opener, closer in (("{", "}"), (r"\left(", r"\right)"), (r"\begin{matrix}", r"\end{matrix}")):
        deep = MAX_NESTED + 1
        assert not may_be_drawn(opener * deep + "x" + closer * deep)


@pytest.mark.parametrize("table", ["|a|b|\n|-|-|\n" + "|1|2|\n" * 600, "|" + "a|" * 100 + "\n|" + "-|" * 100 + "\n"])
def test_a_table_that_takes_too_long_to_lay_out_is_its_source(table: str) -> None:
    (block, after) = parse(f"{table}\nafter")
    assert block == Code(table.removesuffix("\n"))
    assert after == Paragraph((Text("after"),))
    assert isinstance(parse("|a|b|\n|-|-|\n" + "|1|2|\n" * (MAX_CELLS // 2 - 2))[0], Table)


@pytest.mark.parametrize("text", ["x" * 30_000, "wordy " * 5_000, "a line\n" * 5_000, "\n" * 10_000, "", "short"])
def test_a_long_text_is_cut_and_nothing_of_it_is_lost(text: str) -> None:
    parts = list(cut(text))
    assert all(len(part) <= MAX_IN_ROW for part, _ in parts)
    assert "".join((joint or "") + part for part, joint in parts) == text
    rows = [row for rows in verbatim_rows(text) for row in rows]
    assert "".join((row.joint or "") + row.copied for row in rows) == text
    assert len(flatten((Paragraph((Text(text),)),))) >= len(parts)
