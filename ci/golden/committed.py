"""Reference numbers as they are committed: how they are written, and what differs from what is made now. And what a reader of others
has accepted, by its hash."""

import hashlib
import importlib.metadata
import json
import pathlib
import sys


def differences(committed, made, within, place=""):
    """Places where a number is off by more than `within`, as a share of it or of 1; versions of programs are let pass."""
    if isinstance(made, dict):
        keys = made.keys() if made.keys() == committed.keys() else ["keys differ"]
        for key in keys:
            if key != "versions":
                yield from differences(committed.get(key), made.get(key), within, f"{place}.{key}")
    elif isinstance(made, list) and isinstance(committed, list) and len(made) == len(committed):
        for index, (left, right) in enumerate(zip(committed, made)):
            yield from differences(left, right, within, f"{place}[{index}]")
    elif isinstance(made, float) and isinstance(committed, (int, float)):
        if abs(made - committed) > within * max(1.0, abs(made)):
            yield f"{place}: {committed} is committed, {made} is made"
    elif made != committed:
        yield f"{place}: {committed} is committed, {made} is made"


def text(made):
    """JSON with one case a line."""
    lines = []
    for key, value in made.items():
        if isinstance(value, list):
            rows = ",\n".join("  " + json.dumps(row) for row in value)
            lines.append(f"{json.dumps(key)}: [\n{rows}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def judge(accept, tests, kind, packages):
    """Shows the files that are named to `accept`, which raises; or, where none is, all snapshots of that kind, whose hashes are then committed."""
    if sys.argv[1:]:
        for name in sys.argv[1:]:
            accept(pathlib.Path(name).read_text())
        print(f"{len(sys.argv) - 1} accepted")
        return
    accepted = {}
    for path in sorted((tests / "it/snapshots").glob(f"*{kind}_*.snap")):
        text = path.read_text().split("---\n", 2)[2].strip()
        accept(text)
        accepted[path.stem.split("__")[-1]] = hashlib.sha256(text.encode()).hexdigest()
    versions = {name: importlib.metadata.version(name) for name in packages}
    versions["python"] = ".".join(map(str, sys.version_info[:3]))
    content = {"versions": versions, "sha256": accepted}
    (tests / f"golden/{kind}.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"{len(accepted)} accepted")
