"""Checks the names of repositories, files, revisions and tokens, which are untrusted. Knows no disk or network."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from engine.errors import SafelightError, quoted
from engine.files import is_bare_name
from engine.store_files import DRAFT_FILES, DRAFT_FOLDER
from engine.text.vocabulary_files import FILES

WANTED = (
    "config.json", "hf_quant_config.json", "generation_config.json", "tokenizer*.json", "chat_template.jinja",
    "*.safetensors", "*.safetensors.index.json", *FILES,
)  # fmt: skip
DRAFT = frozenset(f"{DRAFT_FOLDER}/{name}" for name in DRAFT_FILES)  # in the only folder inside a model's folder
UNFINISHED = ".partial"  # ends the name of a folder that is no model yet

_REPO = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}/[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[0-9a-f]{40,64}|main")
_HASH = re.compile(r"[0-9a-f]+")
_TOKEN = re.compile(r"[!-~]{1,500}")


def is_repo(repo: object) -> bool:
    """Returns True if it is ``owner/name`` as hubs allow it, so that ``folder_name`` and ``repo_of`` are inverse."""
    if not isinstance(repo, str) or not _REPO.fullmatch(repo) or "--" in repo or ".." in repo:
        return False
    return is_bare_name(repo.replace("/", "--")) and not repo.lower().endswith((UNFINISHED, ".git"))


def is_wanted(name: object) -> bool:
    """Returns True if it is the name of a file that a model needs: a plain name, or one of its draft adapter."""
    return name in DRAFT or (is_bare_name(name) and any(fnmatchcase(str(name), pattern) for pattern in WANTED))


def is_revision(revision: object) -> bool:
    """Returns True if it is a commit, or the main branch, which every repository has."""
    return isinstance(revision, str) and bool(_REVISION.fullmatch(revision))


def is_hash(digest: object, digits: int) -> bool:
    """Returns True if it is a hash of ``digits`` hexadecimal digits."""
    return isinstance(digest, str) and len(digest) == digits and bool(_HASH.fullmatch(digest))


def is_token(token: str) -> bool:
    """Returns True if it can be sent as an access token: visible ASCII."""
    return bool(_TOKEN.fullmatch(token))


def folder_name(repo: str) -> str:
    """Returns ``owner/name`` as the name of a folder.

    Raises:
        SafelightError: it is not the name of a repository.
    """
    if not is_repo(repo):
        raise SafelightError(f"{quoted(repo)} is not the name of a repository; it looks like owner/name")
    return repo.replace("/", "--")


def repo_of(name: str) -> str | None:
    """Returns the repository of a folder's name, with or without its ending; None if there is none."""
    repo = name.removesuffix(UNFINISHED).replace("--", "/", 1)
    return repo if is_repo(repo) else None
