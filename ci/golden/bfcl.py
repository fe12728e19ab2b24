"""Compares the verdicts of `calls_match` with those of BFCL's own AST checker, and writes the rows of a test.

    python3 -m venv V && V/bin/pip install pyyaml && pip download --no-deps bfcl-eval && unzip bfcl_eval-*.whl -d BFCL
    V/bin/python ci/golden/bfcl.py BFCL --clawrl target/debug/clawrl [--rows 60] [--write]

For some rows of every category: the calls of the possible answer, and the same with one thing changed. Each becomes a
task whose oracle makes the calls; tools take any arguments there, so that the check alone decides. `bfcl-eval` 2026.3.23.
"""
import argparse
import copy
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import types

import yaml

CATEGORIES = ["simple_python", "multiple", "parallel", "parallel_multiple", "live_simple", "live_multiple", "live_parallel",
              "live_parallel_multiple"]
GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "envs/toolcall/tests/golden/bfcl.jsonl"


def checker(root):
    """BFCL's checker, without the models and parsers that it imports besides."""
    sys.path.insert(0, str(root))
    config = types.ModuleType("bfcl_eval.constants.model_config")
    config.MODEL_CONFIG_MAPPING = {"m": types.SimpleNamespace(underscore_to_dot=True)}
    sys.modules[config.__name__] = config
    for name in ["java", "js"]:
        module = types.ModuleType(f"bfcl_eval.eval_checker.ast_eval.type_convertor.{name}_type_converter")
        setattr(module, f"{name}_type_converter", None)
        sys.modules[module.__name__] = module
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

    def verdict(functions, calls, truth, category):
        output = [{call["name"]: call["arguments"]} for call in calls]
        try:
            return ast_checker(functions, output, truth, Language.PYTHON, category, "m")["valid"]
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            return f"{type(error).__name__}: {error}"

    return verdict


def sample(accepted):
    """A value that is accepted: the first that is not empty."""
    return next((value for value in accepted if value != ""), None)


def concrete(value, declared):
    """A dict of possible answers as one dict."""
    if declared == "dict" and isinstance(value, dict):
        picked = {key: sample(values) for key, values in value.items() if isinstance(values, list)}
        return {key: value for key, value in picked.items() if value is not None}
    return value


def truth_calls(row, truth):
    calls = []
    for call in truth:
        (name, accepted), = call.items()
        function = next(function for function in row["function"] if function["name"] == name)
        properties = function["parameters"]["properties"]
        arguments = {}
        for key, values in accepted.items():
            value = sample(values)
            if value is None or key not in properties:
                continue
            declared = properties[key]["type"]
            if declared in ("array", "tuple") and properties[key].get("items", {}).get("type") == "dict" and isinstance(value, list):
                value = [concrete(entry, "dict") for entry in value]
            arguments[key] = concrete(value, declared)
        calls.append({"name": name.replace(".", "_"), "arguments": arguments})
    return calls


def variants(calls, truth, rng):
    """The calls themselves, and with one thing changed."""
    yield "truth", calls
    yield "none", []
    yield "twice", calls + [calls[0]]
    yield "reversed", calls[::-1]
    for at, call in enumerate(calls[:2]):
        def changed(change):
            copied = copy.deepcopy(calls)
            change(copied[at]["arguments"])
            return copied
        yield f"{at} unexpected", changed(lambda a: a.update(unexpected=1))
        renamed = copy.deepcopy(calls)
        renamed[at]["name"] += "_x"
        yield f"{at} renamed", renamed
        for key, value in call["arguments"].items():
            yield f"{at} {key} left out", changed(lambda a: a.pop(key))
            yield f"{at} {key} empty", changed(lambda a: a.update({key: ""}))
            if isinstance(value, str):
                yield f"{at} {key} upper", changed(lambda a: a.update({key: value.upper()}))
                yield f"{at} {key} dashes", changed(lambda a: a.update({key: value.replace(" ", "-") + "."}))
                yield f"{at} {key} other", changed(lambda a: a.update({key: value + "x"}))
            elif isinstance(value, bool):
                yield f"{at} {key} not", changed(lambda a: a.update({key: not value}))
            elif isinstance(value, (int, float)):
                yield f"{at} {key} more", changed(lambda a: a.update({key: value + 1}))
                yield f"{at} {key} text", changed(lambda a: a.update({key: str(value)}))
                if isinstance(value, int):
                    yield f"{at} {key} float", changed(lambda a: a.update({key: float(value)}))
            elif isinstance(value, list):
                yield f"{at} {key} shorter", changed(lambda a: a.update({key: value[1:]}))
                yield f"{at} {key} longer", changed(lambda a: a.update({key: value + value[:1]}))
                yield f"{at} {key} turned", changed(lambda a: a.update({key: value[::-1]}))
                upper = [entry.upper() if isinstance(entry, str) else entry for entry in value]
                yield f"{at} {key} upper", changed(lambda a: a.update({key: upper}))
            elif isinstance(value, dict):
                yield f"{at} {key} more keys", changed(lambda a: a[key].update(unexpected=1))
                for inner in list(value)[:2]:
                    yield f"{at} {key}.{inner} left out", changed(lambda a: a[key].pop(inner))
        for other in list(truth[at].values())[0].items():
            key, accepted = other
            for value in accepted[1:3]:
                if value != "" and not isinstance(value, dict) and key in call["arguments"]:
                    yield f"{at} {key} accepted", changed(lambda a: a.update({key: value}))


def literal(value):
    """A text that a suite accepts unchanged."""
    if isinstance(value, str):
        return value.replace("{{", "{{ '{{' }}").replace("{%", "{{ '{%' }}").replace("{#", "{{ '{#' }}")
    if isinstance(value, list):
        return [literal(entry) for entry in value]
    if isinstance(value, dict):
        return {key: literal(entry) for key, entry in value.items()}
    return value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--clawrl", required=True)
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    clawrl = str(pathlib.Path(args.clawrl).resolve())
    verdict = checker(args.root.resolve())
    rng = random.Random(0)
    data = args.root.resolve() / "bfcl_eval/data"
    place = pathlib.Path(tempfile.mkdtemp())
    cases, tasks = [], []
    for category in CATEGORIES:
        name = f"BFCL_v4_{category}.json"
        rows = [json.loads(line) for line in (data / name).open()]
        truths = {row["id"]: row["ground_truth"] for row in map(json.loads, (data / "possible_answer" / name).open())}
        chosen = {row["id"] for row in rng.sample(rows, min(args.rows, len(rows)))}
        output = place / category.replace("_", "-")
        command = [clawrl, "import", "bfcl", "--data", str(data), "--category", category, "--skip-unrepresentable"]
        subprocess.run(command + ["--output", str(output)], check=True, capture_output=True)
        suite = {task["id"]: task for task in yaml.safe_load((output / "suite.yaml").open())["tasks"]}
        for row in rows:
            task = suite.get(row["id"].replace("_", "-").lower())
            if row["id"] not in chosen or task is None:
                continue
            tools = {}
            for function in row["function"]:
                names = list(function["parameters"].get("properties", {}))
                schema = {"type": "object", "properties": {key: {} for key in names}}
                tools[function["name"].replace(".", "_")] = {"description": "d", "parameters": schema, "returns": "ok"}
            truth = truths[row["id"]]
            for what, calls in variants(truth_calls(row, truth), truth, rng):
                known = dict(tools)
                for call in calls:
                    any_schema = {"type": "object"}
                    known.setdefault(call["name"], {"description": "d", "parameters": any_schema, "returns": "ok"})
                actions = [{"call": literal({"name": call["name"], "arguments": call["arguments"]})} for call in calls]
                theirs = verdict(row["function"], calls, truth, category)
                id = f"v{len(cases)}"
                cases.append({"id": id, "row": row["id"], "what": what, "theirs": theirs, "calls": calls,
                              "check": task["checks"][0]["calls_match"], "last": repr(calls)[:300]})
                tasks.append({"id": id, "instruction": "i", "max_turns": 100, "env": {"toolcall": {"tools": known}},
                              "checks": task["checks"], "oracle": {"actions": actions + [{"submit": "done"}]}})
    ours = {}
    for at in range(0, len(tasks), 800):
        suite = place / f"variants-{at}"
        suite.mkdir()
        part = {"format": 1, "suite": suite.name, "tasks": tasks[at:at + 800]}
        # JSON is YAML.
        (suite / "suite.yaml").write_text(json.dumps(part, indent=1))
        run = subprocess.run([clawrl, "run", str(suite), "--policy", "oracle", "--results", str(place / "results"), "--name",
                              suite.name], capture_output=True, text=True)
        shown = subprocess.run([clawrl, "show", suite.name, "--failed", "--json", "--results", str(place / "results")],
                               capture_output=True, text=True)
        if not shown.stdout:
            sys.exit(f"{run.stderr[-3000:]}\n{shown.stderr[-3000:]}")
        text = shown.stdout
        for task in part["tasks"]:
            ours[task["id"]] = f"{suite.name}/{task['id']}\"" not in text
    differ = [case for case in cases if case["theirs"] != ours[case["id"]]]
    broken = [case for case in differ if isinstance(case["theirs"], str)]
    print(f"{len(cases)} cases of {len({case['row'] for case in cases})} rows: {sum(map(bool, ours.values()))} pass here, "
          f"{len(differ)} differ, of which BFCL's checker breaks on {len(broken)}")
    for case in differ:
        print(json.dumps({key: case[key] for key in ["row", "what", "theirs", "last"]}))
    if args.write:
        same = [case for case in cases if case not in differ]
        kept = rng.sample([case for case in same if case["theirs"]], 40) + rng.sample([case for case in same if not case["theirs"]], 40)
        lines = [json.dumps({key: case[key] for key in ["row", "what", "check", "calls", "theirs"]}) for case in kept]
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text("\n".join(lines) + "\n")


main()
