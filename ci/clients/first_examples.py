"""The first examples of clients' documents, against `clawrl serve policy.yaml`: chat, structured answers, tools, streams.

    python ci/clients/first_examples.py BASE_URL KEY

The server behind the policy file has to honour `tool_choice` and `response_format`, and to call the tool `price` where it is asked what a thing
costs: harness/clawrl/tests/it/serving.rs has one. Ends with an assertion that does not hold, otherwise.

Made with openai 3.57.0 and pydantic-ai-slim 2.68.0.
"""

import asyncio
import sys

import openai
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

MODEL = "clawrl"


class CalendarEvent(BaseModel):
    name: str
    day: int
    participants: list[str]


class CityLocation(BaseModel):
    city: str
    country: str


def user(text):
    return {"role": "user", "content": text}


def openai_sdk(base_url, key):
    client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0)
    pirate = [{"role": "developer", "content": "Talk like a pirate."}, user("How do I check the type of an object?")]
    completion = client.chat.completions.create(model=MODEL, messages=pirate)
    assert completion.choices[0].message.content and completion._request_id.startswith("req-")
    stream = client.chat.completions.create(model=MODEL, messages=[user("Say this is a test")], stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    event = [user("Alice and Bob are going to a science fair on the 7th.")]
    parsed = client.chat.completions.parse(model=MODEL, messages=event, response_format=CalendarEvent)
    assert parsed.choices[0].message.parsed == CalendarEvent(name="text", day=7, participants=["text"])
    parameters = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": parameters}}]
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        weather = [user(f"What is the weather like in Paris today, {choice}?")]
        completion = client.chat.completions.create(model=MODEL, messages=weather, tools=tools, tool_choice=choice)
        call = completion.choices[0].message.tool_calls[0].function
        assert (call.name, call.arguments) == ("get_weather", '{"location":"text"}'), call


def pydantic_ai(base_url, key):
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=base_url, api_key=key))
    agent = Agent(model, instructions="Be concise, reply with one sentence.")
    assert agent.run_sync('Where does "hello world" come from?').output
    for output in (CityLocation, NativeOutput(CityLocation)):
        located = Agent(model, output_type=output).run_sync("Where were the olympics held in 2012?")
        assert located.output == CityLocation(city="text", country="text"), located.output
    asked = []
    seller = Agent(model)

    @seller.tool_plain
    def price(key: str) -> str:
        """The price of a thing."""
        asked.append(key)
        return "35"

    assert seller.run_sync("What does melon cost").output and asked == ["melon"]

    async def streamed():
        async with agent.run_stream("Hello") as result:
            return [text async for text in result.stream_text(delta=True)]

    assert "".join(asyncio.run(streamed()))


openai_sdk(*sys.argv[1:])
pydantic_ai(*sys.argv[1:])
