"""Small talk and simple questions in English, drawn from a random stream, for Talk to answer. Made here."""

from __future__ import annotations

import random

from engine.tasks.skills.vocabulary import PEOPLE, WORDS
from engine.tools.example_tools import TABLE

GREETINGS = (
    "Hello!", "Hi, how are you?", "Good morning!", "Hey there, what can you do?", "Good evening. Can you help me?",
    "I am bored. What should I do?", "I feel sad today.", "Thank you very much!", "Tell me a joke.", "Who are you?",
    "I cannot sleep. Do you have any advice?", "What should I eat for dinner?", "Recommend me a hobby.",
    "How can I learn to draw?", "How do I make friends?", "What is a good way to start the day?",
)  # fmt: skip
ABOUT_WORDS = (
    "What is a {word}?", "Tell me about the {word}.", "Describe a {word} in two sentences.",
    "Why do people like {word}?",
    "Write a short poem about a {word}.", "Write one sentence with the word {word}.", "What can I do with a {word}?",
    "Explain to a child what a {word} is.", "Tell me a short story about a {word} and a {other}.",
    "What is the difference between a {word} and a {other}?", "Where would I find a {word}?",
    "Give me three words that go with {word}.", "Is a {word} larger than a {other}?",
)  # fmt: skip
ABOUT_COUNTRIES = (
    "What is the capital of {country}?", "Tell me something about {country}.", "Where is {country}?",
    "What should I see in {country}?", "What do people eat in {country}?", "Which language is spoken in {country}?",
)  # fmt: skip
ABOUT_PEOPLE = (
    "My name is {name}. Nice to meet you!", "Write a birthday wish for {name}.", "{name} is late. What could I say?",
    "Write a short letter from {name} to {friend}.", "Invite {name} to dinner.",
    "What could I give {name} as a present?",
)  # fmt: skip
EVERYDAY = (
    "Why is the sky blue?", "Why do leaves fall in autumn?", "How does a bicycle work?", "What causes rain?",
    "How do birds fly?", "Why is the sea salty?", "What is gravity?", "How do plants grow?", "What is a computer?",
    "Why do we sleep?", "How is bread made?", "What is music?", "How do magnets work?", "Why is exercise healthy?",
    "What is the internet?", "How does a clock work?", "What is a language?", "Why do we dream?",
)  # fmt: skip


def question(rng: random.Random) -> str:
    """Draws a question."""
    kind = rng.choices((GREETINGS, ABOUT_WORDS, ABOUT_COUNTRIES, ABOUT_PEOPLE, EVERYDAY), (1, 8, 3, 2, 2))[0]
    (word, other), (name, friend) = rng.sample(WORDS, 2), rng.sample(PEOPLE, 2)
    country = rng.choice(list(TABLE))
    return rng.choice(kind).format(word=word, other=other, country=country, name=name, friend=friend)
