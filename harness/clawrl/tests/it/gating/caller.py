"""An agent for tests of gates: a loop of calls on chat completions. Its argument says what somebody has changed about it:
`cut-prompt` loses the end of what is asked, `no-tool` offers the first tool no more."""

import json
import os
import sys
import urllib.request

CHANGED = sys.argv[1]
MOST_TURNS = 8


def ask(method, **params):
    print(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}), flush=True)
    return json.loads(sys.stdin.readline())["result"]


def complete(messages, tools):
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    body = json.dumps({"model": "any", "messages": messages, "tools": tools}).encode()
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]


begun = ask("reset")
tools = begun["tools"][1:] if CHANGED == "no-tool" else begun["tools"]
tools = [{"type": "function", "function": {key: tool[key] for key in ("name", "parameters")}} for tool in tools]
asked = begun["instruction"].split()
messages = [{"role": "user", "content": " ".join(asked[: len(asked) // 2] if CHANGED == "cut-prompt" else asked)}]
for _ in range(MOST_TURNS):
    said = complete(messages, tools)
    messages.append(said)
    if not said.get("tool_calls"):
        break
    for call in said["tool_calls"]:
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        result = ask("step", calls=[{"name": name, "arguments": arguments}])
        if "done" in result:
            sys.exit()
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result["observation"]["text"]})
