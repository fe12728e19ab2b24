"""Reference numbers as they are committed: how they are written, and what differs from what is made now."""

import json


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
