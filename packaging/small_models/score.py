"""Scores a small model on tasks that were held out of training; prints one JSON object.

An answer counts only if every character is right. The same seed gives the same tasks.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from engine import Model, SlotsRead, generate, infill, load_model
from engine.config import IMAGE_TOKENS, USUAL_HOLE
from engine.decoding.reading import read
from engine.events import GenerationFinished
from engine.pictures import Picture
from engine.service.decisions import Deciding
from engine.tasks import sudoku, sudoku_pictures
from engine.tasks.decisions.answers import LabelRead
from engine.tasks.decisions.questions import Decision, Question, YesNo
from engine.tasks.drawings import picture_of
from engine.tasks.skills import check
from engine.text.message import Message, message_of
from engine.text.outline import INSTRUCTION
from engine.text.output_format import OutputFormat
from engine.tools.tool import REFUSED
from small_models import decision_examples as examples
from small_models import drawings, gaps, skills, tool_questions
from small_models.decision_examples import DecisionExample
from small_models.drawing_questions import KINDS
from small_models.reliability import measure
from small_models.sudoku_pictures import answer as row_answer
from small_models.sudoku_pictures import photograph
from small_models.tool_rows import called, declared, read_output

NOW = datetime.datetime(2026, 3, 4, 14, 5, tzinfo=datetime.UTC)
SIDES = (300, 900)  # of photographed Sudokus, in pixels
FORMS: dict[str, tuple[examples.Form, ...]] = {"single": ("brief", "single"), "joint": ("pair", "joint")}

Right = Iterable[tuple[str, bool]]
"""Groups of tasks, and whether an answer was right."""


def score_skills(model: Model, args: argparse.Namespace) -> Right:
    for name in skills.SKILLS:
        rng = random.Random(f"{args.seed} {name}")
        for _ in range(args.count):
            prompt = skills.sample(rng, "test", name).prompt
            is_right = check(prompt, answer(model, [{"role": "user", "content": prompt}], args.seed))
            yield from ((group, is_right) for group in ("all", name))


def score_drawings(model: Model, args: argparse.Namespace) -> Right:
    for kind in KINDS:
        rng = random.Random(f"{args.seed} {kind}")
        for _ in range(args.count):
            proportion = drawings.random_proportion(rng) if args.proportions else 1.0
            example = drawings.sample(rng, "test", 1, kind, proportion)
            question = example.asked[0][0]
            said = answer_about(model, picture_of(example.scene), question, args)
            is_right = drawings.check(example.scene, question, said)
            yield from ((group, is_right) for group in ("all", kind))


def score_sudoku_pictures(model: Model, args: argparse.Namespace) -> Right:
    rng = random.Random(f"{args.seed} sudoku pictures")
    args.image_tokens = sudoku_pictures.IMAGE_TOKENS
    for _ in range(args.count):
        board = sudoku.generate(rng, 24, 50, held_out=True).board
        picture, grid = photograph(rng, board, rng.randint(*SIDES)).picture(), list[bool]()
        for row, question in enumerate(sudoku_pictures.ROW_QUESTIONS):
            wanted = row_answer(board, row)
            found = answer_about(model, picture, question, args).strip()
            cells = [len(found) == 9 and one == other for one, other in zip(wanted, found.ljust(9), strict=False)]
            yield from (("cells", is_right) for is_right in cells)
            yield "rows", all(cells)
            grid += cells
        yield "grids", all(grid)


def score_gaps(model: Model, args: argparse.Namespace) -> Right:
    """Each text twice: with the number of the gap's tokens given, and with a hole of the usual length."""
    rng = random.Random(args.seed)
    for seed in range(args.count):
        gap = gaps.sample(rng, "test")
        for form, length in (("told", len(gap.answer)), ("unknown", None)):
            found = infill(
                model,
                gap.prefix,
                gap.suffix,
                length=length,
                max_tokens=USUAL_HOLE,
                instruction=INSTRUCTION,
                seed=seed,
                config=model.generation_defaults,
            )
            is_right = bool(found) and found.text == gap.answer
            yield from ((f"{form}, {group}", is_right) for group in ("all", gap.kind))


def score_tools(model: Model, args: argparse.Namespace) -> Right:
    """Each question goes through the chat template; the real tool runs, and its result goes back."""
    rng = random.Random(args.seed)
    for seed in range(args.count):
        asked = tool_questions.sample(rng, "test", NOW)
        tools, messages = declared(asked.offered), list[Message]([{"role": "user", "content": asked.question}])
        functions = tuple(tool["function"] for tool in tools)
        held = OutputFormat("text_or_calls", tools=functions) if tools else None
        text, calls = read_output(answer(model, messages, seed, held, tools))
        is_called = calls == ([(asked.tool, dict(asked.arguments))] if asked.tool else [])
        if is_called and asked.tool:
            result = asked.result
            if result != REFUSED:
                result = tool_questions.result_of(asked.tool, asked.arguments, NOW)
            messages += called(replace(asked, result=result))
            text, calls = read_output(answer(model, messages, seed, held, tools))
        is_answered = is_called and text == asked.answer and not (asked.tool and calls)
        for group in ("all", asked.kind):
            yield f"{group}, call", is_called
            yield f"{group}, answer", is_answered


def score_decisions(model: Model, args: argparse.Namespace) -> dict[str, Any]:
    return trusted(model, args, texts)


def score_drawing_decisions(model: Model, args: argparse.Namespace) -> dict[str, Any]:
    return trusted(model, args, scenes)


Asked = Iterator[tuple[DecisionExample, tuple[Picture, ...]]]


def texts(rng: random.Random, mode: str) -> Asked:
    """Yields decisions about texts without end."""
    for form in itertools.cycle(FORMS[mode]):
        yield examples.sample(rng, "test", form), ()


def scenes(rng: random.Random, mode: str) -> Asked:
    """Yields decisions about drawings without end: single ones of each kind in turn, joint ones of two questions."""
    for kind in itertools.cycle(drawings.DECIDED_KINDS):
        is_joint = mode == "joint"
        drawn = drawings.sample_decision(rng, "test", 2 if is_joint else 1, None if is_joint else kind)
        asked = drawn.asked
        example = DecisionExample(
            Decision("", tuple(one.question for one in asked), is_joint=is_joint),
            tuple(one.answer for one in asked),
            tuple(one.family for one in asked),
            (True,) * len(asked),
        )
        yield example, (picture_of(drawn.scene),)


def trusted(model: Model, args: argparse.Namespace, source: Callable[[random.Random, str], Asked]) -> dict[str, Any]:
    """Asks singly and jointly; returns the shares of right answers, and how far to trust their probabilities."""
    found = dict[str, Any]()
    for mode in FORMS:
        judged, reads, rights = list[tuple[str, bool]](), list[LabelRead](), list[int]()
        for family, question, label, right in decided(model, source(random.Random(f"{args.seed} {mode}"), mode), args):
            is_right = label.logprobs.index(max(label.logprobs)) == right
            judged += [(group, is_right) for group in ("all", family, kind_of(question))]
            reads.append(label)
            rights.append(right)
        trust = measure([label.probabilities() for label in reads], rights)
        mass = sum(label.label_mass for label in reads) / len(reads)
        found[mode] = shares(judged) | {"label mass": mass, "Brier": trust.brier, "ECE": trust.ece}
    return found


def decided(model: Model, asked: Asked, args: argparse.Namespace) -> Iterator[tuple[str, Question, LabelRead, int]]:
    """Yields family, question, read and right option of at least ``--count`` answers to held-out questions."""
    deciding = Deciding.from_tokenizer(model.tokenizer.encode, model.generation_defaults, model.config.canvas_length)
    budget, cache, answered = model.generation_defaults.image_tokens, model.new_cache(), 0
    for example, pictures in asked:
        if answered >= args.count:
            return
        messages = deciding.messages(example.decision, pictures)
        prompt = model.with_images(model.chat_ids(messages, image_tokens=budget), messages, pictures, budget)
        events = read(model, prompt, deciding.layout(example.decision), seed=answered, cache=cache)
        (slots,) = [event for event in events if isinstance(event, SlotsRead)]
        for place, question in enumerate(example.decision.questions):
            if example.held_out[place]:
                label = LabelRead(tuple(slots.logprobs[place].tolist()), slots.argmax_is_label[place])
                yield example.families[place], question, label, example.answers[place]
                answered += 1


def kind_of(question: Question) -> str:
    return "yes or no" if isinstance(question, YesNo) else type(question).__name__


def answer(
    model: Model,
    messages: list[Message],
    seed: int,
    held: OutputFormat | None = None,
    tools: list[dict[str, Any]] | None = None,
) -> str:
    """Returns the model's answer; with tools, also its marks."""
    events = list(generate(model, model.chat_ids(messages, tools), model.generation_defaults, seed, output_format=held))
    return written(model, events, skip_special=tools is None)


def answer_about(model: Model, picture: Picture, question: str, args: argparse.Namespace) -> str:
    messages, config = [message_of(question, [picture])], model.generation_defaults
    if args.image_tokens:
        config = config.replace(image_tokens=args.image_tokens)
    ids = model.chat_ids(messages, image_tokens=config.image_tokens)
    prompt = model.with_images(ids, messages, [picture], config.image_tokens)
    return written(model, list(generate(model, prompt, config, args.seed)))


def written(model: Model, events: list[Any], skip_special: bool = True) -> str:
    assert isinstance(events[-1], GenerationFinished)
    return model.tokenizer.decode(events[-1].tokens.tolist(), skip_special=skip_special)


def score_mini(model: Model, args: argparse.Namespace) -> dict[str, Any]:
    """Everything that Safelight Mini was taught; ``count`` tasks of each trade."""
    each = argparse.Namespace(**{**vars(args), "count": args.count // len(skills.SKILLS)})
    trades = {"skills": score_skills(model, each), "tools": score_tools(model, args)}
    return {name: shares(found) for name, found in trades.items()} | {"decisions": score_decisions(model, args)}


def shares(found: Right) -> dict[str, dict[str, float]]:
    groups = defaultdict[str, list[bool]](list)
    for group, is_right in found:
        groups[group].append(is_right)
    return {name: {"count": len(own), "right": round(sum(own) / len(own), 4)} for name, own in groups.items()}


SCORES: dict[str, tuple[Callable[[Model, argparse.Namespace], Any], str]] = {
    "mini": (score_mini, "safelight-mini"),
    "skills": (score_skills, "safelight-mini"),
    "gaps": (score_gaps, "safelight-gaps"),
    "tools": (score_tools, "safelight-mini"),
    "decisions": (score_decisions, "safelight-mini"),
    "drawings": (score_drawings, "safelight-sight"),
    "drawing-decisions": (score_drawing_decisions, "safelight-sight"),
    "sudoku-pictures": (score_sudoku_pictures, "safelight-sight"),
}
"""What is asked, and the model that was made for it."""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=SCORES)
    parser.add_argument("--model", help="a folder, or an installed model (default: the one that was made for it)")
    parser.add_argument("--count", type=int, default=50, help="tasks, of each kind where there are several")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="print the skills' prompts, one a line, and ask nobody")
    parser.add_argument("--proportions", action="store_true", help="drawings from 1 : 3 to 3 : 1 instead of squares")
    parser.add_argument("--image-tokens", type=int, choices=IMAGE_TOKENS, help="the most tokens of a drawing")


def run(args: argparse.Namespace) -> None:
    if args.list:
        for name in skills.SKILLS:
            rng = random.Random(f"{args.seed} {name}")
            print("\n".join(skills.sample(rng, "test", name).prompt for _ in range(args.count)))
        return
    score, usual = SCORES[args.what]
    found = score(load_model(args.model or usual, device="cpu"), args)
    print(json.dumps(found if isinstance(found, dict) else shares(found), indent=1))
