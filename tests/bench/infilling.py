"""Fills in a line of functions of Python's library: ``python -m tests.bench.infilling FOLDER [--count N] [--check]``.

A task is a function of 6 to 30 lines, dedented, without one line of its body: the model has what stands before the line
with its indentation, and what follows. It is right if the first line of what it writes is that line. The tasks come
from the sources of this Python, so that they are the same for one version and one count.

Text is written greedily up to a line break, or 32 tokens. With ``--check`` it is compared with what transformers writes
behind the same prompts from the same folder, in float32 both.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import torch

from engine import GenerationConfig, GenerationFinished, load_model
from engine.decoding.gap_plan import plan_gap
from engine.decoding.generate import generate
from engine.events import StepFinished
from engine.models.model import Model
from engine.text.gap_markers import TextGap

MODULES = """
    argparse ast base64 bisect calendar cmd code collections configparser copy csv dataclasses difflib dis enum
    fileinput fnmatch fractions functools getopt gettext glob graphlib gzip hashlib heapq html imaplib inspect
    ipaddress json.decoder json.encoder keyword linecache locale logging mailbox mimetypes netrc nntplib numbers
    operator optparse pathlib pdb pickle platform plistlib posixpath pprint profile pstats queue quopri random
    reprlib sched selectors shelve shlex shutil smtplib socket statistics string stringprep subprocess symtable
    tarfile tempfile textwrap threading timeit tokenize trace traceback types typing uuid warnings wave weakref
    xml.dom.minidom xml.etree.ElementTree zipapp zipfile
""".split()  # noqa: SIM905
FEWEST_LINES, MAX_LINES = 6, 30
SHORTEST = 8  # characters of a line that is taken out
MAX_TOKENS = 32


@dataclass(frozen=True)
class LineTask:
    """A function without one of its lines."""

    name: str
    prefix: str
    line: str
    suffix: str


def tasks(count: int, seed: int = 0) -> list[LineTask]:
    """Draws functions of the library, and a line of each; the same ones for one version of Python."""
    rng = random.Random(seed)
    found = [task for module in MODULES for task in _of_module(module, rng)]
    return rng.sample(found, min(count, len(found)))


def _of_module(module: str, rng: random.Random) -> Iterator[LineTask]:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return
    source = Path(spec.origin).read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef) or node.end_lineno is None:
            continue
        own = dedent("".join(lines[node.lineno - 1 : node.end_lineno])).splitlines(keepends=True)
        if not FEWEST_LINES <= len(own) <= MAX_LINES:
            continue
        has_text = ast.get_docstring(node, clean=False) is not None
        first = node.body[1] if has_text and len(node.body) > 1 else node.body[0]
        places = [
            place
            for place in range(first.lineno - node.lineno, len(own))
            if len(own[place].strip()) >= SHORTEST and not own[place].lstrip().startswith(("#", '"', "'"))
        ]
        if places:
            place = rng.choice(places)
            line = own[place].strip()
            indent = own[place][: len(own[place]) - len(own[place].lstrip())]
            yield LineTask(
                f"{module}.{node.name}", "".join(own[:place]) + indent, line, "\n" + "".join(own[place + 1 :])
            )


def written(model: Model, task: LineTask) -> tuple[tuple[int, ...], list[int]]:
    """Returns the prompt of a task, and the tokens that the model writes up to a line break."""
    plan = plan_gap(model, TextGap(task.prefix, task.suffix), settings(model))
    found = list[int]()
    for event in generate(model, plan.prompt, plan.config):
        if isinstance(event, StepFinished):
            place = len(found) % len(event.next_canvas)
            found.append(int(event.next_canvas[place]))
            if found[-1] in plan.config.eos_token_ids:
                return plan.prompt, found[:-1]
            if "\n" in model.tokenizer.decode(found):
                break
        elif isinstance(event, GenerationFinished):
            return plan.prompt, event.tokens.tolist()
    return plan.prompt, found


def settings(model: Model) -> GenerationConfig:
    return model.generation_defaults.replace(max_new_tokens=MAX_TOKENS, decoder="autoregressive")


@torch.inference_mode()
def is_greedy(network: Any, model: Model, prompt: Sequence[int], tokens: Sequence[int], ends: Sequence[int]) -> bool:
    """True if a network of transformers, greedily, writes the tokens behind a prompt, and an end where they have one.

    By induction: each is the likeliest behind those before it, which one pass over all of them says.
    """
    best = network(torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 :].argmax(dim=-1).tolist()
    goes_on = len(tokens) == MAX_TOKENS or "\n" in model.tokenizer.decode(tokens)
    return best[: len(tokens)] == list(tokens) and (goes_on or best[len(tokens)] in ends)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="compare with transformers")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = load_model(args.folder, dtype="float32", threads=args.threads)
    drawn, right, prompts, rows = tasks(args.count, args.seed), 0, list[tuple[int, ...]](), list[list[int]]()
    started = time.perf_counter()
    for place, task in enumerate(drawn, 1):
        prompt, tokens = written(model, task)
        text = model.tokenizer.decode(tokens).partition("\n")[0].strip()
        right += text == task.line
        prompts.append(prompt)
        rows.append(tokens)
        if place % 20 == 0 or place == len(drawn):
            print(f"{right} of {place} lines are right, {time.perf_counter() - started:.0f} s", flush=True)
    if args.check:
        ends = plan_gap(model, TextGap("", ""), settings(model)).config.eos_token_ids
        from transformers import AutoModelForCausalLM  # slow to import

        network = AutoModelForCausalLM.from_pretrained(args.folder, dtype=torch.float32)
        same = [is_greedy(network, model, prompt, row, ends) for prompt, row in zip(prompts, rows, strict=True)]
        print(f"transformers writes the same tokens in {sum(same)} of {len(same)}")
        print("\n".join(f"not in {task.name}" for task, is_same in zip(drawn, same, strict=True) if not is_same))


if __name__ == "__main__":
    main()
