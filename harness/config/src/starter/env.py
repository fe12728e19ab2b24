"""A number to guess. Requests come a line each, answers go back a line each; words for people go to standard error."""
import json
import sys

GUESS = {
    "name": "guess",
    "description": "Guesses the number.",
    "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
}
game = {}


def reset(task, seed, **_):
    """Begins the episode. What is random has to come from `seed`, so that the members of a group meet the same."""
    game.update(secret=task["config"]["secret"], left=task["config"]["tries"], found=False)
    text = f"You have {game['left']} tries."
    return {"protocol": 1, "observation": {"text": text}, "tools": [GUESS]}


def step(calls, **_):
    """One action. What the policy did wrong is an observation, not an error."""
    lines = []
    for call in calls:
        number = call["arguments"].get("number") if isinstance(call["arguments"], dict) else None
        if call["name"] != "guess" or not isinstance(number, int):
            lines.append("error: only guess is known, with a whole number")
            continue
        game["left"] -= 1
        game["found"] = game["found"] or number == game["secret"]
        lines.append("found" if number == game["secret"] else "higher" if number < game["secret"] else "lower")
    result = {"observation": {"text": "\n".join(lines)}}
    if game["found"] or game["left"] <= 0:
        result["done"] = "found" if game["found"] else "no tries left"
    return result


def grade(answer, **_):
    """What the attempt is worth, from 0 to 1; 1 passes."""
    return {"score": float(game["found"])}


def close(**_):
    return {}


METHODS = {"reset": reset, "step": step, "grade": grade, "close": close}

for line in sys.stdin:
    request = json.loads(line)
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        reply["result"] = METHODS[request["method"]](**request["params"])
    except Exception as error:
        reply["error"] = {"code": -32000, "message": repr(error)}
    print(json.dumps(reply), flush=True)
