"""Prompts of Inception's Mercury for a next edit and for a change to apply: read from the text that an editor sends.

<|recently_viewed_code_snippets|> … <|recently_viewed_code_snippet|>
code_snippet_file_path: NAME, the snippet … <|/recently_viewed_code_snippets|>
<|current_file_content|>
current_file_path: NAME
before <|code_to_edit|> region, with <|cursor|> in it <|/code_to_edit|> behind
<|/current_file_content|>
<|edit_diff_history|> unified diffs <|/edit_diff_history|>

<|original_code|> code <|/original_code|> <|update_snippet|> change <|/update_snippet|>
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from engine.server.errors import ApiError

FILE, REGION, CURSOR = "current_file_content", "code_to_edit", "<|cursor|>"
ORIGINAL, UPDATE = "original_code", "update_snippet"
NO_EDIT = "None"  # the answer if nothing is to be changed
FENCE = "```"
MOST_REPEATED, LEAST_REPEATED = 50, 4  # lines, and characters


@dataclass(frozen=True)
class RegionEdit:
    """Code that a model is to rewrite, and what it reads for that.

    Args:
        task: one sentence for the model.
        code: the code as it is.
        context: further texts by their marks, the least important first.
        behind: code that follows; an answer that runs on into it is cut.
    """

    task: str
    code: str
    context: tuple[tuple[str, str], ...]
    behind: str = ""

    @property
    def prompt(self) -> str:
        """The user's message for the model."""
        parts = [_marked(name, text) for name, text in self.context if text.strip()]
        return "\n".join([self.task, *parts])

    def shorter(self) -> Iterator[RegionEdit]:
        """Yields the same, then with less and less of the context, the code itself always whole."""
        yield self
        kept = self.context
        while kept[0][0] not in (FILE, ORIGINAL):
            kept = kept[1:]
            yield replace(self, context=kept)
        name, text = kept[0]
        while name == FILE:
            head, mark, rest = text.partition(f"<|{REGION}|>")
            region, end, tail = rest.rpartition(f"<|/{REGION}|>")
            if not head and not tail:
                return
            text = head[len(head) // 2 + 1 :] + mark + region + end + tail[: len(tail) // 2]
            yield replace(self, context=((name, text),))

    def written(self, answer: str) -> str:
        """Returns the code of a model's answer, with the line breaks at the end that it had before."""
        text = answer.strip("\n")
        for name in (REGION, FILE, ORIGINAL):  # marks that the model repeats
            text = text.partition(f"<|/{name}|>")[0].replace(f"<|{name}|>\n", "")
        if text.startswith(FENCE):
            text = text.partition("\n")[2]
        text = text.rstrip().removesuffix(f"\n{FENCE}").replace(CURSOR, "").strip("\n")
        text = self._cut(text)
        lead, end = (len(self.code) - len(part) for part in (self.code.lstrip("\n"), self.code.rstrip("\n")))
        return "\n" * lead + text + "\n" * end if self.code.strip("\n") else text

    def _cut(self, text: str) -> str:
        """Returns an answer without lines at its end that are the next ones behind the code."""
        lines, behind = text.split("\n"), self.behind.strip("\n").split("\n")[:MOST_REPEATED]
        for count in range(min(len(lines) - 1, len(behind)), 0, -1):
            repeated = "\n".join(behind[:count])
            is_long = len(repeated.strip()) >= LEAST_REPEATED  # shorter ones, such as a bracket, may belong to it
            if is_long and lines[-count:] == behind[:count] and not self.code.rstrip("\n").endswith(repeated):
                return "\n".join(lines[:-count]).rstrip("\n")
        return text


def next_edit(content: str) -> RegionEdit:
    """Reads the prompt of a next edit.

    Raises:
        ApiError: it marks no code to edit.
    """
    region = _between(content, REGION)
    if region is None:
        raise _unmarked(REGION)
    region = region.removeprefix("\n").removesuffix("\n")
    file = _between(content, FILE) or _marked(REGION, region)
    shown = [(name, _between(content, name) or "") for name in ("recently_viewed_code_snippets", "edit_diff_history")]
    return RegionEdit(
        f"Predict the next edit: rewrite the code between <|{REGION}|> and <|/{REGION}|> as the developer will want "
        f"it, who is at {CURSOR}. Answer with that code alone. If nothing is to be changed, repeat it.",
        region.replace(CURSOR, ""),
        (*shown, (FILE, file.strip("\n"))),
        file.rpartition(f"<|/{REGION}|>")[2],
    )


def applied_edit(content: str) -> RegionEdit:
    """Reads the prompt of a change to apply.

    Raises:
        ApiError: it marks no code, or no change.
    """
    code, change = (_between(content, name) for name in (ORIGINAL, UPDATE))
    if code is None or change is None:
        raise _unmarked(ORIGINAL if code is None else UPDATE)
    code = code.removeprefix("\n").removesuffix("\n")
    return RegionEdit(
        f'Merge the change of <|{UPDATE}|> into the code of <|{ORIGINAL}|>. Comments such as "existing code" stand '
        "for code that stays. Answer with the whole changed code alone.",
        code,
        ((ORIGINAL, code), (UPDATE, change)),
    )


def _between(content: str, name: str) -> str | None:
    """Returns the text between a mark and its end, the last of these; None if there is none."""
    _, begins, rest = content.partition(f"<|{name}|>")
    text, ends, _ = rest.rpartition(f"<|/{name}|>")
    return text if begins and ends else None


def _marked(name: str, text: str) -> str:
    text = text.strip("\n")
    return f"<|{name}|>\n{text}\n<|/{name}|>"


def _unmarked(name: str) -> ApiError:
    return ApiError(400, f"Mark the code with <|{name}|> and <|/{name}|> in the message.", param="messages")
