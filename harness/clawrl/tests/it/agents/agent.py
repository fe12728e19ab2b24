"""An agent for tests: asks a model for commands and runs them. Its first argument says how it misbehaves."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

MANNER = sys.argv[1] if len(sys.argv) > 1 else "good"
OVER_HTTP = "CLAWRL_ENV_URL" in os.environ


def post(url, body, key=None):
    headers = {"Authorization": f"Bearer {key or os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def ask(method, **params):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    if OVER_HTTP:
        answer = post(os.environ["CLAWRL_ENV_URL"], body)
    else:
        print(json.dumps(body), flush=True)
        line = sys.stdin.readline()
        if not line:
            sys.exit("nobody answers")
        answer = json.loads(line)
    if "error" in answer:
        sys.exit(f"{method}: {answer['error']['message']}")
    return answer["result"]


def complete(messages):
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    return post(url, {"model": "any", "messages": messages})["choices"][0]["message"]["content"]


def play():
    begun = ask("reset")
    assert begun["instruction"] == os.environ["CLAWRL_INSTRUCTION"]
    tool = next(tool for tool in begun["tools"] if tool.get("text_argument"))
    prompt = begun["instruction"].replace("Write", os.environ.get("VERB", "Write"))
    messages = [{"role": "user", "content": prompt}]
    while True:
        try:
            reply = complete(messages)
        except urllib.error.HTTPError:
            if MANNER != "swallow":
                raise
            reply = "submit"
        if reply == "submit":
            return
        print(f"running {reply}", file=sys.stderr)
        result = ask("step", calls=[{"name": tool["name"], "arguments": {tool["text_argument"]: reply}}])
        assert result["observation"]["facts"]["exit_code"] == 0, result
        messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": result["observation"]["text"]}]
        if MANNER == "crash":
            sys.exit("I cannot go on")


if MANNER == "hang":
    ask("reset")
    if "LOOT" in os.environ:
        # Held open by both, for as long as one of them lives.
        os.set_inheritable(os.open(os.path.join(os.environ["LOOT"], "alive"), os.O_WRONLY), True)
    subprocess.Popen(["sleep", "1000"], start_new_session=True, close_fds=False)
    time.sleep(1000)
elif MANNER == "idle":
    print("there is nothing to do")
elif MANNER == "flood":
    for _ in range(2_000):
        sys.stderr.write("e" * 10_000 + "\n")
        sys.stdout.write("o" * 10_000 + "\n")
    play()
elif MANNER == "line":
    sys.stdout.write("{" + "x" * (17 << 20) + "\n")
    sys.stdout.flush()
    assert json.loads(sys.stdin.readline())["error"]["data"]["refused"] == "message-too-large"
    play()
elif MANNER == "thief":
    # The key of whoever came first; then of nobody.
    path = os.path.join(os.environ["LOOT"], "key")
    try:
        key = open(path).read()
    except FileNotFoundError:
        with open(path, "w") as file:
            file.write(os.environ["OPENAI_API_KEY"])
        play()
        sys.exit(0)
    for wrong in (key, "", "clawrl-" + "0" * 48):
        try:
            post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", {"messages": []}, wrong or "none")
            sys.exit("a wrong key was taken")
        except urllib.error.HTTPError as error:
            assert error.code == 401 and json.load(error)["error"]["code"] == "invalid_api_key"
    play()
elif MANNER == "grade":
    ask("reset")
    ask("grade")
else:
    play()
    if MANNER == "close":
        assert ask("close") == {}
