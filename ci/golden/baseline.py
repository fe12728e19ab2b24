"""Reference numbers for the baseline that runs along: a stream of groups of several families, and the advantages of every update.

Straight from the definition, in exact fractions, over the whole history of a family and without a running sum: what the rewards
of the updates before came to, each times 0.98 for each that came after, over their number, weighed alike, and 8.

    python ci/golden/baseline.py           # writes harness/learn/tests/golden/baseline.json
    python ci/golden/baseline.py --check   # fails if it would write anything else
"""

import json
import pathlib
import random
import sys
from fractions import Fraction

FILE = pathlib.Path(__file__).resolve().parents[2] / "harness/learn/tests/golden/baseline.json"
DECAY = Fraction(98, 100)
PRIOR = 8

# Which family each task is of. Task 4 is the only one of its own, and tasks 0 and 5 share one.
KINDS = [7, 0, 3, 0, 12, 7]
MEMBERS = 3
BATCH_GROUPS = 6
UPDATES = 9
# What came of this update was not accepted, so its rewards are not known afterwards.
REJECTED = 4
REWARDS = [Fraction(1), Fraction(-1), Fraction(0), Fraction(1, 2), Fraction(7, 16)]


def baseline(earned):
    """Of the rewards of a family, oldest first."""
    weights = [DECAY ** (len(earned) - 1 - place) for place in range(len(earned))]
    total = sum((weight * reward for weight, reward in zip(weights, earned)), Fraction(0))
    return total / (sum(weights) + PRIOR)


def draw():
    """The groups of every update: the task, and the rewards of its members, None of one that faulted."""
    generator = random.Random(20261126)
    updates = []
    for _ in range(UPDATES):
        groups = []
        for _ in range(BATCH_GROUPS):
            # Some tasks come often, so that old rewards fade.
            task = generator.choice([0, 0, 0, 0, 1, 2, 3, 4, 5, 5])
            # A constant group, one that faulted as a whole, or any.
            shape = generator.random()
            same = generator.choice(REWARDS)
            rewards = [
                None if shape < 0.1 or generator.random() < 0.15
                else same if shape < 0.4
                else generator.choice(REWARDS)
                for _ in range(MEMBERS)
            ]
            groups.append((task, rewards))
        updates.append(groups)
    return updates


def content():
    known = {kind: [] for kind in KINDS}
    groups, updates = [], []
    for version, drawn in enumerate(draw(), start=1):
        before = {kind: baseline(earned) for kind, earned in known.items()}
        advantages = [
            float(reward - before[KINDS[task]]) for task, rewards in drawn for reward in rewards if reward is not None
        ]
        if version != REJECTED:
            for task, rewards in drawn:
                known[KINDS[task]] += [reward for reward in rewards if reward is not None]
        groups += [
            {"task": task, "rewards": [None if reward is None else float(reward) for reward in rewards]}
            for task, rewards in drawn
        ]
        updates.append({"rejected": version == REJECTED, "advantages": advantages})
    known_last = {str(kind): float(baseline(earned)) for kind, earned in known.items()}
    return {"kinds": KINDS, "members": MEMBERS, "groups": groups, "updates": updates, "baselines": known_last}


def text():
    lines = []
    for key, value in content().items():
        if isinstance(value, list) and isinstance(value[0], dict):
            value = "[\n" + ",\n".join("  " + json.dumps(row) for row in value) + "\n]"
        else:
            value = json.dumps(value)
        lines.append(f"{json.dumps(key)}: {value}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if FILE.read_text() == text() else f"{FILE.name} is another one")
    FILE.write_text(text())
