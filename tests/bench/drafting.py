"""Drafting against one token a pass: 200 prompts of five kinds, in one run, one after the other for each prompt.

``python -m tests.bench.drafting [--model safelight-talk] [--draft FOLDER] [--tokens 128] [--dtype float32] [--llama]``.
Greedy, without a repetition penalty unless one is given. A pass is a forward; a run of one token a pass has one more
than tokens, for the end. With ``--llama FOLDER``, llama.cpp answers the same prompts, one after the other; in that
folder ``npm install node-llama-cpp`` was run. Prints a line for each kind as JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine import GenerationFinished, Model, generate, load_model
from engine.adapters.draft import read_branch_draft

PROMPTS = Path(__file__).with_name("everyday_prompts.txt")
WAYS = ("autoregressive", "drafting")


@dataclass
class Sum:
    """Figures of one decoder over prompts of a kind."""

    tokens: int = 0
    passes: int = 0
    seconds: float = 0.0
    texts: list[list[int]] = field(default_factory=list)


def prompts() -> Iterator[tuple[str, str]]:
    """Yields kinds and prompts."""
    kind = ""
    for line in PROMPTS.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            kind = line[2:]
        else:
            yield kind, line


def answer(model: Model, ids: list[int], decoder: str, tokens: int, penalty: float, sums: Sum) -> None:
    config = model.generation_defaults.replace(
        decoder=decoder, sampling_temperature=0.0, repetition_penalty=penalty, max_new_tokens=tokens
    )
    begun = time.perf_counter()
    *_, end = generate(model, ids, config)
    assert isinstance(end, GenerationFinished)
    sums.seconds += time.perf_counter() - begun
    sums.tokens += len(end.tokens)
    sums.passes += end.steps
    sums.texts.append(end.tokens.tolist())


@dataclass(frozen=True)
class Llama:
    """llama.cpp in a process, which answers in turn."""

    process: subprocess.Popen[str]

    def ask(self, ids: list[int], tokens: int, penalty: float, sums: Sum) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"ids": ids, "tokens": tokens, "penalty": penalty}) + "\n")
        self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline())
        sums.seconds += found["seconds"]
        sums.tokens, sums.passes = sums.tokens + len(found["tokens"]), sums.passes + len(found["tokens"]) + 1
        sums.texts.append(found["tokens"])


@contextmanager
def llama(folder: Path, model: Path, threads: int) -> Iterator[Llama]:
    script = Path(__file__).with_name("llama_cpp.mjs")
    shutil.copy(script, folder)  # packages are found from the script's folder
    command = ["node", script.name, str(model), str(threads)]
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        yield Llama(process)
        process.kill()


def row(kind: str, sums: dict[str, Sum]) -> dict[str, object]:
    first = sums[WAYS[0]]
    found: dict[str, object] = {"kind": kind, "prompts": len(first.texts)}
    for name, one in sums.items():
        same = sum(a == b for a, b in zip(one.texts, first.texts, strict=True))
        found[name] = {
            "tokens a pass": round(one.tokens / max(1, one.passes), 3),
            "tokens a second": round(one.tokens / one.seconds, 1),
            "same text": same,
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="safelight-talk")
    parser.add_argument("--draft", type=Path, help="folder of another draft than the model's own")
    parser.add_argument("--without", action="store_true", help="no draft: guesses from the text alone")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--penalty", type=float, default=1.0)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="take each N-th prompt")
    parser.add_argument("--llama", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    model = load_model(options.model, device="cpu", dtype=options.dtype, threads=options.threads)
    if options.without:
        model = replace(model, draft=None)
    if options.draft is not None:
        network, targets = model.network, model.family.targets
        draft = read_branch_draft(options.draft, network, targets, model.device, network.dtype, 2**30)
        model = replace(model, draft=draft)
    with nullcontext() if options.llama is None else llama(options.llama, model.folder, model.threads) as other:
        compare(model, options, other)


def compare(model: Model, options: argparse.Namespace, other: Llama | None) -> None:
    by_kind: dict[str, dict[str, Sum]] = defaultdict(lambda: defaultdict(Sum))
    for kind, prompt in list(prompts())[:: options.every]:
        ids = model.chat_ids([{"role": "user", "content": prompt}])
        for name in WAYS:
            answer(model, ids, name, options.tokens, options.penalty, by_kind[kind][name])
        if other is not None:
            other.ask(ids, options.tokens, options.penalty, by_kind[kind]["llama.cpp"])
    whole: dict[str, Sum] = defaultdict(Sum)
    for kind, sums in by_kind.items():
        print(json.dumps(row(kind, sums)), flush=True)
        for name, one in sums.items():
            total = whole[name]
            total.tokens, total.passes = total.tokens + one.tokens, total.passes + one.passes
            total.seconds, total.texts = total.seconds + one.seconds, total.texts + one.texts
    print(json.dumps(row("all", whole)), flush=True)


if __name__ == "__main__":
    main()
