"""Finds a repository's model in the Hugging Face cache without its library, which is imported to delete one.

The layout is the library's: ``models--OWNER--NAME`` holds ``refs/main``, the commit, and ``snapshots/COMMIT``, whose
files are links into ``blobs``, or files where a system has no links. Knows no network.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Container, Iterable
from pathlib import Path

from engine.errors import SafelightError, quoted
from engine.files import is_bare_name, listed, read_text

_REPO = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}/[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")
_SHARD = re.compile(r"(.+)-[0-9]{5}-of-([0-9]{5})\.safetensors")
REPOSITORY = "models--"  # how the names of its folders begin


def cache_folder() -> Path:
    """Returns the cache's folder, by the variables that the library reads: HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME."""
    known = os.environ
    home = known.get("HF_HOME", os.path.join(known.get("XDG_CACHE_HOME", "~/.cache"), "huggingface"))
    place = known.get("HF_HUB_CACHE", known.get("HUGGINGFACE_HUB_CACHE", os.path.join(home, "hub")))
    return Path(os.path.expandvars(os.path.expanduser(place))).absolute()


def is_repo(repo: object) -> bool:
    """Returns True if it is ``owner/name`` as hubs allow it, so that its folder's name and it are inverse."""
    if not isinstance(repo, str) or not _REPO.fullmatch(repo) or "--" in repo or ".." in repo:
        return False
    return is_bare_name(repo.replace("/", "--")) and not repo.lower().endswith((".partial", ".git"))


def repo_folder(repo: str) -> Path:
    """Returns the folder of a repository in the cache.

    Raises:
        SafelightError: it is not the name of a repository.
    """
    if not is_repo(repo):
        raise SafelightError(f"{quoted(repo)} is not the name of a repository; it looks like owner/name")
    return cache_folder() / (REPOSITORY + repo.replace("/", "--"))


def snapshot_of(repo: str) -> Path | None:
    """Returns the folder of the commit that ``snapshot_in`` finds; None if there is none, or not all of it."""
    folder = snapshot_in(repo_folder(repo))
    return folder if folder is not None and not lost(folder, listed(folder)) else None


def snapshot_in(repository: Path) -> Path | None:
    """Returns the snapshot of a repository's folder that "main" names, or else the newest; None if there is none."""
    snapshots = repository / "snapshots"
    try:
        commit = read_text(repository / "refs" / "main", 200).strip()
    except SafelightError:
        commit = ""
    known = [snapshots / name for name in listed(snapshots) if os.path.isdir(snapshots / name)]
    try:
        return max(known, key=lambda path: (path.name == commit, os.path.getmtime(path)), default=None)
    except OSError:  # one was removed meanwhile
        return None


def lost(folder: Path, names: Iterable[str]) -> str:
    """Returns what a model's folder, whose content has ``names``, lacks; empty if it is whole. No dead link counts."""
    weights = [name for name in names if name.endswith(".safetensors")]
    if dead := next((name for name in ("config.json", *weights) if not os.path.isfile(folder / name)), ""):
        return dead
    shards = Counter(match.groups() for name in weights if (match := _SHARD.fullmatch(name)))
    short = next((count for (_, count), here in shards.items() if here < int(count)), "")
    return f"one of {int(short)} files of weights" if short else "" if weights else "model.safetensors"


def repo_of(snapshot: Path) -> str | None:
    """Returns the repository whose snapshot a folder of the cache is; None for any other folder."""
    repo = snapshot.parent.parent.name.removeprefix(REPOSITORY).replace("--", "/", 1)
    is_ours = is_repo(repo) and snapshot.parent.name == "snapshots" and snapshot.is_relative_to(repo_folder(repo))
    return repo if is_ours else None


def delete(snapshot: Path, names: Container[str] | None = None) -> int:
    """Deletes a commit from the cache, or only its files of some names, by the library's strategy.

    What another commit needs stays. Returns the bytes that this frees.

    Raises:
        SafelightError: the cache is damaged there, or a file cannot be removed.
    """
    from huggingface_hub.utils._cache_manager import scan_cache_dir  # by its module, as a bundle needs it

    try:
        info = scan_cache_dir(cache_folder())
        (repo,) = (each for each in info.repos if each.repo_path.name == snapshot.parent.parent.name)
        (commit,) = (each for each in repo.revisions if each.commit_hash == snapshot.name)
        info = dataclasses.replace(info, repos=frozenset((repo,)))
        chosen = {
            f
            for f in commit.files
            if names is None or f.file_path.relative_to(commit.snapshot_path).as_posix() in names
        }
        is_all = chosen == commit.files
        strategy = info.delete_revisions(snapshot.name) if is_all else info.delete_files(*chosen)
        strategy.execute()  # which says nothing of what it cannot remove
        if (is_all and snapshot.exists()) or any(os.path.lexists(file.file_path) for file in chosen):
            raise OSError("a file is in use")
        return strategy.expected_freed_size
    except (OSError, ValueError) as error:  # no such commit, or the library cannot read the folder
        raise SafelightError(f"{snapshot.parent.parent} cannot be removed ({error}); remove it yourself") from error
