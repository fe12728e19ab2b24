"""Steps and resets of BrowserGym on MiniWoB++: browsergym_step.py HTML BROWSER ROUNDS STEPS

Prints JSON: for each round the seconds of its resets, and those of its steps. The environment's own defaults, headless, with the
same browser as the other sides; a click on a checkbox by its BrowserGym id.
"""

import json
import os
import sys
import time

html, browser, rounds, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
os.environ["MINIWOB_URL"] = f"file://{html}/"

import browsergym.miniwob  # noqa: E402, F401
import gymnasium  # noqa: E402
from playwright.sync_api import BrowserType  # noqa: E402

launch = BrowserType.launch
# Its own option for this does not reach the launch.
BrowserType.launch = lambda self, **options: launch(self, **{**options, "executable_path": browser})

env = gymnasium.make(
    "browsergym/miniwob.click-checkboxes",
    headless=True,
    max_episode_steps=100_000,
)
measured = []
for number in range(rounds + 1):
    begin = time.perf_counter()
    observation, _ = env.reset(seed=1)
    reset = time.perf_counter() - begin
    nodes = observation["axtree_object"]["nodes"]
    boxes = [node for node in nodes if node.get("role", {}).get("value") == "checkbox"]
    target = next(node["browsergym_id"] for node in boxes if node.get("browsergym_id"))
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        observation, _, _, _, _ = env.step(f'click("{target}")')
        times.append(time.perf_counter() - begin)
        if observation["last_action_error"]:
            sys.exit(observation["last_action_error"])
    if number > 0:
        measured.append([[reset], times])
env.close()
print(json.dumps(measured))
