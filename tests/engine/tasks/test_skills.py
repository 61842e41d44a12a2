"""The rules of the skills: they answer what they were written for, and nothing else."""

from __future__ import annotations

import pytest

from engine import BASE, MINI, CanvasCommitted, generate, load_model, read_reply
from engine.tasks import skills
from engine.tasks.skills import RULES, check, solve, suggestions
from engine.tasks.skills.skill import plain
from engine.tasks.skills.small_talk import TALK
from engine.tasks.skills.vocabulary import WORDS

LITERALS = [
    ("reverse_word", "Reverse the word stone.", "enots"),
    ("sort_letters", "Sort the letters of stone.", "enost"),
    ("sort_letters", "Letters of banana in order.", "aaabnn"),
    ("sort_numbers", "Sort 17 3 42 9.", "3 9 17 42"),
    ("add", "What is 47 + 38?", "85"),
    ("subtract", "What is 73 - 28?", "45"),
    ("subtract", "Take 28 from 73.", "45"),
    ("count_letters", "Count the letters in elephants.", "9"),
    ("number_to_words", "Write 342 in words.", "three hundred forty-two"),
    ("number_to_words", "Write 0 in words.", "zero"),
    ("words_to_number", "Write forty-two in digits.", "42"),
    ("words_to_number", "Say six hundred five in digits.", "605"),
    ("weekday", "What day is 3 days after Monday?", "Thursday"),
    ("weekday", "Eva comes 3 days after Saturday. When?", "Tuesday"),
    ("convert", "Convert 7 km to m.", "7000 m"),
    ("convert", "Convert 120 mm to cm.", "12 cm"),
    ("pattern", "Continue 2 4 6 8", "10 12 14"),
    ("pattern", "What comes after 1 10 19 28?", "37 46 55"),
    ("json_list", "As JSON: pear, fig, plum", '["pear", "fig", "plum"]'),
    ("fill_gap", "Fill in: Tom had 3 pens, got 4, now has _.", "Tom had 3 pens, got 4, now has 7."),
    ("fill_gap", "Fill in: Anna had 9 cups, lost 4, now has _.", "Anna had 9 cups, lost 4, now has 5."),
    ("capitals", "Write stone in capitals.", "STONE"),
    ("spell", "Spell stone.", "s-t-o-n-e"),
    ("repeat", "Write moon 5 times.", "moon moon moon moon moon"),
    ("count_up", "Count from 8 to 12.", "8, 9, 10, 11, 12"),
    ("countdown", "Count down from 11 to 7.", "11, 10, 9, 8, 7"),
    ("times_table", "Times table of 7 up to 3.", "7 x 1 = 7\n7 x 2 = 14\n7 x 3 = 21"),
    ("small_talk", "Thank you", "You are welcome!"),
    ("small_talk", "Who are you?", "I am a tiny block-diffusion language model, trained by the Safelight project."),
]


@pytest.mark.parametrize(("name", "prompt", "answer"), LITERALS)
def test_literals(name: str, prompt: str, answer: str) -> None:
    assert solve(prompt) == answer
    parsed = skills.parse(prompt)
    assert (parsed[0] if parsed else "small_talk") == name


def test_every_skill_has_a_literal() -> None:
    assert {name for name, _, _ in LITERALS} == {*RULES, "small_talk"}


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
        ("Times table of 12.", "\n".join(f"12 x {number} = {12 * number}" for number in range(1, 11))),
    ],
)
def test_wording_may_be_careless(prompt: str, answer: str) -> None:
    assert solve(prompt) == answer


def test_small_talk_is_unambiguous() -> None:
    phrasings = [phrasing for several, _ in TALK for phrasing in several]
    assert len({plain(phrasing).lower() for phrasing in phrasings}) == len(phrasings)
    assert all(skills.parse(phrasing) is None for phrasing in phrasings)
    assert len({answer for _, answer in TALK}) == len(TALK)
    assert sum(120 <= len(answer) <= 185 for _, answer in TALK) >= 2


def test_words_are_fit_for_the_tasks() -> None:
    assert len(set(WORDS)) == len(WORDS) >= 300
    assert all(word.isalpha() and word.islower() and 3 <= len(word) <= 8 for word in WORDS)


def test_suggestions_can_be_answered() -> None:
    chips = skills.examples()
    answers = [solve(chip) for chip in chips]
    assert suggestions() == chips[:8]
    assert {parsed[0] for chip in chips if (parsed := skills.parse(chip))} == set(RULES)
    assert len(set(chips)) == len(chips)
    assert all(answer is not None for answer in answers)
    assert any(answer is not None and len(answer) > 120 for answer in answers)
    talk = {chip for chip in chips if skills.parse(chip) is None}
    assert talk == {"What can you do?", "What is diffusion?"}


@pytest.mark.parametrize("name", [MINI, BASE])
def test_suggestions_are_answered_right_and_the_most_is_to_be_seen_of_the_first(name: str) -> None:
    model = load_model(name, device="cpu")
    seen = []
    for prompt in skills.suggestions():
        ids = model.chat_ids([{"role": "user", "content": prompt}])
        events = generate(model, ids, model.generation_defaults, seed=1)
        blocks = [event for event in events if isinstance(event, CanvasCommitted)]
        tokens = [int(token) for block in blocks for token in block.tokens[: block.text_length]]
        text = read_reply(model.tokenizer, tokens).text
        assert skills.check(prompt, text), prompt
        assert all(block.reason == "converged" for block in blocks)
        seen.append((sum(block.steps for block in blocks) + text.count("\n"), len(text)))
    if name == MINI:  # which is loaded at a first start
        assert seen == sorted(seen, reverse=True)
        assert seen[0][0] > 10
        assert seen[4][0] > 2
