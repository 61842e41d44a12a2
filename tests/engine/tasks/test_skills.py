"""The skills: generators and rules agree, stay within their limits, and keep the two splits apart."""

from __future__ import annotations

import hashlib
import random
from typing import get_args

import pytest

from engine.tasks import skills
from engine.tasks.skills import MAX_ANSWER, MAX_PROMPT, SKILLS, Split, check, is_held_out, sample, solve, suggestions
from engine.tasks.skills.skill import plain
from engine.tasks.skills.small_talk import TALK

LONG = {"count_up", "countdown", "times_table", "small_talk"}
CHARSET = {chr(code) for code in range(32, 127)} | {"\n"}

LITERALS = [
    ("reverse_word", "Reverse the word stone.", "enots"),
    ("reverse_word", "Write drum backwards.", "murd"),
    ("sort_letters", "Sort the letters of stone.", "enost"),
    ("sort_letters", "Letters of banana in order.", "aaabnn"),
    ("sort_numbers", "Sort 17 3 42 9.", "3 9 17 42"),
    ("sort_numbers", "Sort the numbers 100 20 3.", "3 20 100"),
    ("add", "What is 47 + 38?", "85"),
    ("add", "99 + 99 =", "198"),
    ("add", "Add 7 and 8.", "15"),
    ("subtract", "What is 73 - 28?", "45"),
    ("subtract", "Take 28 from 73.", "45"),
    ("subtract", "5 - 5 =", "0"),
    ("count_letters", "How many letters are in stone?", "5"),
    ("count_letters", "Count the letters in elephants.", "9"),
    ("number_to_words", "Write 342 in words.", "three hundred forty-two"),
    ("number_to_words", "Write 0 in words.", "zero"),
    ("number_to_words", "Say 712 in words.", "seven hundred twelve"),
    ("number_to_words", "Write 900 in words.", "nine hundred"),
    ("words_to_number", "Write forty-two in digits.", "42"),
    ("words_to_number", "Say six hundred five in digits.", "605"),
    ("words_to_number", "Write zero in digits.", "0"),
    ("weekday", "What day is 3 days after Monday?", "Thursday"),
    ("weekday", "Eva comes 3 days after Saturday. When?", "Tuesday"),
    ("weekday", "What day is 1 day before Monday?", "Sunday"),
    ("weekday", "Which day is 20 days before Friday?", "Saturday"),
    ("convert", "Convert 7 km to m.", "7000 m"),
    ("convert", "Convert 120 mm to cm.", "12 cm"),
    ("convert", "What is 3 t in kg?", "3000 kg"),
    ("pattern", "Continue 2 4 6 8", "10 12 14"),
    ("pattern", "What comes after 1 10 19 28?", "37 46 55"),
    ("json_list", "As JSON: pear, fig, plum", '["pear", "fig", "plum"]'),
    ("fill_gap", "Fill in: Tom had 3 pens, got 4, now has _.", "Tom had 3 pens, got 4, now has 7."),
    ("fill_gap", "Fill in: Anna had 9 cups, lost 4, now has _.", "Anna had 9 cups, lost 4, now has 5."),
    ("capitals", "Write stone in capitals.", "STONE"),
    ("spell", "Spell stone.", "s-t-o-n-e"),
    ("spell", "Spell the word fig.", "f-i-g"),
    ("repeat", "Write moon 5 times.", "moon moon moon moon moon"),
    ("count_up", "Count from 8 to 12.", "8, 9, 10, 11, 12"),
    ("countdown", "Count down from 11 to 7.", "11, 10, 9, 8, 7"),
    ("times_table", "Times table of 7 up to 3.", "7 x 1 = 7\n7 x 2 = 14\n7 x 3 = 21"),
    ("small_talk", "Thank you", "You are welcome!"),
    ("small_talk", "Who are you?", "I am a tiny block-diffusion language model, trained by the Safelight project."),
]


@pytest.mark.parametrize("name", SKILLS)
@pytest.mark.parametrize("split", ["train", "test"])
def test_generated_answers_are_right_and_within_limits(name: str, split: Split) -> None:
    rng = random.Random(f"{name} {split}")
    for _ in range(300):
        example = sample(rng, split, name)
        assert example.skill == name
        assert solve(example.prompt) == example.answer, example
        assert check(example.prompt, f" {example.answer}\n")
        assert not check(example.prompt, example.answer + "x")
        assert set(example.prompt) | set(example.answer) <= CHARSET
        assert example.answer == example.answer.strip() != ""
        assert len(example.prompt) <= MAX_PROMPT
        assert len(example.answer) <= (MAX_ANSWER if name in LONG else 60), example
        if name != skills.SMALL_TALK:
            assert is_held_out(example.prompt) == (split == "test")


@pytest.mark.parametrize(("name", "prompt", "answer"), LITERALS)
def test_literals(name: str, prompt: str, answer: str) -> None:
    assert solve(prompt) == answer
    parsed = skills.parse(prompt)
    assert (parsed[0] if parsed else skills.SMALL_TALK) == name


def test_every_skill_has_a_literal() -> None:
    assert {name for name, _, _ in LITERALS} == set(SKILLS)
    assert all(name == skill.name and skill.title and skill.weight > 0 for name, skill in SKILLS.items())


def test_a_whole_times_table_has_ten_lines() -> None:
    answer = solve("Times table of 12.")
    assert answer is not None
    assert answer == solve("Times table of 12 up to 10.")
    assert answer.splitlines()[-1] == "12 x 10 = 120"
    assert len(answer.splitlines()) == 10


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "What is the capital of France?",
        "Sort.",
        "What is 3 - 5?",
        "Write 1000 in words.",
        "Write forty forty in digits.",
        "Write moon in digits.",
        "Convert 7 km to g.",
        "Convert 95 mm to cm.",
        "Continue 2 4 6 9",
        "Count from 40 to 3.",
        "Count from 1 to 5000.",
        "Fill in: Tom had 3 pens, lost 4, now has _.",
        "Fill in: Tom had 3 pens, drew 4, now has _.",
    ],
)
def test_other_prompts_have_no_answer(prompt: str) -> None:
    assert solve(prompt) is None
    assert not check(prompt, "")


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("  reverse the word stone ", "enots"),
        ("WHAT IS 47 + 38", "85"),
        ("what day is 3 days after monday", "Thursday"),
        ("Continue 2 4 6 8.", "10 12 14"),
        ("thank you!", "You are welcome!"),
    ],
)
def test_wording_may_be_careless(prompt: str, answer: str) -> None:
    assert solve(prompt) == answer


def test_phrasings_of_one_task_fall_on_one_side() -> None:
    rng = random.Random(5)
    for _ in range(300):
        a, b = rng.randint(0, 99), rng.randint(0, 99)
        sides = {is_held_out(p) for p in (f"What is {a} + {b}?", f"{a} + {b} =", f"add {a} and {b}")}
        assert len(sides) == 1


def test_about_one_task_in_sixteen_is_held_out() -> None:
    rng = random.Random(6)
    for name, skill in SKILLS.items():
        drawn = {skill.generate(rng).prompt for _ in range(3000)}
        share = sum(map(is_held_out, drawn)) / len(drawn)
        if name == skills.SMALL_TALK:
            assert share == 0
        else:
            assert 0.02 < share < 0.12, (name, share)


def test_splits_are_disjoint() -> None:
    sides: dict[Split, set[str]] = {}
    for split in ("train", "test"):
        rng = random.Random(7)
        drawn = [sample(rng, split) for _ in range(3000)]
        assert {example.skill for example in drawn} == set(SKILLS)
        sides[split] = {example.prompt for example in drawn if example.skill != skills.SMALL_TALK}
    assert not sides["train"] & sides["test"]


def test_a_seed_fixes_the_examples() -> None:
    first, again = ([sample(rng, "train") for _ in range(200)] for rng in (random.Random(3), random.Random(3)))
    other = random.Random(4)
    assert first == again != [sample(other, "train") for _ in range(200)]


def test_a_seed_draws_what_it_always_drew() -> None:
    """The embedded models were trained on these tasks: a change here makes their held-out tasks others."""
    drawn = hashlib.sha256()
    for seed in range(500):
        rng = random.Random(seed)
        examples = [sample(rng, split) for split in get_args(Split) for _ in range(4)]
        examples += [skill.generate(rng) for skill in SKILLS.values()]
        drawn.update(repr([(e.skill, e.prompt, e.answer) for e in examples]).encode())
    assert drawn.hexdigest() == "7576e3fc404df0c63b5a9c6d10c009b44fb9f120c205b786bcf78db87bc256ac"


def test_the_split_never_moves() -> None:
    held_out = [word for word in skills.WORDS if is_held_out(f"Spell {word}.")]
    assert held_out[:5] == ["banana", "bank", "cable", "carrot", "coast"]


def test_small_talk_is_unambiguous() -> None:
    phrasings = [phrasing for several, _ in TALK for phrasing in several]
    assert len({plain(phrasing).lower() for phrasing in phrasings}) == len(phrasings)
    assert all(skills.parse(phrasing) is None for phrasing in phrasings)
    assert len({answer for _, answer in TALK}) == len(TALK)
    assert sum(120 <= len(answer) <= 185 for _, answer in TALK) >= 2


def test_words_are_fit_for_the_tasks() -> None:
    assert len(set(skills.WORDS)) == len(skills.WORDS) >= 300
    assert all(word.isalpha() and word.islower() and 3 <= len(word) <= 8 for word in skills.WORDS)


def test_suggestions_can_be_answered_and_were_never_trained_on() -> None:
    chips = skills.examples()
    answers = [solve(chip) for chip in chips]
    assert suggestions() == chips[:8]
    assert {parsed[0] for chip in chips if (parsed := skills.parse(chip))} == set(SKILLS) - {skills.SMALL_TALK}
    assert len(set(chips)) == len(chips)
    assert all(answer is not None for answer in answers)
    assert any(answer is not None and len(answer) > 120 for answer in answers)
    talk = {chip for chip in chips if skills.parse(chip) is None}
    assert talk == {"What can you do?", "What is diffusion?"}
    assert all(is_held_out(chip) for chip in chips if chip not in talk)
