"""An agent on OpenAI's SDK that plays one attempt of a task of ClawRL: `--policy agent:agent.yaml`.

It asks the model at OPENAI_BASE_URL for calls of the tools that the environment offers, makes them, and shows the model what
came of them, until the environment says that it is done, or the model calls nothing more. Requests for the environment go out as
lines on standard output, and answers come as lines on standard input; what is printed besides goes to standard error.

Made with openai 3.57.0.
"""

import json
import sys

import openai

MOST_TURNS = 50


def ask(method, **params):
    """One request of the environment, and its result."""
    print(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}), flush=True)
    line = sys.stdin.readline()
    if not line:
        sys.exit("the attempt is over")
    answer = json.loads(line)
    if "error" in answer:
        sys.exit(f"{method}: {answer['error']['message']}")
    return answer["result"]


def as_function(tool):
    function = {name: tool[name] for name in ("name", "description", "parameters")}
    return {"type": "function", "function": function}


def main():
    # Address and key are in the environment.
    client = openai.OpenAI()
    begun = ask("reset")
    tools = [as_function(tool) for tool in begun["tools"]]
    seen = "\n".join(text for text in (begun["instruction"], begun["observation"]["text"]) if text)
    messages = [{"role": "user", "content": seen}]
    for _ in range(MOST_TURNS):
        completion = client.chat.completions.create(model="clawrl", messages=messages, tools=tools)
        said = completion.choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        if not said.tool_calls:
            print(f"the model calls nothing: {said.content}", file=sys.stderr)
            return
        for call in said.tool_calls:
            print(f"{call.function.name} {call.function.arguments}", file=sys.stderr)
            try:
                arguments = json.loads(call.function.arguments)
            except ValueError as error:
                # The model's mistake, and its to mend.
                content = f"the arguments are not JSON: {error}"
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
                continue
            result = ask("step", calls=[{"name": call.function.name, "arguments": arguments}])
            if "done" in result:
                return
            content = result["observation"]["text"]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


main()
