"""Counts how many random faults the tests catch: ``python -m tests.bench.mutants --count 80 --seed 1 --out FILE``.

A fault is one change of engine or app in a copy of this commit: a comparison, an operator or a condition is turned
round, a constant is changed, a statement is left out. It is caught if a test of its room fails, of those that import
its file, or a journey. ``--again FILE`` tries the same faults on this commit; one whose line is gone does not count.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 900  # for the tests of a fault; what takes longer is caught: it hangs
TURNED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """A change of one line, which stands in its file as often as ``place`` says before it."""

    path: str
    line: str
    changed: str
    place: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", type=Path, help="a file of --out, whose faults are tried")
    parser.add_argument("--out", type=Path, help="the faults, and which were caught")
    args = parser.parse_args()
    if args.again is None:
        faults = drawn(args.count, Random(args.seed))
    else:
        faults = [Fault(**one["fault"]) for one in json.loads(args.again.read_text())]
    found = list[dict[str, object]]()
    with tempfile.TemporaryDirectory(prefix="safelight-mutants-") as folder:
        copy = Path(folder, "copy")
        subprocess.run(["git", "clone", "-q", str(ROOT), str(copy)], check=True)
        for number, fault in enumerate(faults):
            began = time.monotonic()
            said = tried(copy, fault)
            found.append({"fault": asdict(fault), "result": said, "seconds": round(time.monotonic() - began)})
            print(number + 1, said, fault.path, fault.line.strip(), "→", fault.changed.strip(), flush=True)
            if args.out is not None:
                args.out.write_text(json.dumps(found, indent=1))
    shown = [one["result"] for one in found]
    tried_count = len(shown) - shown.count("gone")
    print(f"{tried_count - shown.count('missed')} of {tried_count} faults are caught; {shown.count('gone')} are gone")


def drawn(count: int, random: Random) -> list[Fault]:
    """Draws faults; each file as often as it has places for one."""
    paths = sorted(path for room in ("engine", "app") for path in (ROOT / room).rglob("*.py"))
    return random.sample([fault for path in paths for fault in faults_of(path)], count)


def faults_of(path: Path) -> Iterator[Fault]:
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        changed = _turned(node)
        if changed is None or node.lineno != node.end_lineno:  # type: ignore[attr-defined]
            continue
        line = lines[node.lineno - 1]  # type: ignore[attr-defined]
        start, end = (len(line.encode()[:at].decode()) for at in (node.col_offset, node.end_col_offset))  # type: ignore[attr-defined]
        place = lines[: node.lineno - 1].count(line)  # type: ignore[attr-defined]
        yield Fault(str(path.relative_to(ROOT)), line, line[:start] + changed + line[end:], place)


def _turned(node: ast.AST) -> str | None:
    """Returns a node with a fault; None if it gets none."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in TURNED:
            return ast.unparse(ast.Compare(node.left, [TURNED[type(operator)]()], node.comparators))  # type: ignore[list-item]
        case ast.BoolOp():
            return f"({ast.unparse(ast.BoolOp(TURNED[type(node.op)](), node.values))})"  # type: ignore[arg-type]
        case ast.BinOp() if type(node.op) in TURNED and not isinstance(node.right, ast.Constant | ast.JoinedStr):
            return f"({ast.unparse(ast.BinOp(node.left, TURNED[type(node.op)](), node.right))})"  # type: ignore[arg-type]
        case ast.UnaryOp(op=ast.Not()):
            return ast.unparse(node.operand)
        case ast.Constant(value=bool() as value):
            return str(not value)
        case ast.Constant(value=int() as value):
            return str(value + 1)
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
            return "pass"
    return None


def tried(copy: Path, fault: Fault) -> str:
    """Returns "caught", "missed", or "gone" if the line is not there any more."""
    path = copy / fault.path
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    places = [number for number, line in enumerate(lines) if line.rstrip("\n") == fault.line]
    if not places:
        return "gone"
    before = "".join(lines)
    lines[places[min(fault.place, len(places) - 1)]] = f"{fault.changed}\n"
    path.write_text("".join(lines), encoding="utf-8")
    try:
        return "missed" if all(passes(copy, chosen) for chosen in tests_of(copy, fault.path)) else "caught"
    finally:
        path.write_text(before, encoding="utf-8")
        for cache in copy.rglob("__pycache__"):
            shutil.rmtree(cache, ignore_errors=True)


def tests_of(copy: Path, path: str) -> list[list[str]]:
    """Returns the tests of a file: those that import it, those of its room, and the journeys; each part once."""
    module = re.escape(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    holder, _, name = module.rpartition(r"\.")
    imported = re.compile(rf"{module}\b|from {holder} import [^\n]*\b{name}\b")
    every = sorted(copy.glob("tests/**/test_*.py"))
    own = [one for one in every if imported.search(one.read_text(encoding="utf-8"))]
    room = copy / "tests" / Path(path).parent
    near = sorted(room.rglob("test_*.py")) if room != copy / "tests" / path.partition("/")[0] else []
    named = re.findall(r"`(tests/\S+\.py)` \| (\w+)", (copy / "tests/journeys.md").read_text(encoding="utf-8"))
    files = [str(one.relative_to(copy)) for one in dict.fromkeys((*own, *near)) if "/real/" not in str(one)]
    return [part for part in (files, [f"{file}::{test}" for file, test in named]) if part]


def passes(copy: Path, chosen: Sequence[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", "-p", "no:cacheprovider", *chosen]
    try:
        ended = subprocess.run(command, cwd=copy, timeout=SECONDS, capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode in (0, 5)  # 5: no test is run without being asked for


if __name__ == "__main__":
    main()
