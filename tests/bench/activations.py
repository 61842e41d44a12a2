"""What 8-bit activations cost in quality: answers and steps per canvas of the embedded models, errors of large layers.

``python -m tests.bench.activations [--runs 300] [--part runs|layers|head] [--json]``. Products are those of 8-bit
matrix units: operands are rounded as these hold them, sums are exact but for fp32. Weights are int8 a row in the
baseline, too; experts are left alone. Runs are paired: every form gets the same tasks with the same seeds.

- **bf16** rounds activations as the kernels for 16-bit units do: how far runs drift apart for no reason.
- **int8** rounds 128 inputs of a token to their largest value / 127, as ``engine.kernels.linear_w8a8`` does; for the
  soft embedding these are a position's weights within a tile of the vocabulary, and **uint8** spends their sign.
- **fp8** (e4m3) rounds as many to their largest value / 448, and weights as well, since both operands are of one type.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import math
import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import engine
from engine import Model, load_model
from engine.catalog import MINI, SUDOKU
from engine.config import GELU
from engine.kernels.activation import activate
from engine.kernels.reference import GROUP, round_rows
from engine.layers.embedding import TokenTable
from engine.quant import INT8, PRECISIONS, pack, unpack
from engine.tasks import skills, sudoku
from tests.engine.small import sample

E4M3 = torch.float8_e4m3fn
LARGEST = {"int8": 127.0, "uint8": 255.0, "fp8": 448.0}


@dataclass(frozen=True)
class Forms:
    """How the activations of each part are rounded: "fp32" (not), "bf16", "int8", "uint8" or "fp8"."""

    linears: str = "fp32"
    head: str = "fp32"
    soft: str = "fp32"

    def __str__(self) -> str:
        told = [f"{name} {form}" for name, form in dataclasses.asdict(self).items() if form != "fp32"]
        return ", ".join(told) or "baseline"


VARIANTS = (
    Forms("bf16", "bf16", "bf16"),
    *(Forms(linears=form) for form in ("int8", "fp8")),
    *(Forms(head=form) for form in ("int8", "fp8")),
    *(Forms(soft=form) for form in ("int8", "uint8", "fp8")),
    Forms("int8", "int8"),
    Forms("int8", "int8", "int8"),
    Forms("fp8", "fp8", "fp8"),
)


def rounded(x: Tensor, form: str, group: int = GROUP) -> Tensor:
    """Rows (..., K) as 8-bit units hold them: whole or e4m3 numbers times an fp32 scale a group; group 0 is the row."""
    if form == "fp32":
        return x
    if form == "bf16":
        return x.bfloat16().to(x.dtype)
    if form == "int8" and group == GROUP:
        return round_rows(x)
    grouped = x.unflatten(-1, (-1, group or x.shape[-1]))
    scale = grouped.abs().amax(dim=-1, keepdim=True).clamp_min(1e-30) / LARGEST[form]
    units = grouped / scale
    units = units.to(E4M3).to(x.dtype) if form == "fp8" else units.round()
    return (units * scale).flatten(-2)


class RoundedTable(TokenTable):
    """A token table whose two products have rounded operands."""

    def __init__(self, weight: Tensor, forms: Forms) -> None:
        super().__init__(*weight.shape)
        self.forms, self.weight = forms, nn.Parameter(weight, requires_grad=False)
        self.scale = weight.abs().amax(dim=1) / 127  # of a token's row, folded into the weights of a mean
        self.units = weight / self.scale[:, None]

    def logits(self, hidden: Tensor) -> Tensor:
        table = rounded(self.weight, "fp8") if self.forms.head == "fp8" else self.weight
        return F.linear(rounded(hidden, self.forms.head), table)

    def expectation(self, probabilities: Tensor) -> Tensor:
        units = rounded(self.units, "fp8") if self.forms.soft == "fp8" else self.units
        return rounded(probabilities * self.scale, self.forms.soft, GROUP) @ units


def with_forms(model: Model, forms: Forms) -> Model:
    """A copy of a model in fp32 with int8 weights, and activations rounded so."""
    network = copy.deepcopy(model.network)
    for path, module in network.named_modules():
        if isinstance(module, nn.Linear) and PRECISIONS["int4"].scheme(path) == INT8:
            weight = unpack(pack(module.weight.data, INT8))
            module.weight.data = rounded(weight, "fp8") if forms.linears == "fp8" else weight
            module.register_forward_pre_hook(lambda _, inputs: (rounded(inputs[0], forms.linears),))
    network.embed_tokens = RoundedTable(unpack(pack(network.embed_tokens.weight.data, INT8)), forms)
    return dataclasses.replace(model, network=network)


# --- runs of the embedded models -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """What is asked, and what tells whether an answer is right: a board, or the prompt itself."""

    prompt: str
    board: str = ""

    def is_right(self, answer: str) -> bool:
        if self.board:
            return sudoku.judge(self.board, sudoku.read_answer(answer)).valid
        return skills.check(self.prompt, answer)


def tasks(name: str, count: int) -> list[Task]:
    """Held-out Sudokus of 30 to 50 givens, or held-out text tasks, no two alike: few times tables are held out."""
    rng = random.Random(13)
    if name == MINI:
        prompts: dict[str, None] = {}
        while len(prompts) < count:
            prompts[sample(rng, "test").prompt] = None
        return [Task(prompt) for prompt in prompts]
    boards = [sudoku.generate(rng, 30, 50, held_out=True).board for _ in range(count)]
    return [Task(sudoku.to_prompt(board), board) for board in boards]


@dataclass(frozen=True)
class Run:
    """One answer: whether it is right, its denoising steps and its canvases."""

    right: bool
    steps: int
    canvases: int


def runs(model: Model, asked: list[Task]) -> Iterator[Run]:
    """Every task once, the n-th with seed n."""
    ends = model.generation_defaults.eos_token_ids
    for seed, task in enumerate(asked):
        ids = model.chat_ids([{"role": "user", "content": task.prompt}])
        for event in engine.generate(model, ids, model.generation_defaults, seed):
            if isinstance(event, engine.GenerationFinished):
                tokens = [token for token in event.tokens.tolist() if token not in ends]
                yield Run(task.is_right(model.tokenizer.decode(tokens)), event.steps, event.blocks)


@dataclass(frozen=True)
class Paired:
    """A form against the baseline on the same tasks; intervals are 95 %, in the same unit."""

    model: str
    forms: str
    runs: int
    right: float  # share, 0 to 1
    right_change: float  # against the baseline
    right_interval: float
    steps_per_canvas: float
    steps_change: float  # relative
    steps_interval: float


def paired(name: str, forms: Forms, base: list[Run], found: list[Run]) -> Paired:
    """Mean differences with their intervals."""
    count, canvases = len(base), sum(run.canvases for run in base)
    rights = [int(mine.right) - int(plain.right) for mine, plain in zip(found, base, strict=True)]
    # Steps per canvas relative to the baseline's, the run's own canvases counted: linearised ratio.
    steps = sum(run.steps for run in base) / canvases
    mine_steps = sum(run.steps for run in found) / sum(run.canvases for run in found)
    apart = [
        (mine.steps - mine_steps * mine.canvases) - (plain.steps - steps * plain.canvases)
        for mine, plain in zip(found, base, strict=True)
    ]
    per_run = steps * canvases / count
    return Paired(
        model=name,
        forms=str(forms),
        runs=count,
        right=sum(run.right for run in found) / count,
        right_change=statistics.fmean(rights),
        right_interval=1.96 * statistics.stdev(rights) / math.sqrt(count),
        steps_per_canvas=mine_steps,
        steps_change=mine_steps / steps - 1,
        steps_interval=1.96 * statistics.stdev(apart) / math.sqrt(count) / per_run,
    )


def measure_runs(count: int, names: list[str], variants: tuple[Forms, ...]) -> Iterator[Paired]:
    """All variants of the embedded models, one after the other."""
    for name in names:
        model, asked = load_model(name, device="cpu", dtype="float32"), tasks(name, count)
        base = list(runs(with_forms(model, Forms()), asked))
        yield paired(name, Forms(), base, base)
        for forms in variants:
            yield paired(name, forms, base, list(runs(with_forms(model, forms), asked)))


# --- random layers of the real shape -------------------------------------------------------------------------------

SHAPES = (("q", 2816, 4096), ("o", 4096, 2816), ("gate, up", 2816, 2112), ("down", 2112, 2816))
TOKENS = 32
LARGE_VOCABULARY, HIDDEN, PIECE = 262_144, 2816, 8192


@dataclass(frozen=True)
class LayerError:
    """Relative errors of one layer's output for one sort of activations, against int8 weights and exact activations."""

    layer: str
    activations: str
    bf16: float
    int8_rows: float  # with a scale a token
    int8: float  # with a scale a GROUP
    fp8: float  # of weights, too


def made_up(sort: str, inputs: int, draws: torch.Generator) -> Tensor:
    """Activations (T, in): "normal"; "t3" has heavy tails; "outliers" has eight channels that are 20 times as large.

    "gated" is what comes out of a gated MLP.
    """
    x = torch.randn(TOKENS, inputs, generator=draws)
    if sort == "t3":
        x = x / (torch.randn(TOKENS, inputs, 3, generator=draws).square().mean(-1).sqrt())
    if sort == "outliers":
        x[:, torch.randperm(inputs, generator=draws)[:8]] *= 20
    if sort == "gated":
        x = activate(x, GELU) * torch.randn(TOKENS, inputs, generator=draws)
    return x


def measure_layers() -> Iterator[LayerError]:
    """Random layers of the 26B's shapes."""
    draws = torch.Generator().manual_seed(0)
    for layer, inputs, outputs in SHAPES:
        weight = unpack(pack(torch.randn(outputs, inputs, generator=draws), INT8))
        narrow = rounded(weight, "fp8", group=0)
        for sort in ("normal", "t3", "outliers", "gated"):
            x = made_up(sort, inputs, draws)
            exact = x @ weight.T
            yield LayerError(
                layer=layer,
                activations=sort,
                bf16=apart(rounded(x, "bf16") @ weight.T, exact),
                int8_rows=apart(rounded(x, "int8", group=0) @ weight.T, exact),
                int8=apart(rounded(x, "int8") @ weight.T, exact),
                fp8=apart(rounded(x, "fp8", group=0) @ narrow.T, exact),
            )


def apart(found: Tensor, exact: Tensor) -> float:
    """Relative error."""
    return float((found - exact).norm() / exact.norm())


@dataclass(frozen=True)
class HeadError:
    """The vocabulary stage at the real size, for positions of one mean entropy."""

    activations: str  # of the hidden states
    form: str
    entropy: float  # nats, exact, mean
    entropy_error: float  # nats, mean of absolute values
    argmax_agrees: float  # share of positions
    kl: float  # nats, mean, of the exact distribution from the rounded one
    soft_error: float  # relative, of the soft embedding, whose weights alone are rounded so


def measure_head() -> Iterator[HeadError]:
    """A random table of 262 144 tokens; hidden states near one of its rows, more or less, so that entropies differ."""
    draws = torch.Generator().manual_seed(0)
    table = torch.empty(LARGE_VOCABULARY, HIDDEN, dtype=torch.int8)
    for piece in table.split(PIECE):
        piece.copy_((torch.randn(piece.shape, generator=draws) * 32).round().clamp(-127, 127))
    spread = 1 / 32 / HIDDEN**0.5  # makes logits of a normed state deviate by one
    for sort in ("normal", "outliers"):
        noise = made_up(sort, HIDDEN, draws)
        for sharpness in (1.5, 3.0):
            near = table[torch.randint(LARGE_VOCABULARY, (TOKENS,), generator=draws)].float() / 32
            # A row's own logit is its length times what of it is in the state; the rest is noise.
            state = F.normalize(noise + near * torch.linspace(0.05, 0.5, TOKENS)[:, None]) * HIDDEN**0.5 * sharpness
            exact = torch.cat([state @ piece.float().T for piece in table.split(PIECE)], dim=1) * spread
            p = torch.softmax(capped(exact), dim=-1)
            entropy = -(p * p.clamp_min(1e-30).log()).sum(-1)
            mean = mean_row(p, table)
            for form in ("bf16", "int8", "fp8"):
                mine = torch.cat([product(state, piece.float(), form) for piece in table.split(PIECE)], dim=1) * spread
                log_q = torch.log_softmax(capped(mine), dim=-1)
                soft = mean_row(rounded(p, form, GROUP), table, form)
                yield HeadError(
                    activations=sort,
                    form=form,
                    entropy=float(entropy.mean()),
                    entropy_error=float((-(log_q.exp() * log_q).sum(-1) - entropy).abs().mean()),
                    argmax_agrees=float((exact.argmax(-1) == mine.argmax(-1)).float().mean()),
                    kl=float((p * (p.clamp_min(1e-30).log() - log_q)).sum(-1).mean()),
                    soft_error=apart(soft, mean),
                )


def capped(logits: Tensor) -> Tensor:
    """As the 26B caps them, at a canvas's mean temperature."""
    return torch.tanh(logits / 30) * 30 / 0.6


def product(x: Tensor, weight: Tensor, form: str) -> Tensor:
    """x (T, in) and whole weights (out, in) with both rounded so."""
    return rounded(x, form) @ (rounded(weight, form) if form == "fp8" else weight).T


def mean_row(weights: Tensor, table: Tensor, form: str = "fp32") -> Tensor:
    """Weights (T, V) on a table (V, H)."""
    total = torch.zeros(weights.shape[0], table.shape[1])
    for part, piece in zip(weights.split(PIECE, dim=1), table.split(PIECE), strict=True):
        total += part @ (rounded(piece.float(), form) if form == "fp8" else piece.float())
    return total


# --- the table -----------------------------------------------------------------------------------------------------


def told(row: Paired | LayerError | HeadError) -> str:
    """One line."""
    match row:
        case Paired():
            right = f"right {row.right:.3f} {row.right_change:+.4f} ± {row.right_interval:.4f}"
            steps = f"{row.steps_per_canvas:.2f} {100 * row.steps_change:+.2f} ± {100 * row.steps_interval:.2f} %"
            return f"{row.model:18}{row.forms:36}{row.runs:6}  {right}  steps per canvas {steps}"
        case LayerError():
            errors = f"bf16 {row.bf16:.4f}  int8 {row.int8:.4f}, a row {row.int8_rows:.4f}  fp8 {row.fp8:.4f}"
            return f"{row.layer:10}{row.activations:10}{errors}"
        case HeadError():
            agrees = f"argmax {row.argmax_agrees:.3f}  KL {row.kl:.2e}  soft {row.soft_error:.4f}"
            return f"{row.activations:10}{row.form:6}entropy {row.entropy:.3f} ± {row.entropy_error:.4f}  {agrees}"


def main() -> None:
    """Print a line, or with ``--json`` an object, for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300, help="of each model and form")
    parser.add_argument("--part", choices=("runs", "layers", "head"), action="append", help="(default: all)")
    parser.add_argument("--json", action="store_true", help="one object a line")
    args = parser.parse_args()
    torch.set_num_threads(1)
    measured = {
        "layers": measure_layers,
        "head": measure_head,
        "runs": lambda: measure_runs(args.runs, [SUDOKU, MINI], VARIANTS),
    }
    with torch.inference_mode():
        for part, measure in measured.items():
            for row in measure() if part in (args.part or measured) else ():
                print(json.dumps(dataclasses.asdict(row)) if args.json else told(row), flush=True)


if __name__ == "__main__":
    main()
