"""Answers correctly, except for one method, where it acts as `config` says."""
import json
import os
import signal
import sys
import threading
import time

place = {"at": "never"}
lock = threading.Lock()


def say(message):
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def result_of(method, params):
    if method == "reset":
        tool = {"name": "do", "parameters": {"type": "object", "properties": {"what": {"type": "string"}}}}
        wait = {"name": "wait", "parameters": {"type": "object"}}
        return {"protocol": 1, "observation": {"text": "ready"}, "tools": [tool, wait]}
    if method == "step":
        texts = [call["arguments"].get("what", "nothing") for call in params["calls"] if isinstance(call["arguments"], dict)]
        return {"observation": {"text": " ".join(texts)}, "reward": 0.5}
    if method == "grade":
        return {"score": 1.0}
    return {}


def misbehave(what, identity, method, params):
    """Whether an answer still follows."""
    print(f"about to {what} at {method}", file=sys.stderr, flush=True)
    if what == "exit":
        sys.exit(3)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "throw":
        raise RuntimeError("out of luck")
    if what == "hang":
        time.sleep(3600)
    if what == "garbage":
        print("loading model...", flush=True)
    if what == "flood":
        while True:
            os.write(1, b"x" * 65536)
    if what == "flood-errors":
        for _ in range(200):
            os.write(2, b"y" * 65536)
        os.write(2, b"\nlast words\n")
        sys.exit(4)
    if what == "wrong-id":
        identity += 7
    if what == "text-id":
        identity = "seven"
    if what == "previous-id":
        identity -= 1
    if what == "twice":
        say({"jsonrpc": "2.0", "id": identity, "result": result_of(method, params)})
    if what == "early":
        say({"jsonrpc": "2.0", "id": identity + 1, "result": result_of(method, params)})
    if what == "error":
        say({"jsonrpc": "2.0", "id": identity, "error": {"code": 5, "message": "no such level"}})
        return False
    if what == "busy":
        say({"jsonrpc": "2.0", "id": identity, "error": {"code": 6, "message": "busy", "data": {"retryable": True}}})
        return False
    if what == "version":
        say({"jsonrpc": "2.0", "id": identity, "result": {"protocol": 2, "observation": {"text": ""}}})
        return False
    if what == "shape":
        say({"jsonrpc": "2.0", "id": identity, "result": {"protocol": 1, "observation": 7, "score": "high"}})
        return False
    if what == "score":
        say({"jsonrpc": "2.0", "id": identity, "result": {"score": 1.5}})
        return False
    if what == "nan":
        say({"jsonrpc": "2.0", "id": identity, "result": {"score": float("nan"), "observation": {"text": ""}, "reward": float("nan")}})
        return False
    if what == "deep":
        sys.stdout.write('{"id":%d,"result":%s1%s}\n' % (identity, "[" * 10000, "]" * 10000))
        sys.stdout.flush()
        return False
    if what == "bytes":
        os.write(1, b"\xff\xfe\x00\n")
    if what == "fork":
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                time.sleep(3600)
        os._exit(5)
    if what == "close-input":
        sys.stdin.close()
        os.close(0)
        say({"jsonrpc": "2.0", "id": identity, "result": result_of(method, params)})
        time.sleep(3600)
    if what == "close-output":
        os.close(1)
        time.sleep(3600)
    say({"jsonrpc": "2.0", "id": identity, "result": result_of(method, params)})
    return False



while True:
    line = sys.stdin.readline()
    if not line:
        break
    request = json.loads(line)
    method, params, identity = request["method"], request["params"], request["id"]
    if method == "reset":
        place = params["task"]["config"] or {"at": "never"}
    if method == "step" and any(call["name"] == "wait" for call in params["calls"]):
        # Never answered; a daemon thread does not delay the exit.
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
        continue
    if place["at"] == method:
        misbehave(place["do"], identity, method, params)
    else:
        say({"jsonrpc": "2.0", "id": identity, "result": result_of(method, params)})
