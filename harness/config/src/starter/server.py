"""A number to guess, for many attempts at once: `python3 server.py 9000`."""
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GUESS = {
    "name": "guess",
    "description": "Guesses the number.",
    "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
}
# By session.
games = {}


def reset(session, task, seed, **_):
    """Begins an episode. What is random has to come from `seed`, so that the members of a group meet the same."""
    games[session] = {"secret": task["config"]["secret"], "left": task["config"]["tries"], "found": False}
    text = f"You have {games[session]['left']} tries."
    return {"protocol": 1, "observation": {"text": text}, "tools": [GUESS]}


def step(session, calls, **_):
    """One action. What the policy did wrong is an observation, not an error."""
    game, lines = games[session], []
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


def grade(session, answer, **_):
    """What the attempt is worth, from 0 to 1; 1 passes."""
    return {"score": float(games[session]["found"])}


def close(session, **_):
    games.pop(session, None)
    return {}


METHODS = {"reset": reset, "step": step, "grade": grade, "close": close}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            reply["result"] = METHODS[request["method"]](**request["params"])
        except Exception as error:
            reply["error"] = {"code": -32000, "message": repr(error)}
        body = json.dumps(reply).encode()
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


server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
