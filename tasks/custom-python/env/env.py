"""A number to guess. `python3 env.py` answers on its standard output, `python3 env.py --http PORT` over HTTP."""
import json
import random
import sys

GUESS = {
    "name": "guess",
    "description": "Guesses the number.",
    "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
}
games = {}


def reset(session, task, seed, **_):
    secret = task["config"]["secret"]
    chance = random.Random(seed)
    low, high = secret - chance.randint(1, 9), secret + chance.randint(1, 9)
    games[session] = {"secret": secret, "guesses": [], "tries": task["config"]["tries"]}
    text = f"The number is between {low} and {high}."
    return {"protocol": 1, "observation": {"text": text}, "tools": [GUESS]}


def step(session, calls, **_):
    game = games[session]
    lines, found, spent = [], False, False
    for call in calls:
        arguments = call["arguments"] if isinstance(call["arguments"], dict) else {}
        number = arguments.get("number")
        if call["name"] != "guess" or not isinstance(number, int):
            lines.append("error: only guess is known, with a whole number")
            continue
        game["guesses"].append(number)
        found = found or number == game["secret"]
        spent = len(game["guesses"]) >= game["tries"]
        lines.append("found" if number == game["secret"] else "higher" if number < game["secret"] else "lower")
    result = {"observation": {"text": "\n".join(lines)}, "reward": 1.0 if found else 0.0}
    if found or spent:
        result["done"] = "found" if found else "no tries left"
    return result


def grade(session, **_):
    game = games[session]
    found = game["secret"] in game["guesses"]
    check = {"name": "found", "score": float(found), "message": f"{len(game['guesses'])} guesses"}
    return {"score": float(found), "checks": [check]}


def close(session, **_):
    games.pop(session, None)
    return {}


METHODS = {"reset": reset, "step": step, "grade": grade, "close": close}


def answer(text):
    request = json.loads(text)
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        reply["result"] = METHODS[request["method"]](**request["params"])
    except Exception as error:
        reply["error"] = {"code": -32000, "message": repr(error)}
    return json.dumps(reply)


def serve(port):
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = answer(self.rfile.read(int(self.headers["Content-Length"]))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Server(ThreadingHTTPServer):
        # Connections that wait their turn where many attempts begin at once.
        request_queue_size = 1024

    server = Server(("127.0.0.1", port), Handler)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if sys.argv[1:2] == ["--http"]:
    serve(int(sys.argv[2]))
else:
    for line in sys.stdin:
        print(answer(line), flush=True)
