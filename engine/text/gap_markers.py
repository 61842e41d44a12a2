"""The markers with which prompts have a gap, by the models that were trained with them (fill in the middle, FIM).

A causal model writes the gap behind a prompt of the text before it and the text behind it, with a token between the
two. Editors send such prompts as texts. Sources: each row names its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.text.tokenizer import Tokenizer

MAX_FILES = 64  # that are read out of one prompt
BEGINNINGS = ("<s>", "<｜begin▁of▁sentence｜>", "<bos>")
"""Tokens that a client may write before a prompt; the tokenizer adds its own."""


@dataclass(frozen=True)
class GapFile:
    """Another file of the project, which the model may read; without a path it is only text."""

    path: str
    text: str


@dataclass(frozen=True)
class TextGap:
    """A text with a gap between ``prefix`` and ``suffix``.

    Args:
        path: of the file that has the gap; empty: not known.
        files: others, the least important first.
    """

    prefix: str
    suffix: str
    path: str = ""
    files: tuple[GapFile, ...] = ()


@dataclass(frozen=True)
class GapMarkers:
    """The markers of a prompt with a gap.

    Args:
        prefix, suffix, middle: tokens before the text before the gap, before the text behind it, and before the gap.
        ends: tokens that end the gap's text, as far as a vocabulary has them.
        written: the three in prompts that are texts, where that is not how the vocabulary writes them.
        file: token before the path and the text of a file; empty: files stand as comments before the text.
        repository: token before all files.
        is_suffix_first: the text behind the gap comes first, and the gap follows the text before it.
        source: where they were published.
    """

    name: str
    prefix: str
    suffix: str
    middle: str
    source: str
    ends: tuple[str, ...] = ()
    written: tuple[str, str, str] | None = None
    file: str = ""
    repository: str = ""
    is_suffix_first: bool = False

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens that a vocabulary must have."""
        return tuple(filter(None, (self.prefix, self.suffix, self.middle, self.file, self.repository)))

    def render(self, gap: TextGap, inert: Callable[[str], str] = str) -> str:
        """Returns the prompt of a gap; the model writes the gap's text behind it.

        Args:
            inert: breaks the markers in texts from outside; see ``Tokenizer.inert_with``.
        """
        prefix, suffix = inert(gap.prefix), inert(gap.suffix)
        before = "".join(self._file(inert(file.path), inert(file.text)) for file in gap.files)
        if self.file and before:
            before = (f"{self.repository}{_REPOSITORY}\n" if self.repository else "") + before
            before += f"{self.file}{inert(gap.path)}\n"
        if self.is_suffix_first:
            return f"{self.suffix}{suffix}{self.prefix}{before}{prefix}{self.middle}"
        if not self.file:
            return f"{self.prefix}{before}{prefix}{self.suffix}{suffix}{self.middle}"
        return f"{before}{self.prefix}{prefix}{self.suffix}{suffix}{self.middle}"

    def _file(self, path: str, text: str) -> str:
        text = text if text.endswith("\n") else f"{text}\n"
        if self.file:
            return f"{self.file}{path}\n{text}"
        return f"# {path}\n{text}" if path else text

    def parse(self, prompt: str) -> TextGap | None:
        """Returns the gap of a prompt that has these markers; None if it has not."""
        prefix, suffix, middle = self.written or (self.prefix, self.suffix, self.middle)
        if self.is_suffix_first:
            if not prompt.startswith(suffix) or prefix not in prompt:
                return None
            behind, _, before = prompt.removeprefix(suffix).partition(prefix)
            return TextGap(before, behind)
        head, is_marked, rest = prompt.partition(prefix)
        before, has_suffix, rest = rest.partition(suffix)
        behind, has_middle, begun = rest.rpartition(middle)
        if not (is_marked and has_suffix and has_middle):
            return None
        path, files = self._files(head)
        if self.written:  # a space belongs to the marker
            before = before.removeprefix(" ")
        return TextGap(before + begun, behind, path, files)

    def _files(self, head: str) -> tuple[str, tuple[GapFile, ...]]:
        """Returns the path of the file with the gap, and the other files, of what a prompt has before that."""
        if not self.file or self.file not in head:
            return "", (GapFile("", head),) if head.strip() else ()
        _, *parts = head.split(self.file, MAX_FILES)
        pairs = [part.partition("\n") for part in parts]
        own_file = pairs.pop() if not pairs[-1][2].strip() else None
        return own_file[0].strip() if own_file else "", tuple(GapFile(path.strip(), text) for path, _, text in pairs)


_REPOSITORY = "repository"  # the name of one that is not known
_STARS = "<fim_prefix>", "<fim_suffix>", "<fim_middle>"
_BARS = "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"
MARKERS = (
    GapMarkers(
        "Qwen2.5-Coder",
        *_BARS,
        "README and examples/Qwen2.5-Coder-fim.py, -repolevel-fim.py in QwenLM/Qwen2.5-Coder",
        ends=("<|endoftext|>", "<|im_end|>", "<|fim_pad|>", "<|file_sep|>", "<|repo_name|>", *_BARS, "<|im_start|>"),
        file="<|file_sep|>",
        repository="<|repo_name|>",
    ),
    GapMarkers(
        "CodeGemma",
        *_BARS,
        "CodeGemma: Open Code Models Based on Gemma, arXiv 2406.11409",
        ends=("<|file_separator|>", "<eos>", *_BARS),
        file="<|file_separator|>",
    ),
    GapMarkers(
        "Granite",
        *_BARS,
        "model cards of ibm-granite/granite-3.3-8b-base and granite-4.0",
        ends=("<|end_of_text|>", "<|endoftext|>", "<|fim_pad|>", *_BARS),
    ),
    GapMarkers(
        "StarCoder2",
        *_STARS,
        "StarCoder 2 and The Stack v2, arXiv 2402.19173, 5.2",
        ends=("<|endoftext|>", "<file_sep>", "<repo_name>", *_STARS),
        file="<file_sep>",
        repository="<repo_name>",
    ),
    GapMarkers(
        "StarCoder",
        *_STARS,
        "StarCoder: may the source be with you!, arXiv 2305.06161; Stable Code has the same",
        ends=("<|endoftext|>", "<fim_pad>", "<filename>", "<reponame>", *_STARS),
    ),
    GapMarkers(
        "DeepSeek-Coder",
        "<｜fim▁begin｜>",
        "<｜fim▁hole｜>",
        "<｜fim▁end｜>",
        "README of deepseek-ai/DeepSeek-Coder, Code Insertion and Repository Level Code Completion",
        ends=("<｜end▁of▁sentence｜>", "<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    ),
    GapMarkers(
        "Code Llama",
        "▁<PRE>",
        "▁<SUF>",
        "▁<MID>",
        "infilling_prompt_tokens of llama/generation.py in meta-llama/codellama",
        ends=("▁<EOT>", "</s>"),
        written=("<PRE>", " <SUF>", " <MID>"),
    ),
    GapMarkers(
        "GLM",
        "<|code_prefix|>",
        "<|code_suffix|>",
        "<|code_middle|>",
        "crates/edit_prediction/src/fim.rs in zed-industries/zed",
        ends=("<|endoftext|>", "<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),
    ),
    GapMarkers(
        "Codestral",
        "[PREFIX]",
        "[SUFFIX]",
        "",
        "encode_fim of tokens/tokenizers/instruct.py in mistralai/mistral-common",
        ends=("</s>", "[PREFIX]", "[SUFFIX]"),
        is_suffix_first=True,
    ),
)
"""The known markers; of those with the same three, the ones with more tokens come first."""


def markers_of(tokenizer: Tokenizer) -> GapMarkers | None:
    """Returns the markers that a vocabulary has; None if it has none that are known."""
    for markers in MARKERS:
        if all(tokenizer.token_id(token) is not None for token in markers.tokens):
            return markers
    return None


def parse(prompt: str) -> TextGap | None:
    """Returns the gap of a prompt that a client wrote with any of the known markers; None if it has none.

    The markers of files are those of the first row that has them.
    """
    beginning = next((token for token in BEGINNINGS if prompt.startswith(token)), "")
    prompt = prompt.removeprefix(beginning)
    rows = sorted(MARKERS, key=lambda markers: not (markers.file and markers.file in prompt))
    return next((gap for markers in rows if (gap := markers.parse(prompt)) is not None), None)
