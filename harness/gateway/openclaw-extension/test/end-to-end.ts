// The real OpenClaw against a recording server: the labels of its requests, with the extension and without.
//
// With CLAWRL_BASE_URL and CLAWRL_KEY it talks to a real gateway through the same server, which answers planned requests
// and forwards all others. CLAWRL_CAPTURES names a folder for the requests, as lines of JSON.

import assert from "node:assert/strict";
import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { CaptureServer, type Captured } from "./capture-server.ts";
import { Client } from "./client.ts";

const KEY = process.env["CLAWRL_KEY"] ?? "key-of-the-test";
const CAPTURES = process.env["CLAWRL_CAPTURES"];
const GATEWAY = process.env["CLAWRL_BASE_URL"];
const MAIN = "agent:main:main";
const DAY_MS = 86_400_000;
/** A deadline that only a failure reaches. */
const SECONDS = 240;
/** The window of the model in the templates is 32768, and the client compacts at 24576. */
const NEARLY_FULL = 26_000;

const SMALL_TAIL = { agents: { defaults: { compaction: { keepRecentTokens: 100 } } } };

type Label = { session?: string; epoch?: string; turn?: string; trigger?: string };

function labelOf({ headers }: Captured): Label {
  const ours = Object.entries(headers).filter(([name]) => name.startsWith("x-clawrl-"));
  return Object.fromEntries(ours.map(([name, value]) => [name.slice("x-clawrl-".length), String(value)]));
}

/** The client's own header for the session and its epoch. */
function affinityOf({ headers }: Captured): string {
  return String(headers["x-session-affinity"]);
}

function textOf(message: any): string {
  return typeof message.content === "string" ? message.content : JSON.stringify(message.content);
}

/** Whether these words are in the request. */
function has(captured: Captured, words: string): boolean {
  return captured.body.messages.some((message: any) => message.role === "user" && textOf(message).includes(words));
}

function isSummary(captured: Captured): boolean {
  return textOf(captured.body.messages[0]).startsWith("You are a context summarization assistant");
}

async function startServer(name: string): Promise<CaptureServer> {
  const server = await CaptureServer.start(GATEWAY === undefined ? {} : { upstream: { baseUrl: GATEWAY } });
  if (CAPTURES !== undefined) {
    const file = join(CAPTURES, `${name}.jsonl`);
    writeFileSync(file, "");
    server.onAnswer = (captured) => appendFileSync(file, `${JSON.stringify(captured)}\n`);
  }
  return server;
}

describe("with the extension", () => {
  let server: CaptureServer;
  let client: Client;
  let session: string;

  before(async () => {
    server = await startServer("with");
    client = await Client.configure({ template: "extension", baseUrl: server.baseUrl, key: KEY, config: SMALL_TAIL });
  });
  after(async () => {
    await client?.stop();
    await server?.stop();
  });

  /** The requests that `act` causes. */
  async function during(act: () => Promise<unknown>): Promise<Captured[]> {
    const from = server.captured.length;
    await act();
    return server.chats(from);
  }

  /** Types `words` into the chat, and waits for the answer to the user's first request with them. */
  async function say(words: string): Promise<Captured[]> {
    return during(async () => {
      const from = server.captured.length;
      await client.type(words, MAIN);
      const isAnswered = () =>
        server.chats(from).some((each) => each.status === 200 && has(each, words) && labelOf(each).turn === "main");
      await server.until(`answer to ${words}`, isAnswered, SECONDS);
    });
  }

  function checkMain(captured: Captured[], count: number): void {
    assert.equal(captured.length, count);
    for (const each of captured) {
      const { session, epoch, ...turn } = labelOf(each);
      assert.deepEqual(turn, { turn: "main", trigger: "user" });
      assert.equal(`${session}:${epoch}`, affinityOf(each));
      assert.equal(each.headers.authorization, `Bearer ${KEY}`);
    }
  }

  it("labels a turn of a process of its own", async () => {
    checkMain(await during(() => client.local("s1", "hello")), 1);
    assert.deepEqual(labelOf(server.chats().at(-1)!), { session: "s1", epoch: "0", turn: "main", trigger: "user" });
  });

  it("labels a turn of the daemon", async () => {
    await client.start();
    const captured = await during(() => client.agent("good morning", MAIN));
    checkMain(captured, 1);
    session = labelOf(captured[0]!).session ?? "";
    assert.notEqual(session, "");
  });

  it("labels each request of a loop of tools", async () => {
    server.plan({ call: "read", arguments: { path: "AGENTS.md" } }, { call: "exec", arguments: { command: "true" } });
    const captured = await during(() => client.agent("read it", MAIN));
    checkMain(captured, 3);
    const roles = captured.map(({ body }) => body.messages.filter((each: any) => each.role === "tool").length);
    assert.deepEqual(roles, [0, 1, 2]);
  });

  it("labels what is tried again", async () => {
    server.plan({ status: 503 }, { status: 503 });
    const captured = await during(() => client.agent("try again", MAIN));
    checkMain(captured, 3);
    assert.deepEqual(captured.map(({ status }) => status), [503, 503, 200]);
  });

  it("labels a heartbeat", async () => {
    const captured = await during(async () => {
      const from = server.captured.length;
      await client.call("wake", { mode: "now", text: "something happened" });
      await server.until("heartbeat", () => server.chats(from).some(({ status }) => status === 200), SECONDS);
    });
    const epoch = labelOf(captured[0]!).epoch;
    assert.deepEqual(labelOf(captured[0]!), { session, epoch, turn: "side", trigger: "heartbeat" });
  });

  it("labels a scheduled job", async () => {
    const captured = await during(async () => {
      const from = server.captured.length;
      const { id } = await client.call("cron.add", {
        name: "test",
        schedule: { kind: "at", at: new Date(Date.now() + DAY_MS).toISOString() },
        sessionTarget: "isolated",
        wakeMode: "now",
        payload: { kind: "agentTurn", message: "do your job" },
      });
      await client.call("cron.run", { id, mode: "force" });
      await server.until("job", () => server.chats(from).some((each) => has(each, "do your job")), SECONDS);
    });
    const { session: own, ...rest } = labelOf(captured[0]!);
    assert.deepEqual(rest, { epoch: "0", turn: "side", trigger: "cron" });
    assert.notEqual(own, session);
  });

  it("labels a memory flush, a compaction, and the turn after them", async () => {
    server.plan({ text: "I have said a lot.", promptTokens: NEARLY_FULL });
    const before = await say("tell me a lot");
    checkMain(before, 1);
    const epoch = Number(labelOf(before[0]!).epoch);
    const captured = await say("and now");
    const flush = captured.filter((each) => labelOf(each).trigger === "memory");
    const summaries = captured.filter(isSummary);
    const main = captured.filter((each) => labelOf(each).turn === "main");
    assert.ok(flush.length > 0 && summaries.length > 0);
    assert.equal(flush.length + summaries.length + main.length, captured.length);
    for (const each of flush) {
      assert.equal(labelOf(each).turn, "side");
      assert.ok(has(each, "Pre-compaction memory flush."));
    }
    for (const each of summaries) assert.deepEqual(labelOf(each), { session, turn: "side" });
    checkMain(main, 1);
    assert.deepEqual(labelOf(main[0]!), { session, epoch: String(epoch + 1), turn: "main", trigger: "user" });
  });

  it("labels a compaction that somebody asked for", async () => {
    for (const words of ["one thing", "and another"]) await client.agent(`${words} ${"in many words ".repeat(50)}`, MAIN);
    const captured = await during(() => client.call("sessions.compact", { key: MAIN }));
    assert.ok(captured.length > 0);
    for (const each of captured) assert.deepEqual(labelOf(each), { session, turn: "side" });
  });

  it("labels a turn that did not fit, and the same turn behind its compaction", async () => {
    server.plan({ status: 400, message: "This model's maximum context length is 32768 tokens." });
    const captured = await during(() => client.agent(`too much ${"in many words ".repeat(50)}`, MAIN));
    const [summaries, turn] = [captured.filter(isSummary), captured.filter((each) => !isSummary(each))];
    // There may be none: a summary may exist already.
    for (const each of summaries) assert.deepEqual(labelOf(each), { session, turn: "side" });
    checkMain(turn, 2);
    assert.equal(Number(labelOf(turn[1]!).epoch), Number(labelOf(turn[0]!).epoch) + 1);
  });

  it("sends /good and /bad to the gateway, and not to the model", async () => {
    const from = server.captured.length;
    await client.type("/good", MAIN);
    await client.type("/bad  it was too long ", MAIN);
    await server.until("feedback", () => server.others(from).length >= 2, SECONDS);
    assert.equal(server.chats(from).length, 0);
    const sent = server.others(from);
    assert.ok(sent.every((each) => each.path === "/v1/feedback" && each.headers.authorization === `Bearer ${KEY}`));
    const bodies = sent.map(({ body }) => body).sort((a, b) => b.rating - a.rating);
    const good = { session, rating: 1, source: "extension" };
    assert.deepEqual(bodies, [good, { ...good, rating: -1, text: "it was too long" }]);
  });

  it("ends the session at /new, before the first request of the next one", async () => {
    const [before] = await during(() => client.agent("the end is near", MAIN));
    const from = server.captured.length;
    await client.agent("/new", MAIN);
    checkMain(await during(() => client.agent("a new beginning", MAIN)), 1);
    const since = server.captured.filter(({ n }) => n >= from);
    assert.deepEqual(since.map(({ path }) => path), ["/v1/sessions/close", "/v1/chat/completions"]);
    assert.deepEqual(since[0]!.body, { session });
    assert.equal(Number(labelOf(since[1]!).epoch), Number(labelOf(before!).epoch) + 1);
  });

  it("labels what another agent is asked, and what it answers, as no turn of the user", async () => {
    const task = { task: "count to three", label: "counter" };
    server.plan({ call: "tool_call", arguments: { id: "sessions_spawn", args: task } });
    const isAnswer = (each: Captured) => has(each, "A background task completed");
    const captured = await during(async () => {
      const from = server.captured.length;
      await client.agent("let somebody count", MAIN);
      await server.until("answer of the other agent", () => server.chats(from).some(isAnswer), SECONDS);
    });
    const others = captured.filter((each) => labelOf(each).session !== session);
    const answers = captured.filter((each) => labelOf(each).session === session && isAnswer(each));
    assert.ok(others.length > 0 && answers.length > 0);
    for (const each of [...others, ...answers]) {
      assert.equal(labelOf(each).turn, "side");
      assert.equal(labelOf(each).trigger, undefined);
    }
  });

  it("ends a session that is deleted", async () => {
    const captured = await during(() => client.agent("not for long", "agent:main:doomed"));
    const doomed = captured.find((each) => has(each, "not for long"));
    const from = server.captured.length;
    await client.call("sessions.delete", { key: "agent:main:doomed" });
    await server.until("end", () => server.others(from).length > 0, SECONDS);
    assert.deepEqual(server.others(from).map(({ body }) => body), [{ session: labelOf(doomed!).session }]);
  });

  it("ends no session when the client stops", async () => {
    const from = server.captured.length;
    await client.stop();
    assert.deepEqual(server.others(from).map(({ path }) => path), []);
    assert.equal(server.unplayed, 0);
  });
});

describe("with the extension, and no access to conversations", () => {
  let server: CaptureServer;
  let client: Client;

  before(async () => {
    server = await startServer("no-access");
    const config = { plugins: { entries: { clawrl: { hooks: { allowConversationAccess: false } } } } };
    client = await Client.configure({ template: "extension", baseUrl: server.baseUrl, key: KEY, config });
  });
  after(async () => {
    await client?.stop();
    await server?.stop();
  });

  it("names the session, and labels nothing", async () => {
    await client.local("s1", "hello");
    assert.deepEqual(server.chats().map(labelOf), [{ session: "s1", epoch: "0" }]);
  });
});

describe("without the extension", () => {
  let server: CaptureServer;
  let client: Client;

  before(async () => {
    server = await startServer("without");
    const headers = { "x-clawrl-trigger": "user" };
    const config = { models: { providers: { clawrl: { headers } } }, ...SMALL_TAIL };
    client = await Client.configure({ template: "provider", baseUrl: server.baseUrl, key: KEY, config });
    await client.start();
  });
  after(async () => {
    await client?.stop();
    await server?.stop();
  });

  it("names the session and its epoch, and sends static headers", async () => {
    await client.agent("good morning", MAIN);
    await client.agent("and good night", MAIN);
    await client.agent("/new", MAIN);
    await client.agent("a new beginning", MAIN);
    const affinities = server.chats().map(affinityOf);
    const session = affinities[0]!.split(":")[0];
    assert.deepEqual(affinities, [`${session}:0`, `${session}:0`, `${session}:1`]);
    for (const each of server.chats()) {
      assert.deepEqual(labelOf(each), { trigger: "user" });
      assert.equal(each.headers["session_id"], affinityOf(each));
    }
    assert.deepEqual(server.others(), []);
  });

  it("has no /good: it goes to the model", async () => {
    const from = server.captured.length;
    await client.type("/good", MAIN);
    await server.until("request", () => server.chats(from).some((each) => has(each, "/good")), SECONDS);
    assert.deepEqual(server.others(from), []);
  });

  it("cannot tell a heartbeat from a turn, nor the epoch of a compaction", async () => {
    const from = server.captured.length;
    await client.call("wake", { mode: "now", text: "something happened" });
    await server.until("heartbeat", () => server.chats(from).some(({ status }) => status === 200), SECONDS);
    const [heartbeat] = server.chats(from);
    assert.deepEqual(labelOf(heartbeat!), { trigger: "user" });
    assert.ok(has(heartbeat!, "Follow the heartbeat monitor scratch context"));
    const before = server.captured.length;
    await client.call("sessions.compact", { key: MAIN });
    const compaction = server.chats(before);
    assert.ok(compaction.length > 0);
    for (const each of compaction) assert.equal(affinityOf(each), affinityOf(heartbeat!).split(":")[0]);
  });
});
