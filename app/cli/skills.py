"""``safelight skills``: measures the share of exactly right answers on tasks held out of training. Knows no torch."""

from __future__ import annotations

import argparse
import random

from app.cli import options, running, skills_decisions, skills_drawings, skills_sudoku, terminal
from app.cli.skill_score import SkillScore, show
from engine import DECIDER, SIGHT, SKILLS, SafelightError
from engine.tasks import skills

EPILOG = """\
The same seed gives the same tasks. An answer counts only if every character is right. Small talk has fixed
answers and is not held out.

examples:
  safelight skills --count 20
  safelight skills --json > skills.json
  safelight skills --decisions --count 400
  safelight skills --drawings --count 100
  safelight skills --drawings --proportions
  safelight skills --sudoku-pictures --count 20
  safelight skills --drawings --decisions --count 400
"""


def add(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "skills",
        help="score the small text tasks",
        description="Score a model on small text tasks that were held out of training.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "--count",
        type=options.number("the count", 1, 100_000),
        default=50,
        metavar="N",
        help="tasks of each skill (default: 50)",
    )
    parser.add_argument(
        "--only", action="append", choices=list(skills.SKILLS), metavar="SKILL", help="this skill only; may be repeated"
    )
    parser.add_argument(
        "--decisions",
        action="store_true",
        help=f"score small decisions instead, N single and N joint (default model: {DECIDER}); "
        "with --drawings, those about drawings",
    )
    parser.add_argument(
        "--drawings",
        action="store_true",
        help=f"score questions about drawings instead, N of each kind (default model: {SIGHT})",
    )
    parser.add_argument(
        "--proportions",
        action="store_true",
        help="with --drawings: proportions from 1 : 3 to 3 : 1 instead of squares",
    )
    parser.add_argument(
        "--sudoku-pictures",
        action="store_true",
        help=f"score how well N photographed Sudokus are read instead (default model: {SIGHT})",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    options.add_model(parser, SKILLS)
    options.add_decoding(parser)
    options.add_sampler(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.proportions and (args.decisions or not args.drawings):
        raise SafelightError("--proportions needs --drawings without --decisions")
    if args.sudoku_pictures:
        if args.only or args.drawings or args.decisions:
            raise SafelightError("--sudoku-pictures cannot be combined; leave out --only, --drawings and --decisions")
        return skills_sudoku.run(args)
    if args.decisions:
        if args.only or options.sampler_changes(args):
            raise SafelightError("a decision is read in one step; leave out --only and the sampler's options")
        return skills_decisions.run(args)
    if args.drawings:
        if args.only:
            raise SafelightError("--only is for the text skills; leave it out")
        return skills_drawings.run(args)
    changes = options.sampler_changes(args)
    model = running.load(args, SKILLS)
    config = options.settings(model.generation_defaults, changes)
    seed = running.seed(args)
    names = [name for name in skills.SKILLS if not args.only or name in args.only]
    scores: dict[str, SkillScore] = {}
    stopped = False
    with terminal.progress("Skills") as show_progress:
        for place, name in enumerate(names):
            score = scores[name] = SkillScore()
            rng = random.Random(f"{seed} {name}")
            while score.count < args.count and not stopped:
                done = (place + score.count / args.count) / len(names)
                show_progress(done, f"{skills.SKILLS[name].title} ({place + 1} of {len(names)})")
                example = skills.sample(rng, "test", name)
                ids = model.chat_ids([{"role": "user", "content": example.prompt}])
                outcome = running.run(model, ids, config, seed)
                stopped = outcome.stopped
                if not stopped:
                    score.add(skills.check(example.prompt, outcome.text), outcome)
            if stopped:
                break
    titles = {name: skill.title for name, skill in skills.SKILLS.items()}
    show(args, "skills", titles, scores, running.model_names(model))
    if stopped:
        terminal.say("stopped; the table holds what was run")
        return 130
    return 0
