import assert from "node:assert/strict";
import { it } from "node:test";

import { CaptureServer } from "./capture-server.ts";

async function withServers(act: (front: CaptureServer, back: CaptureServer) => Promise<void>): Promise<void> {
  const back = await CaptureServer.start();
  const front = await CaptureServer.start({ upstream: { baseUrl: back.baseUrl } });
  try {
    await act(front, back);
  } finally {
    await front.stop();
    await back.stop();
  }
}

function ask(server: CaptureServer, body: object): Promise<Response> {
  const headers = { "content-type": "application/json", authorization: "Bearer k", "x-clawrl-turn": "main" };
  return fetch(`${server.baseUrl}/chat/completions`, { method: "POST", headers, body: JSON.stringify(body) });
}

async function chunksOf(response: Response): Promise<any[]> {
  const lines = (await response.text()).split("\n\n").filter((line) => line !== "");
  assert.equal(lines.pop(), "data: [DONE]");
  return lines.map((line) => JSON.parse(line.slice("data: ".length)));
}

it("streams as it was planned, with usage where that is asked for", async () => {
  await withServers(async (_front, server) => {
    server.plan({ call: "read", arguments: { path: "a" }, promptTokens: 9 }, { status: 503, retryAfterSeconds: 1 });
    const stream = { stream: true, stream_options: { include_usage: true }, messages: [] };
    const chunks = await chunksOf(await ask(server, stream));
    const [call] = chunks[1].choices[0].delta.tool_calls;
    assert.deepEqual(call.function, { name: "read", arguments: '{"path":"a"}' });
    assert.equal(chunks[2].choices[0].finish_reason, "tool_calls");
    assert.deepEqual(chunks[3].usage, { prompt_tokens: 9, completion_tokens: 8, total_tokens: 17 });
    const refused = await ask(server, stream);
    assert.deepEqual([refused.status, refused.headers.get("retry-after")], [503, "1"]);
    const plain: any = await (await ask(server, { messages: [] })).json();
    assert.equal(plain.choices[0].message.content, "Understood.");
    assert.deepEqual(server.chats().map(({ status }) => status), [200, 503, 200]);
    assert.equal(server.unplayed, 0);
  });
});

it("hands on what is not planned, and keeps it", async () => {
  await withServers(async (front, back) => {
    front.plan({ text: "planned" });
    const planned: any = await (await ask(front, { messages: [] })).json();
    assert.equal(planned.choices[0].message.content, "planned");
    back.plan({ text: "from behind" }, { status: 401 });
    const chunks = await chunksOf(await ask(front, { stream: true, messages: [] }));
    assert.equal(chunks[1].choices[0].delta.content, "from behind");
    assert.equal((await ask(front, { messages: [] })).status, 401);
    const models: any = await (await fetch(`${front.baseUrl}/models`)).json();
    assert.equal(models.data[0].id, "clawrl");
    assert.deepEqual([front.captured.length, back.captured.length], [4, 3]);
    const { headers } = back.captured[0]!;
    assert.deepEqual([headers.authorization, headers["x-clawrl-turn"]], ["Bearer k", "main"]);
  });
});

it("waits for what is answered, and not for ever", async () => {
  await withServers(async (_front, server) => {
    const two = server.until("two requests", () => server.chats().length >= 2, 60);
    await ask(server, { messages: [] });
    await ask(server, { messages: [] });
    await two;
    await assert.rejects(server.until("third one", () => server.chats().length >= 3, 0.01), /no third one in 0.01 s/);
  });
});
