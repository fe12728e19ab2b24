"""A small MCP server over standard input and output; its argument selects how it behaves or misbehaves."""

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


def odd(name, id):
    """An answer in the form that some servers use."""
    half = '{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"cut \\ud83d"}]}}\n'
    answers = {
        "half": half,
        "nan": '{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"n":NaN}}}\n',
        "null": '{"jsonrpc":"2.0","id":%d,"result":{"content":"fine"},"error":null}\n',
        "broken": '{"jsonrpc":"2.0","result":{"content":[{"id":99,]},"id":%d}\n',
        "lines": '{\n  "jsonrpc": "2.0",\n  "id": %d,\n  "result": {}\n}\n',
        "large": '{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"',
        "list": "[" + half.strip() + "]\n",
        "nameless": '{"jsonrpc":"2.0","id":null,"error":"no"}\n',
        "nothing": '{"jsonrpc":"2.0","id":%d,"result":null}\n',
        "read.file": '{"jsonrpc":"2.0","id":"%d","result":{"content":[{"type":"video"}]}}\n',
    }
    with lock:
        text = answers[name]
        sys.stdout.write(text % id if "%d" in text else text)
        if name == "large":
            for _ in range(17):
                sys.stdout.write("x" * (1 << 20))
            sys.stdout.write('"}]}}\n')
        sys.stdout.flush()


def answer(message):
    name = message["params"]["name"]
    if mode == "odd":
        odd(name, message["id"])
        return
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
        # The second request gets another list.
        tools = TOOLS if mode != "changes" or listed == 0 else TOOLS[:1]
        listed += 1
        if mode == "odd":
            names = ("half", "nan", "null", "broken", "lines", "large", "list", "nameless", "nothing")
            tools = [{"name": name, "outputSchema": None} for name in names]
            pattern = {"type": "string", "pattern": "^(?=.{1,9}$)[a-z]+$"}
            tools.append({"name": "read.file", "inputSchema": {"properties": {"path": pattern}}, "annotations": 7})
        found = {"tools": tools, "nextCursor": ""} if mode == "odd" else {"tools": tools}
        send({"jsonrpc": "2.0", "id": message["id"], "result": found})
    elif method == "notifications/cancelled":
        cancelled.append(message["params"])
    elif method == "tools/call":
        threading.Thread(target=answer, args=(message,), daemon=True).start()
