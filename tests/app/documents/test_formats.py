"""Documents as Markdown: small ones of each format, written by other libraries or by hand, and damaged ones."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import openpyxl
import pytest
from PySide6.QtCore import QSizeF
from PySide6.QtGui import QPageSize, QPainter, QPdfWriter

from app.documents import formats
from app.documents.formats import READERS, answers, is_document, pdf_pictures, table_of

ODT = """<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:xlink="http://www.w3.org/1999/xlink"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"><office:body><office:text>
<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>
<text:h text:outline-level="2">Ships</text:h><text:p>Two<text:s text:c="2"/>are <text:a xlink:href="http://a.b/">here</text:a>.</text:p>
<text:list><text:list-item><text:p>One</text:p></text:list-item></text:list>
<table:table><table:table-column/><table:table-row><table:table-cell><text:p>A</text:p></table:table-cell></table:table-row>
<table:table-row><table:table-cell><text:p>1</text:p></table:table-cell></table:table-row></table:table>
</office:text></office:body></office:document-content>"""
WORD = """<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>
<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Ships</w:t></w:r></w:p>
<w:p><w:r><w:t>They </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>float</w:t></w:r></w:p></w:body></w:document>"""
TYPES = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
RELATIONS = """<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r"
 Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/>
</Relationships>"""
CHAPTER = """<html><head><title>x</title><style>p {}</style></head><body><h1>One &amp; only</h1>
<p>A <a href="#b">b</a></p></body></html>"""
BOOK = """<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="text/a%20b.xhtml"/>
<item id="b" href="c.xhtml"/></manifest><spine><itemref idref="b"/><itemref idref="a"/></spine></package>"""
CONTAINER = """<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="OPS/p.opf"/></rootfiles></container>"""


def packed(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def pdf(path: Path, *pages: str) -> Path:
    writer = QPdfWriter(str(path))
    writer.setPageSize(QPageSize(QSizeF(100, 50), QPageSize.Unit.Millimeter))
    painter = QPainter(writer)
    for number, text in enumerate(pages):
        if number:
            writer.newPage()
        painter.drawText(200, 200, text)
    painter.end()
    return path


def workbook(path: Path) -> Path:
    book = openpyxl.Workbook()
    book.active.title = "Ships"
    book.active.append(["name", "mass"])
    book.active.append(["Vega", 3])
    book.create_sheet("Empty")
    book.save(path)
    return path


MADE = {
    "a.pdf": lambda path: pdf(path, "First page", "Second page"),
    "a.docx": lambda path: packed(
        path, {"[Content_Types].xml": TYPES, "_rels/.rels": RELATIONS, "word/document.xml": WORD}
    ),
    "a.odt": lambda path: packed(path, {"content.xml": ODT}),
    "a.xlsx": workbook,
    "a.epub": lambda path: packed(
        path, {"META-INF/container.xml": CONTAINER, "OPS/p.opf": BOOK, "OPS/text/a b.xhtml": CHAPTER,
               "OPS/c.xhtml": "<p>Zero</p>"}
    ),
    "a.html": lambda path: path.write_text(CHAPTER) and path,
    "a.ipynb": lambda path: path.write_text(json.dumps(
        {"metadata": {"language_info": {"name": "julia"}}, "cells": [
            {"cell_type": "markdown", "source": ["# Title\n", "text"]},
            {"cell_type": "code", "source": "1 + 1", "outputs": [
                {"data": {"text/plain": ["2"]}}, {"traceback": ["\x1b[31mno\x1b[0m"]},
            ]},
        ]})) and path,
}  # fmt: skip


@pytest.mark.usefixtures("qapp")
@pytest.mark.parametrize(
    ("name", "pages"),
    [
        ("a.pdf", ["First page", "Second page"]),
        ("a.docx", ["# Ships\n\nThey **float**"]),
        ("a.odt", ["## Ships\n\nTwo are [here](http://a.b/).\n\n- One\n\n| A |\n| --- |\n| 1 |"]),
        ("a.xlsx", ["## Ships\n\n| name | mass |\n|---|---|\n| Vega | 3 |", "## Empty\n\n"]),
        ("a.epub", ["Zero", "# One & only\n\nA b"]),
        ("a.html", ["# One & only\n\nA b"]),
        ("a.ipynb", ["# Title\ntext\n\n```julia\n1 + 1\n```\n\n```\n2\n```\n\n```\nno\n```"]),
    ],
)
def test_each_page_is_markdown(tmp_path: Path, name: str, pages: list[str]) -> None:
    said = list(answers(MADE[name](tmp_path / name), []))
    assert said == [{"pages": len(pages)}, *({"text": page} for page in pages)]


@pytest.mark.usefixtures("qapp")
def test_a_page_is_a_picture(tmp_path: Path) -> None:
    assert next(pdf_pictures(pdf(tmp_path / "a.pdf", "x"), [0])).startswith(b"\x89PNG")


def test_a_folder_is_its_source_files_but_for_ignored_ones(tmp_path: Path) -> None:
    files = {
        ".gitignore": "*.log\n/build/\n", "a.py": "print(1)\n", "b.log": "no", "build/c.py": "no", ".git/config": "no",
        "sub/.gitignore": "d.*\n!d.md", "sub/d.txt": "no", "sub/d.md": "# yes ```",
        "sub/build/e.c": "int e;", "f.bin": "a\0b",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    texts = [one["text"] for one in answers(tmp_path, []) if "text" in one]
    assert texts == ["## a.py\n\n```py\nprint(1)\n```", "", "## sub/build/e.c\n\n```c\nint e;\n```",
                     "## sub/d.md\n\n````md\n# yes ```\n````"]  # fmt: skip


def test_a_table_leaves_out_empty_edges() -> None:
    assert table_of([["a", "b|c", ""], ["", "x\ny", ""], ["", "", ""]]) == "| a | b\\|c |\n|---|---|\n|  | x y |"
    assert table_of([["", ""]]) == ""


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"%PDF-1.7\n", bytes.fromhex("d0cf11e0a1b11ae1"), b"\xff" * 99])
def test_a_damaged_document_is_a_sentence(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    said = list(answers(path, []))
    assert any("error" in one or "text" in one for one in said)
    assert not any("error" in one for one in said) or len(said[-1]["error"].split()) > 2


def test_a_part_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MAX_PART_BYTES", 10)
    for name in ("a.odt", "a.epub", "a.docx"):
        assert list(answers(MADE[name](tmp_path / name), [])) == [{"error": "unpacks to more than can be read"}]


@pytest.mark.usefixtures("qapp")
@pytest.mark.parametrize("name", MADE)
def test_flipped_bytes_never_raise(tmp_path: Path, name: str) -> None:
    random_ = random.Random(name)
    data = MADE[name](tmp_path / name).read_bytes()
    for _ in range(20):
        damaged = bytearray(data)
        for _ in range(random_.randint(1, 20)):
            damaged[random_.randrange(len(damaged))] = random_.randrange(256)
        (tmp_path / name).write_bytes(bytes(damaged[: random_.randint(1, len(damaged))]))
        assert list(answers(tmp_path / name, []))


def test_the_process_answers_in_lines(tmp_path: Path) -> None:
    path = MADE["a.html"](tmp_path / "a.html")
    request = json.dumps({"path": str(path), "pictures": []}) + "\n"
    command = [sys.executable, "-m", formats.__name__]
    ran = subprocess.run(command, input=request, capture_output=True, text=True, check=True)
    assert list(map(json.loads, ran.stdout.splitlines())) == [{"pages": 1}, {"text": "# One & only\n\nA b"}]


def test_documents_are_known_by_their_names(tmp_path: Path) -> None:
    assert is_document(tmp_path)
    assert is_document(tmp_path / "A.PDF")
    assert not is_document(tmp_path / "a.txt")
    assert all(suffix == suffix.lower() for suffix in READERS)
