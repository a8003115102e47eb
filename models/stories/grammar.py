"""Stories by a grammar: who they are about, what is lost, wished for or feared, who helps, what
comes of it. The same seed gives the same stories.

    python models/stories/grammar.py [COUNT] [SEED]
"""

import random
import sys

CHILDREN = [(name, "girl") for name in ("Mia", "Anna", "Lena", "Ruth", "Zoe", "Nora", "Ida")] + [
    (name, "boy") for name in ("Tom", "Ben", "Max", "Paul", "Leo", "Finn", "Sam")
]
ANIMALS = [
    ("fox", "in a den under an old oak"),
    ("mouse", "behind the wall of a mill"),
    ("bear", "in a cave on the hill"),
    ("frog", "at the edge of a pond"),
    ("hare", "in the long grass"),
    ("owl", "in the tower of a church"),
    ("duck", "on an island in the river"),
    ("cat", "in the house of a baker"),
    ("dog", "on a farm near the sea"),
    ("hedgehog", "under a heap of leaves"),
]
HOMES = [
    "in a village by the sea",
    "in a house at the end of the road",
    "on a farm with seven cows",
    "in a town with a tall tower",
    "near a dark forest",
    "in a small house on a hill",
]
TEMPERS = ["kind", "curious", "shy", "brave", "merry", "clever", "quiet", "stubborn", "careful"]
SIZES = ["small", "big", "young", "old", "thin", "round"]
THINGS = [
    ("ball", "red"),
    ("kite", "blue"),
    ("boat", "wooden"),
    ("lamp", "yellow"),
    ("key", "golden"),
    ("bell", "silver"),
    ("hat", "green"),
    ("drum", "round"),
    ("spoon", "shiny"),
    ("book", "heavy"),
    ("button", "tiny"),
    ("scarf", "warm"),
]
PLACES = [
    ("forest", "in the forest", "Between the trees it was dark and cool."),
    ("river", "at the river", "The water ran fast and sang a song."),
    ("market", "at the market", "It smelled of bread and apples."),
    ("meadow", "on the meadow", "Bees flew from flower to flower."),
    ("mill", "at the old mill", "The great wheel turned and turned."),
    ("beach", "on the beach", "The waves came and went."),
    ("garden", "in the garden", "The roses were as tall as a man."),
    ("bridge", "at the stone bridge", "Under it the fish slept."),
]
HIDEOUTS = ["under a stone", "behind a bush", "in a hollow tree", "in the mud", "in a nest", "under a bench"]
FOODS = ["an apple", "some bread", "a warm soup", "a piece of cake", "a pear", "a pot of honey"]
WEATHERS = [
    "The sun was shining.",
    "It was raining.",
    "The wind was blowing.",
    "Snow lay on the roofs.",
    "There was not a cloud in the sky.",
    "Fog hung over the fields.",
]
FEARS = ["the dark", "the thunder", "deep water", "high places", "loud noises", "being alone"]
SKILLS = ["swim", "sing", "whistle", "climb trees", "bake bread", "dance", "fly a kite", "count to ten"]
MORALS = [
    "Whoever asks for help will find it.",
    "A friend is worth more than gold.",
    "Whoever shares has more.",
    "One step after the other leads to the goal.",
    "It is good to tell the truth.",
    "Small ones can do great things.",
    "Whoever waits sees more.",
]


class Teller:
    """Chooses, and tells one story with what it has chosen."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, things):
        return self.random.choice(things)

    def hero(self):
        if self.random.random() < 0.5:
            name, kind = self.one(CHILDREN)
            they, them, their = ("she", "her", "her") if kind == "girl" else ("he", "him", "his")
            home = self.one(HOMES)
        else:
            kind, home = self.one(ANIMALS)
            name = self.one(["Pip", "Momo", "Tilly", "Bruno", "Lulu", "Oskar", "Wanda", "Kiki"])
            they, them, their = "it", "it", "its"
        return dict(name=name, kind=kind, home=home, they=they, them=them, their=their)

    def story(self):
        hero = self.hero()
        temper, size = self.one(TEMPERS), self.one(SIZES)
        helper, _ = self.one([animal for animal in ANIMALS if animal[0] != hero["kind"]])
        place, where, scene = self.one(PLACES)
        thing, colour = self.one(THINGS)
        words = hero | dict(
            temper=temper,
            size=size,
            helper=helper,
            helper_temper=self.one([other for other in TEMPERS if other != temper]),
            place=place,
            where=where,
            scene=scene,
            thing=thing,
            colour=colour,
            hideout=self.one(HIDEOUTS),
            food=self.one(FOODS),
            weather=self.one(WEATHERS),
            fear=self.one(FEARS),
            skill=self.one(SKILLS),
            moral=self.one(MORALS),
        )
        words["They"] = words["they"].capitalize()
        parts = [self.one(OPENINGS), self.one(HABITS), self.one(BEGINNINGS)]
        plot = self.one(PLOTS)
        parts += [self.one(choices) for choices in plot]
        parts.append(self.one(ENDINGS))
        if self.random.random() < 0.5:
            parts.append("{moral}")
        text = " ".join(parts).format(**words)
        for sound in "aeio":
            text = text.replace(f" a {sound}", f" an {sound}")
        return text


OPENINGS = [
    "Once upon a time there was a {size} {kind} named {name}. {They} lived {home}.",
    "Once upon a time, {home}, there lived a {temper} {kind}. The name of the {kind} was {name}.",
    "There was once a {kind} whose name was {name}. {They} lived {home} and was very {temper}.",
    "Long ago a {temper} {kind} lived {home}. {name} was {their} name.",
]
HABITS = [
    "Every day {name} went to the {place}.",
    "{name} loved {food} more than anything.",
    "Everyone liked {name}, because {they} was so {temper}.",
    "In the evening {name} looked at the stars.",
    "{name} had a {colour} {thing} and took it everywhere.",
]
BEGINNINGS = [
    "One morning {name} woke up early. {weather}",
    "One day {name} went to the {place}. {weather}",
    "Then came a day that was not like the others. {weather}",
    "On a Sunday {name} wanted to play {where}. {weather}",
]
LOST = [
    [
        "But {their} {colour} {thing} was gone!",
        "There {name} saw that {their} {colour} {thing} was missing.",
        "On the way {they} lost {their} {colour} {thing}.",
    ],
    [
        '"Where is my {thing}?" cried {name}. {They} looked everywhere, but {they} did not find it.',
        "{name} looked here and there. The {thing} was nowhere.",
        "{name} was sad and began to cry.",
    ],
    [
        'Then a {helper_temper} {helper} came along. "Why are you sad?" asked the {helper}. "I have lost my {thing}," said {name}.',
        '{name} met a {helper}. "Have you seen my {colour} {thing}?" {they} asked. "No," said the {helper}, "but I will help you."',
    ],
    [
        "Together they went to the {place}. {scene} And there it was: the {thing} lay {hideout}!",
        'They looked for a long time {where}. {scene} "Here it is!" said the {helper}. The {thing} lay {hideout}.',
        "The {helper} had good eyes. It found the {thing} {hideout} {where}.",
    ],
    [
        '"Thank you!" said {name} and gave the {helper} {food}.',
        "{name} was so happy that {they} danced with the {helper}.",
        '"You are a good friend," said {name}.',
    ],
]
FEAR = [
    [
        "But {name} was afraid of {fear}.",
        "There was one thing that nobody knew: {name} was afraid of {fear}.",
    ],
    [
        '"What is the matter?" asked a {helper_temper} {helper}. "I am afraid of {fear}," said {name} quietly.',
        'A {helper} saw {name} sitting {where}. "You look sad," it said. "I am afraid," said {name}.',
    ],
    [
        '"I was afraid of {fear}, too," said the {helper}. "Come, I will stay with you."',
        'The {helper} did not laugh. "Take my paw," it said, "and we will go together."',
    ],
    [
        "So they went to the {place}. {scene} {name} took one step, and then one more.",
        "{name} closed {their} eyes and counted to three. Then {they} went on. {scene}",
    ],
    [
        '"Look!" said the {helper}. "You did it!" And {name} was not afraid of {fear} any more.',
        "After a while {name} laughed. It was not bad at all.",
    ],
]
LEARN = [
    [
        "{name} wanted to learn to {skill}.",
        'A {helper} came by that could {skill}. "I want to do that, too!" said {name}.',
    ],
    [
        "{They} tried it once, and {they} tried it twice. It did not work.",
        '"I will never learn it," said {name} and sat down.',
    ],
    [
        'A {helper_temper} {helper} had seen it all. "Not so fast," said the {helper}. "I will show you how."',
        '"Do you want to learn to {skill}?" asked the {helper}. "Then come to the {place} every day."',
    ],
    [
        "So {name} went to the {place} day after day. {scene}",
        "They met {where} every morning, even when it rained. {scene}",
    ],
    [
        "And one day it worked: {name} could {skill}! The {helper} clapped.",
        '"I can {skill}!" cried {name}. The {helper} was proud of {them}.',
    ],
]
SHARE = [
    [
        "{name} found {food} {where}.",
        "An old woman gave {name} {food}.",
    ],
    [
        "{They} wanted to eat it alone, but then a hungry {helper} came. \"I have not eaten for two days,\" said the {helper}.",
        '{name} was very hungry. There sat a {helper} {hideout} and looked at {them}.',
    ],
    [
        "{name} thought for a moment. Then {they} gave the {helper} one half.",
        '"Sit down," said {name}. "There is enough for two."',
    ],
    [
        'The {helper} ate and was happy. "I will not forget that," it said, and gave {name} a {colour} {thing}.',
        'When they had eaten, the {helper} said: "Come with me." Near the {place} it showed {name} a {colour} {thing}. "It is for you," it said.',
    ],
    [
        "From then on they ate together every day.",
        "{name} took the {thing} home and smiled.",
    ],
]
PLOTS = [LOST, FEAR, LEARN, SHARE]
ENDINGS = [
    "From that day on {name} and the {helper} were friends.",
    "In the evening {name} went home and slept well.",
    "And if they have not gone away, they still play {where} today.",
    "They lived happily ever after.",
    "At home {name} told everyone about the {helper}.",
]


def stories(count, seed):
    teller = Teller(seed)
    return [teller.story() for _ in range(count)]


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    print("\n\n".join(stories(count, seed)))
