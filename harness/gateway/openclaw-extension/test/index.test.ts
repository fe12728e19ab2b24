import assert from "node:assert/strict";
import { it } from "node:test";

import extension from "../src/index.ts";

/** The parts of the client that the extension uses. */
function fakeClient() {
  const hooks = new Map<string, (event: any, context: any) => unknown>();
  const commands = new Map<string, any>();
  let warn = (_message: string): void => {};
  const warned = new Promise<string>((resolve) => (warn = resolve));
  const client = { hooks, commands, warned, provider: undefined as any };
  extension.register({
    on: (name: string, handler: any) => hooks.set(name, handler),
    registerProvider: (provider: any) => (client.provider = provider),
    registerCommand: (command: any) => commands.set(command.name, command),
    logger: { warn },
    runtime: { config: { current: () => ({}) }, modelAuth: { resolveApiKeyForProvider: async () => ({}) } },
  } as any);
  return client;
}

/** The headers of a sent request. */
function headersSent(provider: any, wrapper: "wrapStreamFn" | "wrapSimpleCompletionStreamFn", options: any): any {
  let sent: any;
  const streamFn = (_model: unknown, _context: unknown, given: any) => {
    sent = given;
    return "the stream";
  };
  assert.equal(provider[wrapper]({ agentId: "main", streamFn })({}, {}, options), "the stream");
  const { headers, ...rest } = sent;
  const { headers: _given, ...others } = options ?? {};
  assert.deepEqual(rest, others);
  return headers;
}

it("labels requests by what the hooks of any registration were told", () => {
  const [daemon, agent] = [fakeClient(), fakeClient()];
  daemon.hooks.get("before_model_resolve")!({}, { runId: "a", trigger: "user", sessionKey: "agent:main:main" });
  daemon.hooks.get("before_model_resolve")!({}, { runId: "b", trigger: "user", sessionKey: "agent:main:subagent:1" });
  daemon.hooks.get("before_model_resolve")!({}, { runId: "c", trigger: "user" });
  daemon.hooks.get("before_prompt_build")!({}, { runId: "c", inputProvenance: { kind: "inter_session" } });
  daemon.hooks.get("before_prompt_build")!({}, { runId: "a", inputProvenance: { kind: "external_user" } });
  daemon.hooks.get("agent_end")!({ runId: "a" }, {});
  const check = (options: any, expected: any) =>
    assert.deepEqual(headersSent(agent.provider, "wrapStreamFn", options), expected);
  const main = { "x-clawrl-session": "s1", "x-clawrl-turn": "main", "x-clawrl-trigger": "user" };
  check({ requestId: "a:model:2", sessionId: "s1", headers: { traceparent: "t" } }, { traceparent: "t", ...main });
  check({ requestId: "b:model:1" }, { "x-clawrl-turn": "side" });
  check({ requestId: "c:model:1" }, { "x-clawrl-turn": "side" });
  check({ requestId: "unheard:model:1", sessionId: "s1" }, { "x-clawrl-session": "s1" });
  check(undefined, {});
  assert.deepEqual(headersSent(agent.provider, "wrapSimpleCompletionStreamFn", {}), { "x-clawrl-turn": "side" });
  assert.deepEqual(agent.provider.resolveTransportTurnState({ sessionId: "s1" }), {
    headers: { "x-clawrl-session": "s1" },
  });
});

it("i1 sends a request without headers rather than not at all", () => {
  const { provider } = fakeClient();
  const options = { sessionId: 7, requestId: "a:model:1" };
  assert.deepEqual(headersSent(provider, "wrapStreamFn", options), {});
  assert.equal(provider.resolveTransportTurnState(options), undefined);
});

it("leaves a stream alone that is not there", () => {
  assert.equal(fakeClient().provider.wrapStreamFn({ agentId: "main" }), undefined);
});

it("does without what a version or a configuration lacks", async () => {
  const client = fakeClient();
  // Outside of the client, there are no transcripts, and the provider is not configured.
  await client.hooks.get("session_end")!({ sessionId: "s1", reason: "new" }, {});
  const said = await client.commands.get("good").handler({ sessionId: "s1", args: "" });
  assert.deepEqual(said, { text: "ClawRL's gateway did not take it." });
  assert.deepEqual(await client.commands.get("bad").handler({}), { text: "There is no conversation to rate." });
  assert.match(await client.warned, /without an epoch/);
});
