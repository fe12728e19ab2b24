import assert from "node:assert/strict";
import { it } from "node:test";

import { Gateway, newGatewayState, type Endpoint, type GatewayState } from "../src/gateway.ts";
import { CaptureServer } from "./capture-server.ts";

function gatewayAt(endpoint: Endpoint | undefined, more: { state?: GatewayState; fetch?: typeof fetch } = {}) {
  const logged: string[] = [];
  const gateway = new Gateway({
    state: newGatewayState(),
    endpoint: async () => endpoint,
    log: (message) => logged.push(message),
    timeLimitMs: 200,
    ...more,
  });
  return { gateway, logged };
}

it("says that a session is over, and what an answer was worth", async () => {
  const server = await CaptureServer.start();
  try {
    const { gateway, logged } = gatewayAt({ baseUrl: `${server.baseUrl}/`, apiKey: "k" });
    await gateway.close("s1");
    assert.equal(await gateway.rate("s1", -1, "too long"), true);
    assert.equal(await gateway.rate("s1", 1, ""), true);
    const sent = server.captured.map(({ method, path, headers, body }) => [method, path, headers.authorization, body]);
    assert.deepEqual(sent, [
      ["POST", "/v1/sessions/close", "Bearer k", { session: "s1" }],
      ["POST", "/v1/feedback", "Bearer k", { session: "s1", rating: -1, source: "extension", text: "too long" }],
      ["POST", "/v1/feedback", "Bearer k", { session: "s1", rating: 1, source: "extension" }],
    ]);
    assert.deepEqual(logged, []);
  } finally {
    await server.stop();
  }
});

it("i1 and i2 logs a failure once and does not throw", async () => {
  let answer = async (): Promise<Response> => {
    throw new TypeError("refused");
  };
  const { gateway, logged } = gatewayAt({ baseUrl: "http://gone/v1", apiKey: undefined }, { fetch: () => answer() });
  await gateway.close("s1");
  await gateway.close("s1");
  answer = async () => new Response("", { status: 404 });
  assert.equal(await gateway.rate("s1", 1, ""), false);
  assert.equal(logged.length, 1);
  assert.match(logged[0]!, /sessions\/close failed.*refused/);
  answer = async () => new Response("{}");
  await gateway.close("s1");
  answer = async () => new Response("", { status: 500 });
  await gateway.close("s1");
  assert.equal(logged.length, 2);
  assert.match(logged[1]!, /status 500/);
});

it("i1 ends within its time limit", async () => {
  const hanging: typeof fetch = (_url, init) =>
    new Promise((_resolve, reject) => init?.signal?.addEventListener("abort", () => reject(init.signal?.reason)));
  const { gateway, logged } = gatewayAt({ baseUrl: "http://slow/v1", apiKey: undefined }, { fetch: hanging });
  await gateway.close("s1");
  assert.match(logged[0]!, /TimeoutError/);
});

it("i1 does without an endpoint, and with one that cannot be found", async () => {
  const { gateway, logged } = gatewayAt(undefined);
  await gateway.close("s1");
  assert.equal(await gateway.rate("s1", 1, ""), false);
  assert.deepEqual(logged, []);
  const endpoint = (): Promise<never> => Promise.reject(new Error("no key"));
  const complaints: string[] = [];
  const broken = new Gateway({ state: newGatewayState(), endpoint, log: (message) => complaints.push(message) });
  assert.equal(await broken.rate("s1", 1, ""), false);
  assert.match(complaints[0]!, /no key/);
});

it("lets the next request of a session wait for its end, in every registration", async () => {
  const state = newGatewayState();
  let release = (_response: Response): void => {};
  const slow = () => new Promise<Response>((resolve) => (release = resolve));
  const { gateway } = gatewayAt({ baseUrl: "http://slow/v1", apiKey: undefined }, { state, fetch: slow });
  const { gateway: other } = gatewayAt(undefined, { state });
  assert.equal(other.closing("s1"), undefined);
  const closed = gateway.close("s1");
  assert.notEqual(other.closing("s1"), undefined);
  assert.equal(other.closing("s2"), undefined);
  // The endpoint is looked up first.
  await new Promise((resolve) => setImmediate(resolve));
  release(new Response("{}"));
  await closed;
  assert.equal(other.closing("s1"), undefined);
});
