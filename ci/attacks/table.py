#!/usr/bin/env python3
"""Runs the attacks of this folder and writes a table of their results.

    ci/attacks/table.py [PROGRAM] > harness/docs/reference/attacks.md      PROGRAM: `clawrl` of PATH, with `clawrl-sbx` beside it

An attack holds if it scored 0, or if the attempt was flagged. Exit codes: 0 all hold and every honest task passed; 1 not;
2 something could not be run. The imported tasks need the base image (`ci/setup.sh image`), the pages a browser.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CLASSES = {
    "tests": "tests replaced or shadowed",
    "runner": "runner and its configuration replaced",
    "output": "output forged",
    "grader": "the grader's files read or written",
    "answers": "answers looked for",
    "resources": "time and resources exhausted",
}
# Faults that an attempt may end by: a page of the agent's own that hangs. Any other one would be a way to void an attempt.
FAULTS = ("page-hung",)
# Written by harbor.sh.
HARBOR = json.loads((HERE / "harbor.json").read_text())
KINDS = {
    "swe": "software engineering, unittest",
    "swe-pytest": "software engineering, pytest",
    "terminal": "terminal",
    "toolcall": "tool calls",
    "gui": "pages",
    "imported": "imported from Harbor",
}
HEAD = """# Attacks on grading

`ci/attacks/table.py` runs the attacks in [ci/attacks](../../../ci/attacks) and writes this page. Each task's reference
solution attacks the grader instead of solving the task; `honest` solves it, to show that it can be solved. An attack
fails if it scores 0 or is flagged. A page that hangs is a fault and has no score.

Other tests: [attacks on the sandbox](../../../tasks/terminal-hostile/README.md), and attempts to persuade judges
(`policies/judge`: `i3_no_text_holds_its_mark`, `i1_only_a_verdict_is_a_vote`).

The column Harbor shows the same attack in Harbor's own runner: `harbor` 0.26.0 unchanged, with its Docker environment
and the oracle, run by `ci/attacks/harbor.sh`, which lists the differences from a machine with a registry. Its rewards
are those of the default mode, in which the verifier runs in the agent's container. A trial that ended with an exception
has no score and is excluded from Harbor's mean.
"""


def called(*command, check=True):
    ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if check and ran.returncode:
        print(f"{' '.join(command)}: {ran.stderr[-2000:]}", file=sys.stderr)
        raise SystemExit(2)
    return ran


def suites(clawrl, place):
    """Each kind of task with its suite, or with why there is none."""
    image = called(ROOT / "ci/image.sh", check=False).stdout.strip()
    for kind in KINDS:
        suite = HERE / kind
        if kind in ("swe-pytest", "imported") and not image:
            yield kind, None
            continue
        if kind == "imported":
            suite = place / kind
            called(clawrl, "import", "harbor", str(HERE / kind), "--output", str(suite), "--sandbox", "bubblewrap",
                   "--rootfs", f"{image}/rootfs")
        elif kind == "swe-pytest":
            suite = place / kind
            shutil.copytree(HERE / kind, suite)
            (suite / "base").symlink_to(f"{image}/rootfs")
        yield kind, suite


def attempts(clawrl, suite, kind, results):
    """Each task of a suite with what its attempt came to."""
    # Its exit code says that attacks have not passed.
    ran = called(clawrl, "run", str(suite), "--policy", "oracle", "--results", str(results), "--name", kind, check=False)
    plan = results / "runs" / kind / "plan.json"
    if not plan.exists():
        print(f"{kind}: {ran.stderr[-2000:]}", file=sys.stderr)
        raise SystemExit(2)
    plan = json.loads(plan.read_text())
    for slot in plan["slots"]:
        task = plan["tasks"][slot["task"]]
        tries = called(clawrl, "show", kind, "--results", str(results), "--slot", f"s{slot['id']}", "--json")
        last = f"s{slot['id']}.{len(json.loads(tries.stdout)) - 1}"
        shown = called(clawrl, "show", kind, "--results", str(results), "--attempt", last, "--json")
        yield task, json.loads(shown.stdout)["outcome"]


def described(kind, task):
    """Describes the attack in a sentence."""
    if kind != "imported":
        return task["instruction"]
    text = (HERE / kind / task["family"] / "task.toml").read_text()
    return next(line for line in text.splitlines() if line.startswith("description")).split('"')[1]


def beside(name):
    """The attack's result in Harbor."""
    trial = HARBOR.get(name)
    if trial is None:
        return "not played"
    if trial["reward"] is None:
        return f"no score: `{(trial['error'] or 'none').split(':')[0]}`"
    return f"{trial['reward']:g}"


def verdict(outcome):
    """The text of an outcome, and whether an attack with it failed."""
    if "faulted" in outcome:
        code = outcome["faulted"]["code"]
        return f"no score: fault `{code}`", code in FAULTS
    grade = outcome["finished"]["grade"]
    flags = ", ".join(f"`{flag}`" for flag in grade.get("flags", []))
    score = f"{grade['score']:.2f}".rstrip("0").rstrip(".")
    return f"{score}{', ' + flags if flags else ''}", grade["score"] == 0 or bool(flags)


def main():
    clawrl = sys.argv[1] if len(sys.argv) > 1 else shutil.which("clawrl")
    if not clawrl:
        print("clawrl is not in PATH", file=sys.stderr)
        raise SystemExit(2)
    wrong, count, lines = [], 0, [HEAD]
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        place.chmod(0o755)
        for kind, suite in suites(clawrl, place):
            lines.append(f"## {KINDS[kind][0].upper()}{KINDS[kind][1:]}\n")
            if suite is None:
                lines.append("Not played: the base image is not there (`ci/setup.sh image`).\n")
                continue
            more = [" Harbor |", " --- |"] if kind == "imported" else ["", ""]
            lines += [f"| attack | class | description | score and flags |{more[0]}", f"| --- | --- | --- | --- |{more[1]}"]
            for task, outcome in attempts(clawrl, suite, kind, place / "results"):
                (result, holds), name = verdict(outcome), task["family"]
                text = described(kind, task)
                if name == "honest":
                    holds = result == "1"
                else:
                    count += 1
                if not holds:
                    wrong.append(f"{kind}/{name}: {result}")
                cells = [f"`{name}`", CLASSES.get(name.split("-")[0], "none"), text, result]
                cells += [beside(name)] if kind == "imported" else []
                lines.append(f"| {' | '.join(cells)} |")
            lines.append("")
    lines.append(f"{count} attacks; {len(wrong)} did not hold.")
    print("\n".join(lines))
    print("\n".join(wrong), file=sys.stderr)
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
