"""How often decisions are right, how far to trust them, how many a second: ``python -m tests.bench.decision_quality``.

Asked of a model are held-out examples of what it is taught, singly and jointly. Of the speed the fastest of some rounds
counts; it depends on the machine, which is named. Over HTTP ``tests.bench.decisions`` measures it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import queue
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine import DECIDER
from engine.service import (
    DecisionReads,
    LoadedModel,
    LoadRequest,
    LocalBackend,
    ModelLoaded,
    RunEnded,
    RunRequest,
    Scheduler,
    ServiceReply,
    decision_requests,
    run_alone,
)
from engine.tasks.decisions import examples as teaching
from engine.tasks.decisions.reliability import measure as measured

FORMS: tuple[teaching.Form, ...] = ("single", "joint")
ROUNDS = 3


class Ends:
    """An ``Outlet`` that keeps the ends of runs alone."""

    is_full = False

    def __init__(self) -> None:
        self.arrived: queue.SimpleQueue[RunEnded] = queue.SimpleQueue()

    def put(self, reply: ServiceReply) -> None:
        if isinstance(reply, RunEnded):
            self.arrived.put(reply)


@dataclass(frozen=True)
class Row:
    """So many answers a second."""

    how: str
    form: teaching.Form
    answers_per_second: float
    runs_per_second: float


def drawn(form: teaching.Form, count: int, seed: int) -> list[teaching.DecisionExample]:
    """Held-out examples, no state twice."""
    rng, found = random.Random(f"{seed} {form}"), {}
    while len(found) < count:
        example = teaching.sample(rng, "test", form)
        found.setdefault(example.decision.state, example)
    return list(found.values())


def requests_of(model: LoadedModel, examples: Sequence[teaching.DecisionExample]) -> list[RunRequest]:
    return [
        request
        for one in (example.decision for example in examples)
        for request in decision_requests(model, one.state, one.questions, is_joint=one.is_joint)
    ]


def fastest(work: Callable[[], None]) -> float:
    """Seconds of the fastest round."""
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def directly(backend: LocalBackend, model: LoadedModel, examples: Sequence[teaching.DecisionExample]) -> None:
    """One run after the other, in this thread."""
    for request in requests_of(model, examples):
        for reply in run_alone(backend, request):
            assert not (isinstance(reply, RunEnded) and reply.message), reply


def scheduled(scheduler: Scheduler, model: LoadedModel, examples: Sequence[teaching.DecisionExample]) -> None:
    """All runs at once, as many at a time as the backend takes."""
    ends, requests = Ends(), requests_of(model, examples)
    for request in requests:
        scheduler.run(request, ends)
    for _ in requests:
        end = ends.arrived.get()
        assert not end.message, end


def quality(
    backend: LocalBackend, model: LoadedModel, examples: Sequence[teaching.DecisionExample]
) -> dict[str, float]:
    """Accuracy, and how good the probabilities are."""
    shares, right, mass = [], [], []
    for example in examples:
        [request] = requests_of(model, [example])
        reads = DecisionReads(example.decision)
        for reply in run_alone(backend, request):
            reads.add(reply)
        for slot, answer, is_held_out in zip(reads.label_reads(), example.answers, example.held_out, strict=True):
            if is_held_out:
                shares.append(slot[0].probabilities())
                right.append(answer)
                mass.append(slot[0].label_mass)
    found = measured(shares, right)
    return {
        "answers": found.examples,
        "accuracy": found.accuracy,
        "ece": found.ece,
        "brier": found.brier,
        "label_mass": sum(mass) / len(mass),
    }


def loaded(backend: LocalBackend, path: str) -> LoadedModel:
    found: list[LoadedModel] = []

    def report(reply: object) -> None:
        if isinstance(reply, ModelLoaded):
            found.append(reply.model)

    backend.load(LoadRequest(path, path), report)
    return found[0]


def measure(path: str, count: int, seed: int) -> dict[str, Any]:
    backend = LocalBackend()
    model = loaded(backend, path)
    examples = {form: drawn(form, count, seed) for form in FORMS}
    found = {form: quality(backend, model, drawn(form, 2 * count, seed + 1)) for form in FORMS}
    rows = []

    def note(how: str, form: teaching.Form, seconds: float) -> None:
        answers = sum(len(example.decision.questions) for example in examples[form])
        rows.append(Row(how, form, answers / seconds, count / seconds))

    for form in FORMS:
        directly(backend, model, examples[form][:20])
        note("directly", form, fastest(lambda form=form: directly(backend, model, examples[form])))
    scheduler = Scheduler(backend)
    for form in FORMS:
        note("scheduler", form, fastest(lambda form=form: scheduled(scheduler, model, examples[form])))
    scheduler.close()
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "model": model.name,
        "examples": count,
        "seed": seed,
        "speed": [vars(row) for row in rows],
        "quality": found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=DECIDER, help="a folder or an embedded model")
    parser.add_argument("--count", type=int, default=400, help="examples of each form")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args()
    told = measure(options.model, options.count, options.seed)
    if options.json:
        print(json.dumps(told))
        return
    print(f"{told['model']} on {told['machine']}; {told['examples']} examples of each form, seed {told['seed']}\n")
    print(f"{'':<20}{'':<8}{'answers/s':>12}{'runs/s':>12}")
    for row in told["speed"]:
        print(f"{row['how']:<20}{row['form']:<8}{row['answers_per_second']:>12.1f}{row['runs_per_second']:>12.1f}")
    print(f"\n{'held out':<20}" + "".join(f"{form:>12}" for form in FORMS))
    for name in told["quality"][FORMS[0]]:
        print(f"{name:<20}" + "".join(f"{told['quality'][form][name]:>12.4g}" for form in FORMS))


if __name__ == "__main__":
    main()
