"""Reads a document as Markdown, page by page. Each format is a library's; here stands what its pages are.

``python -m app.documents.formats`` is the process that ``reader`` starts: it reads one request from its standard input
and answers in lines of JSON. What a stranger wrote may cost it its memory or its time, and nothing else. Knows no Qt.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import posixpath
import re
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from app.documents.decoding import decode
from app.state.chat.fences import fenced

MAX_BYTES = 200 * 2**20  # of a file
MAX_PART_BYTES = 64 * 2**20  # of an unpacked file in an archive
MAX_CHARACTERS = 8 * 2**20  # of a document: 262 144 tokens are about one million
MAX_ROWS = 20_000  # of a sheet
MAX_FILES = 2_000  # of a folder
MAX_SOURCE_BYTES = 500_000  # of a file in a folder; larger ones are data
MEMORY = 700 * 2**20  # bytes of address space, where the system can limit it
SIDE = 1400  # pixels of a page's longer side as a picture


class UnreadableError(Exception):
    """The reason why a document gives no text, in one sentence without its name."""


Page = Callable[[], str]
"""Reads one page when it is called."""


def pdf_pages(path: Path) -> list[Page]:
    """Returns the pages of a PDF; a damaged one is empty."""
    import pypdfium2  # in the process alone, as all libraries here

    def read(number: int) -> str:
        with contextlib.suppress(pypdfium2.PdfiumError):
            return _unbroken(document[number].get_textpage().get_text_bounded())
        return ""

    document = _pdf(path)
    return [partial(read, number) for number in range(len(document))]


def pdf_pictures(path: Path, numbers: Iterable[int]) -> Iterator[bytes]:
    """Yields pages of a PDF, counted from 0, as PNG files."""
    document = _pdf(path)
    for number in numbers:
        page, file = document[number], io.BytesIO()
        page.render(scale=SIDE / max(1.0, *page.get_size())).to_pil().convert("RGB").save(file, "png")
        yield file.getvalue()


def _pdf(path: Path) -> Any:
    import pypdfium2  # in the process alone

    try:
        return pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        locked = "password" in str(error).lower()
        raise UnreadableError("is locked by a password" if locked else "is damaged, or no PDF") from None


def _unbroken(text: str) -> str:
    """Returns a page's text without the hyphens and the signs that PDFium puts at ends of lines."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = re.sub(r"(?<=\w)[\ufffe\u00ad]\n?", "", text)
    return "".join(char for char in text if char in "\n\t" or char.isprintable()).strip()


def word_pages(path: Path) -> list[Page]:
    """Returns a Word document, which has no pages until it is printed."""
    import mammoth  # in the process alone

    def read() -> str:
        with path.open("rb") as file:
            no_picture = mammoth.images.img_element(lambda _image: {"src": ""})
            return markdown_of(mammoth.convert_to_html(file, convert_image=no_picture).value)

    _check_archive(path, "word/document.xml")
    return [read]


ODT = {  # elements of OpenDocument and what they are in HTML
    "p": "p", "list": "ul", "list-item": "li", "table": "table", "table-row": "tr", "table-cell": "td", "a": "a",
    "line-break": "br",
}  # fmt: skip
UNREAD = ("tracked-changes", "annotation", "frame", "table-column")


def text_document_pages(path: Path) -> list[Page]:
    """Returns an OpenDocument text."""

    def read() -> str:
        with zipfile.ZipFile(path) as archive:
            body = _xml(_part(archive, "content.xml")).find(".//{*}body")
        etree.strip_elements(body, *(f"{{*}}{name}" for name in UNREAD), with_tail=False)
        for node in body.iter("{*}*"):
            name = etree.QName(node).localname
            facts = {etree.QName(key).localname: node.get(key) for key in node.attrib}
            if name in ("s", "tab"):
                node.text = "\t" if name == "tab" else " " * min(99, int(facts.get("c", 1)))
            node.tag = f"h{facts.get('outline-level', 1)}" if name == "h" else ODT.get(name, "span")
            node.attrib.clear()
            if name == "a":
                node.set("href", facts.get("href", ""))
        etree.strip_tags(body, "span")
        return markdown_of(etree.tostring(body, encoding="unicode"))

    from lxml import etree  # in the process alone

    _check_archive(path, "content.xml")
    return [read]


def workbook_pages(path: Path) -> list[Page]:
    """Returns each sheet of a workbook as a table."""
    import openpyxl  # in the process alone

    def read(sheet: Any) -> str:
        rows = [
            ["" if value is None else str(value) for value in row]
            for row in sheet.iter_rows(max_row=MAX_ROWS, values_only=True)
        ]
        return f"## {sheet.title}\n\n{table_of(rows)}"

    _check_archive(path, "xl/workbook.xml")
    return [partial(read, sheet) for sheet in openpyxl.load_workbook(path, read_only=True, data_only=True).worksheets]


def table_of(rows: list[list[str]]) -> str:
    """Returns rows as a table of Markdown without the empty ones at its edges; the first row is its head."""
    while rows and not any(rows[-1]):
        rows.pop()
    width = max((place + 1 for row in rows for place, value in enumerate(row) if value), default=0)
    if not width:
        return ""
    lines = [
        "| " + " | ".join(re.sub(r"\s+", " ", cell).replace("|", "\\|") for cell in row[:width]) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "---|" * width, *lines[1:]])


def book_pages(path: Path) -> list[Page]:
    """Returns each chapter of an EPUB, in the order of its spine."""

    def read(name: str) -> str:
        return markdown_of(_part(archive, name).decode("utf-8", "replace"))

    archive = zipfile.ZipFile(path)
    root = _xml(_part(archive, "META-INF/container.xml")).find(".//{*}rootfile").get("full-path")
    package = _xml(_part(archive, root))
    parts = {item.get("id"): item.get("href", "") for item in package.iterfind(".//{*}manifest/{*}item")}
    spine = [unquote(parts[item.get("idref")]) for item in package.iterfind(".//{*}spine/{*}itemref")]
    names = [posixpath.normpath(posixpath.join(posixpath.dirname(root), name)) for name in spine]
    return [partial(read, name) for name in names]


def web_pages(path: Path) -> list[Page]:
    return [lambda: markdown_of(_text(path))]


def notebook_pages(path: Path) -> list[Page]:
    """Returns a notebook's texts, its code, and what its code printed."""

    def read() -> str:
        book = json.loads(_text(path))
        cells = book.get("cells") or [cell for sheet in book["worksheets"] for cell in sheet["cells"]]  # before 2015
        language = book.get("metadata", {}).get("language_info", {}).get("name", "python")
        return "\n\n".join(part for cell in cells for part in _cell(cell, language))

    return [read]


def _cell(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = "".join(cell.get("source", cell.get("input", "")))
    if cell["cell_type"] != "code":
        yield source
        return
    yield fenced(source, language)
    for output in cell.get("outputs", ()):
        shown = output.get("text") or output.get("data", {}).get("text/plain") or output.get("traceback", "")
        said = re.sub(r"\x1b\[[0-9;]*m", "", "".join(shown)).strip()
        if said:
            yield fenced(said)


def folder_pages(path: Path) -> list[Page]:
    """Returns each file of source code below a folder under its name, but for those that ``.gitignore`` leaves out."""

    def read(name: str) -> str:
        data = (path / name).read_bytes()
        text = "" if b"\0" in data else data.decode("utf-8-sig", "replace")
        return f"## {name}\n\n{fenced(text.rstrip(), PurePosixPath(name).suffix[1:])}" if text.strip() else ""

    names = sorted(_source_files(path))
    if len(names) > MAX_FILES:
        raise UnreadableError(f"holds more than {MAX_FILES:,} files; choose a folder in it")
    return [partial(read, name) for name in names]


def _source_files(root: Path) -> Iterator[str]:
    """Yields the paths below a folder, with ``/``, of files that are small enough to be source code."""
    from pathspec import GitIgnoreSpec  # in the process alone

    ignored = list[tuple[str, Any]]()
    for folder, folders, files in os.walk(root):
        below = PurePosixPath(Path(folder).relative_to(root).as_posix())
        if ".gitignore" in files:
            lines = Path(folder, ".gitignore").read_text(encoding="utf-8", errors="replace").splitlines()
            ignored.append((f"{below}/" if below.name else "", GitIgnoreSpec.from_lines(lines)))

        def is_kept(name: str) -> bool:
            return not any(name.startswith(start) and rules.match_file(name[len(start) :]) for start, rules in ignored)

        folders[:] = sorted(one for one in folders if not one.startswith(".") and is_kept(f"{below / one}/"))
        for one in files:
            place = Path(folder, one)
            is_listed = not one.startswith(".") and is_kept(str(below / one))
            if is_listed and place.is_file() and place.stat().st_size <= MAX_SOURCE_BYTES:
                yield str(below / one)


def _xml(data: bytes) -> Any:
    from lxml import etree  # in the process alone

    return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True))


def markdown_of(html: str) -> str:
    """Returns a page of HTML as Markdown, without scripts, styles and pictures."""
    from bs4 import BeautifulSoup, XMLParsedAsHTMLWarning  # in the process alone
    from markdownify import MarkdownConverter

    warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
    soup = BeautifulSoup(html, "lxml")
    for node in soup(["script", "style", "template", "img", "svg", "head"]):
        node.decompose()
    for node in soup.select("td table, th table"):  # which Markdown has none of
        node.replace_with(node.get_text(" ", strip=True))
    for node in soup.select("a:not([href^=http]):not([href^=mailto])"):  # to other places of the document
        node.unwrap()
    text: str = MarkdownConverter(heading_style="ATX", bullets="-", table_infer_header=True).convert_soup(soup)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(map(str.rstrip, text.splitlines()))).strip()


def _text(path: Path) -> str:
    data = path.read_bytes()
    return decode(data) or data.decode("latin-1")


def _check_archive(path: Path, needed: str) -> None:
    """Raises ``UnreadableError`` if an archive lacks a file, is encrypted, or unpacks to more than it may."""
    with path.open("rb") as file:
        if file.read(8) == bytes.fromhex("d0cf11e0a1b11ae1"):
            raise UnreadableError("is locked by a password, or in Office's format before 2007")
    with zipfile.ZipFile(path) as archive:
        archive.getinfo(needed)
        if any(info.file_size > MAX_PART_BYTES for info in archive.infolist() if info.filename.endswith(".xml")):
            raise UnreadableError("unpacks to more than can be read")


def _part(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as file:
        data = file.read(MAX_PART_BYTES + 1)
    if len(data) > MAX_PART_BYTES:
        raise UnreadableError("unpacks to more than can be read")
    return data


READERS: dict[str, Callable[[Path], list[Page]]] = {
    ".pdf": pdf_pages,
    ".docx": word_pages,
    ".odt": text_document_pages,
    ".xlsx": workbook_pages,
    ".xlsm": workbook_pages,
    ".epub": book_pages,
    ".htm": web_pages,
    ".html": web_pages,
    ".xhtml": web_pages,
    ".ipynb": notebook_pages,
}


def is_document(path: Path) -> bool:
    """Returns True for a folder, and for a file whose name ends like a document's."""
    return path.is_dir() or path.suffix.lower() in READERS


def answers(path: Path, pictures: list[int]) -> Iterator[dict[str, Any]]:
    """Yields what the process answers: the number of pages, then each page's text; or pictures of some pages."""
    try:
        if pictures:
            yield from ({"picture": base64.b64encode(one).decode()} for one in pdf_pictures(path, pictures))
            return
        if path.stat().st_size > MAX_BYTES:
            raise UnreadableError(f"has more than {MAX_BYTES // 2**20} MB")
        pages = (folder_pages if path.is_dir() else READERS[path.suffix.lower()])(path)
        yield {"pages": len(pages)}
        room, has_text = MAX_CHARACTERS, False
        for page in pages:
            text = page()[:room]
            room -= len(text)
            has_text = has_text or bool(text.strip())
            yield {"text": text}
            if not room:
                break
        if not has_text and path.suffix.lower() != ".pdf":  # whose pages may be pictures
            yield {"error": "has no text"}
    except UnreadableError as error:
        yield {"error": str(error)}
    except MemoryError:
        yield {"error": "takes more memory than a document may"}
    except (FileNotFoundError, PermissionError) as error:  # other errors of this kind come from libraries
        yield {"error": f"cannot be read: {(error.strerror or type(error).__name__).lower()}"}
    except Exception:  # libraries raise what they come across: KeyError, BadZipFile, XMLSyntaxError, RecursionError …
        yield {"error": "is damaged, or in another format than its name says"}


def main() -> None:
    """Answers one request and ends."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # a lower limit may be set already
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    said = os.fdopen(os.dup(1), "w", encoding="ascii")  # what a library prints must not mix with it
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with os.fdopen(os.dup(0), encoding="utf-8") as asked:
        request = json.loads(asked.readline())
    for answer in answers(Path(request["path"]), request["pictures"]):
        said.write(json.dumps(answer) + "\n")
        said.flush()


if __name__ == "__main__":
    main()
