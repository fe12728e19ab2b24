"""A conversation with `clawrl serve` through OpenAI's own SDK, as a program of its users would hold it.

    python ci/clients/openai_sdk.py BASE_URL KEY

The policy behind it has to call the tools `bell` and `horn` now and then: harness/clawrl/tests/it/training/chatting.rs trains one. Every
form of asking is tried, and what the record says of it is held against what came. Prints the turns as JSON; ends with an
assertion that does not hold, otherwise.

Made with openai 3.57.0.
"""

import json
import sys

import openai

MODEL = "clawrl"
TOOLS = [
    {"type": "function", "function": {"name": name, "description": what, "parameters": {"type": "object", "properties": {}}}}
    for name, what in [("bell", "Rings the bell."), ("horn", "Blows the horn.")]
]


def user(text):
    return {"role": "user", "content": text}


def recorded(client, completion):
    """The record of the answer with this id."""
    return client.get(f"/turns/{completion.removeprefix('chatcmpl-')}", cast_to=object)


def answer_of(turn):
    return turn["requests"][-1]["answers"][0]


def whole(client):
    completion = client.chat.completions.create(
        model=MODEL, messages=[user("Ring the bell, Ada.")], seed=3, logprobs=True, top_logprobs=2, n=2
    )
    first, second = completion.choices
    usage = completion.usage
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    for choice in (first, second):
        assert choice.finish_reason in ("stop", "length")
        assert all(len(entry.top_logprobs) == 2 and entry.logprob <= 0 for entry in choice.logprobs.content)
    entries = first.logprobs.content + second.logprobs.content
    assert len(entries) == usage.completion_tokens
    request = recorded(client, completion.id)["requests"][0]
    assert len(request["prompt_ids"]) == usage.prompt_tokens
    for choice, answer in zip(completion.choices, request["answers"], strict=True):
        assert answer["text"] == choice.message.content
        assert answer["logprobs"] == [entry.logprob for entry in choice.logprobs.content], "to the bit"
        assert answer["exact"]
    again = client.chat.completions.create(model=MODEL, messages=[user("Ring the bell, Ada.")], seed=3)
    assert again.choices[0].message.content == first.message.content, "a seed decides"
    greedy = client.chat.completions.create(model=MODEL, messages=[user("Ring the bell, Bob.")], temperature=0)
    assert not answer_of(recorded(client, greedy.id))["exact"]


def streamed(client):
    text, usage, finish, completion = "", None, None, None
    for chunk in client.chat.completions.create(
        model=MODEL, messages=[user("Blow the horn, Cy.")], stream=True, stream_options={"include_usage": True}
    ):
        completion = chunk.id
        if chunk.usage:
            usage = chunk.usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    assert finish in ("stop", "length") and usage.completion_tokens > 0
    assert answer_of(recorded(client, completion))["text"] == text
    with client.chat.completions.stream(model=MODEL, messages=[user("Blow the horn, Di.")]) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert "chunk" in kinds and final.choices[0].finish_reason in ("stop", "length")
    assert answer_of(recorded(client, final.id))["text"] == (final.choices[0].message.content or "")


def tools(client):
    """Asks until the policy calls, answers its call, and continues; by the helper for streams, which is strictest about chunks."""
    for seed in range(40):
        messages = [user("Ring the bell, Eve.")]
        with client.chat.completions.stream(model=MODEL, messages=messages, tools=TOOLS, seed=seed) as stream:
            first = stream.get_final_completion()
        message = first.choices[0].message
        if message.tool_calls:
            break
    else:
        raise AssertionError("the policy never called")
    assert first.choices[0].finish_reason == "tool_calls"
    messages.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
    for call in message.tool_calls:
        assert call.function.name in ("bell", "horn") and json.loads(call.function.arguments) == {}
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "ding"})
    second = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
    messages += [{"role": "assistant", "content": second.choices[0].message.content or "Done."}, user("Thank you!")]
    state = recorded(client, first.id)["next_state"]
    assert f"chatcmpl-{state['request']}" == second.id
    assert [kind for _, kind, _ in state["messages"]] == ["tool result"] * len(message.tool_calls)
    client.post("/feedback", body={"completion": second.id, "rating": 1, "text": "Good."}, cast_to=object)
    assert recorded(client, second.id)["feedback"][0]["thumb"] == 1


def refusals(client, base_url, key):
    def refused(error, **settings):
        try:
            client.chat.completions.create(**{"model": MODEL, "messages": [user("x")], **settings})
        except error:
            return
        raise AssertionError(f"{settings} was not refused")

    refused(openai.NotFoundError, model="gpt-5")
    refused(openai.BadRequestError, messages=[])
    refused(openai.BadRequestError, response_format={"type": "json_object"})
    refused(openai.BadRequestError, messages=[user("x" * 100_000)])
    try:
        openai.OpenAI(base_url=base_url, api_key=key + "x").models.list()
    except openai.AuthenticationError:
        return
    raise AssertionError("a wrong key came in")


def main():
    base_url, key = sys.argv[1:]
    client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0)
    assert [model.id for model in client.models.list()] == [MODEL]
    whole(client)
    streamed(client)
    tools(client)
    refusals(client, base_url, key)
    assert client.completions.create(model=MODEL, prompt="Ring", max_tokens=3).usage.completion_tokens <= 3
    sessions = client.get("/sessions?limit=500", cast_to=object)["data"]
    turns = [turn for one in sessions for turn in client.get(f"/sessions/{one['session']}", cast_to=object)["turns"]]
    print(json.dumps(turns))


main()
