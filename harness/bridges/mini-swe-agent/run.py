"""Plays one task of a ClawRL suite with mini-swe-agent, and prints the grade as one line of JSON.

    run.py SUITE TASK -m MODEL                  with mini-swe-agent's own `mini.yaml`
    run.py SUITE TASK -c FILE -c KEY=VALUE      with other settings, as `mini` takes them
    run.py SUITE TASK --issue                   prints the issue and ends
    run.py -m MODEL                             plays the attempt of the run that started it; see README.md, As a policy

Exit codes: 0 graded, at any score. 1 not graded: a fault of the environment, or of the model. 2 wrong arguments.
"""

import argparse
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from clawrl_environment import ClawrlEnvironment, ClawrlError  # noqa: E402
from minisweagent.agents import get_agent  # noqa: E402
from minisweagent.config import get_config_from_spec  # noqa: E402
from minisweagent.models import get_model  # noqa: E402
from minisweagent.utils.serialize import recursive_merge  # noqa: E402

# Settings of an environment that say where it runs. That is the suite's to say here.
PLACE = ("environment_class", "image", "cwd")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Plays one task of a ClawRL suite with mini-swe-agent.")
    parser.add_argument("suite", nargs="?", default="", help="a suite.yaml, its folder, or the name of a folder under ./tasks")
    parser.add_argument("task", nargs="?", default="", help="id of a task in it")
    parser.add_argument("-c", "--config", action="append", help="as `mini` takes it [default: mini.yaml]")
    parser.add_argument("-m", "--model", help="name of the model, as `mini` takes it")
    parser.add_argument("--model-class", help="class of the model, as `mini` takes it")
    parser.add_argument("--image", default="", help="for a task that names no image")
    parser.add_argument("--seed", type=int, default=0, help="root of all seeds")
    parser.add_argument("-o", "--output", type=Path, help="where the trajectory goes")
    parser.add_argument("--issue", action="store_true", help="print the issue and end")
    chosen = parser.parse_args()
    if not chosen.task and "CLAWRL_ENV_URL" not in os.environ:
        parser.error("SUITE and TASK are missing")
    return chosen


def settings(chosen: argparse.Namespace) -> dict:
    """Settings of the files and the command line; later ones override earlier ones."""
    given = {"model_name": chosen.model, "model_class": chosen.model_class}
    config = recursive_merge(
        *(get_config_from_spec(spec) for spec in chosen.config or ["mini.yaml"]),
        {"model": {key: value for key, value in given.items() if value}},
    )
    config["agent"] = {**config.get("agent", {}), "output_path": chosen.output}
    environment = config.get("environment", {})
    config["environment"] = {key: value for key, value in environment.items() if key not in PLACE}
    return config


def main() -> int:
    chosen = arguments()
    config = settings(chosen)
    model = None if chosen.issue else get_model(config=config.get("model", {}))
    own = {"suite": chosen.suite, "task": chosen.task, "image": chosen.image, "seed": chosen.seed}
    try:
        environment = ClawrlEnvironment(**{**config["environment"], **own})
    except ClawrlError as error:
        print(f"{sys.argv[0]}: {error}", file=sys.stderr)
        return 1
    try:
        if chosen.issue:
            print(environment.instruction)
            return 0
        agent = get_agent(model, environment, config["agent"], default_type="default")
        ended = agent.run(environment.instruction)
        # A run that started this grades by itself.
        grade = environment.grade() if chosen.task else {}
        agent.save(chosen.output)
    except ClawrlError as error:
        print(f"{sys.argv[0]}: not graded: {error}", file=sys.stderr)
        return 1
    finally:
        environment.close()
    told = {"task": chosen.task, "exit_status": ended.get("exit_status", ""), "model_calls": agent.n_calls, **grade}
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
