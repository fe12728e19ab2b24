"""A small MCP server over standard input and output, which behaves and misbehaves as it is told by its argument."""

import json
import os
import sys
import threading
import time

mode = sys.argv[1]
lock = threading.Lock()
cancelled = []


def send(message):
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def tool(name, properties):
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema}


STRING = {"type": "string"}
TOOLS = [tool("echo", {"text": STRING}), tool("variable", {"name": STRING})]
TOOLS += [tool(name, {}) for name in ("slow", "cancelled", "die", "fail", "wrong", "image")]


if mode == "tells":
    TOOLS[1]["description"] = "Uses " + os.environ["TOKEN"]
    TOOLS[1]["inputSchema"]["properties"]["name"] = {"type": "string", "enum": ["TOKEN", os.environ["TOKEN"]]}


def result(name, arguments):
    if name == "echo":
        return {"content": [{"type": "text", "text": arguments["text"]}]}
    if name == "variable":
        return {"content": [{"type": "text", "text": os.environ.get(arguments["name"], "")}]}
    if name == "cancelled":
        while not cancelled:
            time.sleep(0.01)
        return {"content": [{"type": "text", "text": str(len(cancelled))}]}
    if name == "fail":
        return {"content": [{"type": "text", "text": "no"}], "isError": True}
    if name == "image":
        return {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
    if name == "die":
        # With half of the token, if there is one.
        print("last words" + os.environ.get("TOKEN", "")[:9], end="", file=sys.stderr, flush=True)
        os._exit(3)
    return None


def answer(message):
    name = message["params"]["name"]
    if name == "slow":
        return
    found = result(name, message["params"].get("arguments", {}))
    if found is None:
        send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "wrong arguments"}})
    else:
        send({"jsonrpc": "2.0", "id": message["id"], "result": found})


if mode == "dies":
    print("there is no configuration", file=sys.stderr)
    sys.exit(3)
if mode == "garbage":
    print("I am no server", flush=True)

listed = 0
for line in sys.stdin:
    if mode in ("hang", "garbage"):
        continue
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        version = "2023-01-01" if mode == "old" else message["params"]["protocolVersion"]
        info = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}}
        send({"jsonrpc": "2.0", "id": message["id"], "result": info})
    elif method == "tools/list":
        # The second one who asks finds another list.
        tools = TOOLS if mode != "changes" or listed == 0 else TOOLS[:1]
        listed += 1
        send({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": tools}})
    elif method == "notifications/cancelled":
        cancelled.append(message["params"])
    elif method == "tools/call":
        threading.Thread(target=answer, args=(message,), daemon=True).start()
