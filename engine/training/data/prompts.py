"""Prompts of everyday kinds, filled in at random: what a model answers to them is text to train its draft on."""

from __future__ import annotations

import random

THINGS = """the moon, a volcano, bread, honey, a bicycle, the Roman Empire, photosynthesis, gravity, a black
hole, tea, coffee, chess, jazz, a violin, the heart, sleep, dreams, electricity, a magnet, steel,
glass, paper, the printing press, the steam engine, a computer, the internet, an algorithm, a
database, recursion, a whale, an owl, a bee, ants, a cactus, rain, snow, a rainbow, the wind, the
ocean, a river, a desert, a glacier, an earthquake, inflation, a bank, taxes, insurance, democracy,
a constitution, a court, a school, a library, a museum, an orchestra, ballet, a novel, a poem, a
haiku, a metaphor, grammar, an alphabet, Latin, the Silk Road, the Vikings, ancient Egypt, the
Renaissance, the French Revolution, a castle, a bridge, a lighthouse, a train, an aeroplane, a
submarine, a rocket, the sun, Mars, a comet, a galaxy, an atom, a molecule, water, salt, sugar,
chocolate, cheese, pasta, soup, a tomato, an apple, a vaccine, a virus, bacteria, the brain, memory,
stress, exercise, yoga, football, tennis, swimming, a marathon, a mountain, a forest, a garden,
compost, a greenhouse, solar panels, a battery, a wind turbine, recycling, plastic, climate change,
a hurricane, a fossil, a dinosaur, evolution, DNA, a cell, blood, a muscle, a tooth, an eye, light,
sound, heat, a telescope, a microscope, a clock, a calendar, a map, a compass, money, gold, a
contract, a friendship, kindness, courage, patience, a habit, a promise, a secret, a holiday, a
birthday, a wedding, a market, a shop, a recipe, a kitchen, a hotel, a passport, a ticket, a
suitcase, a password, a robot, a drone, a camera, a film, a song, a guitar, a drum, a painting, a
statue, pottery, knitting, a carpet, a chair, a window, a door, a roof, a candle, a mirror, an
umbrella, a shoe, a hat, a pencil"""
PEOPLE = """Anna, Ben, Carla, David, Elena, Farid, Grace, Henry, Ines, Jamal, Kate, Leo, Maya, Noah, Olga,
Pablo, Rosa, Sam, Tara, Yusuf"""
PLACES = """Paris, Tokyo, Cairo, Lima, Oslo, Rome, Delhi, Sydney, Nairobi, Berlin, Toronto, Lisbon, Athens,
Seoul, Havana, Vienna"""
COUNTRIES = """France, Japan, Egypt, Peru, Norway, Italy, India, Australia, Kenya, Germany, Canada, Portugal,
Greece, Brazil, Spain, Mexico"""
JOBS = """teacher, nurse, farmer, engineer, baker, pilot, lawyer, gardener, plumber, journalist, cook,
carpenter, librarian, doctor"""
ADJECTIVES = """short, funny, sad, simple, clear, friendly, polite, detailed, brief, exciting, quiet, modern, old-
fashioned, cheerful"""
CODE = """reverses a string, adds two numbers, counts the vowels of a text, sorts a list of numbers, finds the
largest number of a list, checks whether a number is prime, computes the factorial of a number,
returns the first n Fibonacci numbers, removes duplicates from a list, merges two dictionaries,
reads a file and counts its lines, checks whether a word is a palindrome, converts Celsius to
Fahrenheit, flattens a nested list, computes the mean of a list, finds the common elements of two
lists, counts the words of a sentence, capitalises each word, computes the greatest common divisor
of two numbers, does a binary search, prints a multiplication table, generates a random password,
parses a date, sums the digits of a number, transposes a matrix, finds the longest word of a text,
rounds a price to two decimals, splits a list into chunks"""
LANGUAGES = "Python, Python, Python, JavaScript, C, Java, SQL, Bash"
SENTENCES = """The meeting was moved from Monday to Thursday because two members of the team are travelling. | I am
writing to ask about the status of my order, which I placed two weeks ago and have not received. |
The river rises in the mountains, runs through three countries and ends in a wide delta. | Our new
bakery opens on Saturday at eight, and the first fifty customers get a free roll. | She has worked
in the hospital for ten years and leads a team of twelve nurses. | The museum is closed on Tuesdays,
but the garden is open every day until sunset. | He forgot his keys, missed the bus and arrived an
hour late. | The results of the test were better than expected, although the sample was small. |
Please turn off the lights and close the windows before you leave the office. | The old bridge was
built in 1875 and is now used only by pedestrians."""
FRAMES = (
    "What is {thing}?",
    "What is {thing}",
    "what is {thing}?",
    "Explain {thing} to a child.",
    "Explain how {thing} works in three sentences.",
    "Tell me about {thing}.",
    "Tell me something interesting about {thing}.",
    "Write a {adjective} poem about {thing}.",
    "Write a {adjective} story about {person} and {thing}.",
    "Write a paragraph about {thing}.",
    "Write an essay about {thing}.",
    "Write a {adjective} letter from a {job} to {person} about {thing}.",
    "Write a {adjective} email to {person} about {thing}.",
    "Write a dialogue between {person} and {other} about {thing}.",
    "Why is {thing} important?",
    "Why do people like {thing}?",
    "Who invented {thing}?",
    "How do I draw {thing}?",
    "How is {thing} made?",
    "How can I learn more about {thing}?",
    "What is the difference between {thing} and {second}?",
    "Compare {thing} and {second}.",
    "What do {thing} and {second} have in common?",
    "List {number} facts about {thing}.",
    "List {number} words that have to do with {thing}.",
    "Give me {number} ideas for a lesson about {thing}.",
    "Give me {number} tips for a {job}.",
    "Give {number} reasons to visit {place}.",
    "What are the advantages and disadvantages of {thing}?",
    "What should I do in {place} in two days?",
    "What is the capital of {country}?",
    "Tell me about the history of {place}.",
    "What food is typical of {country}?",
    "Plan a trip to {place} for a {job}.",
    "Write a {language} function that {code}.",
    "Write a {language} program that {code}.",
    "How do I write code that {code} in {language}?",
    "Explain this in simple words: {sentence}",
    "Summarize this: {sentence}",
    "Rewrite this more politely: {sentence}",
    "Translate into French: {sentence}",
    "Translate into Spanish: {sentence}",
    "Correct the grammar: {sentence}",
    "Make a list of the facts in this text: {sentence}",
    "Repeat this text word for word: {sentence}",
    "Make a table of {number} kinds of {thing} with two columns.",
    "Answer with JSON: a {job} named {person} who lives in {place}.",
    "Make a shopping list for {number} people who like {thing}.",
    "Give me a recipe with {number} ingredients.",
    "Write step-by-step instructions about {thing}.",
    "What is {first} plus {last}?",
    "What is {first} times {last}? Explain.",
    "If {person} has {first} apples and gives {last} to {other}, how many are left?",
    "Who was the most famous {job}?",
    "What does a {job} do all day?",
    "Hello, I am {person}. How are you?",
    "hi",
    "Hello!",
    "Good morning! What can you do?",
    "Can you help me with {thing}?",
    "I am sad today. What can I do?",
    "Tell me a joke about {thing}.",
    "Give me a quote about {thing}.",
    "Write a headline about {thing} in {place}.",
    "Write an advertisement for {thing}.",
    "Write a product description of {thing}.",
    "Describe {thing} without naming it.",
    "Describe {place} in winter.",
    "Continue the story: One morning {person} found {thing} in front of the door.",
    "Is {thing} good for children?",
    "True or false: {thing} is older than {second}. Explain.",
    "Write a quiz with {number} questions about {thing}.",
    "What questions would a {job} ask about {thing}?",
    "Define {thing} in one sentence.",
    "Write {number} sentences that begin with the word {person}.",
)


def draw_prompt(rng: random.Random) -> str:
    """Draws a prompt."""
    thing, second = rng.sample(_split(THINGS), 2)
    person, other = rng.sample(_split(PEOPLE), 2)
    return rng.choice(FRAMES).format(
        thing=thing,
        second=second,
        person=person,
        other=other,
        place=rng.choice(_split(PLACES)),
        country=rng.choice(_split(COUNTRIES)),
        job=rng.choice(_split(JOBS)),
        adjective=rng.choice(_split(ADJECTIVES)),
        language=rng.choice(_split(LANGUAGES)),
        code=rng.choice(_split(CODE)),
        sentence=rng.choice(_split(SENTENCES, "|")),
        number=rng.randint(3, 10),
        first=rng.randint(10, 99),
        last=rng.randint(2, 9),
    )


def _split(text: str, mark: str = ",") -> list[str]:
    return [" ".join(part.split()) for part in text.split(mark)]
