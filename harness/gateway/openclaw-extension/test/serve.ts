// The real OpenClaw in conversation with the real `clawrl serve`, and the resulting record.
//
// The upstream server is scripted, so that tests control calls, failures and usage; in the last conversation, a local
// policy answers and is trained. CLAWRL names the program; ci/openclaw/run.sh sets it.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { Client } from "./client.ts";
import { Conversation, MAIN, SECONDS, TRIES, has } from "./conversation.ts";
import { Served, type Answer, type Turn } from "./served.ts";

/** The gateway's default context is 32768 tokens, and the client compacts at 24576. */
const NEARLY_FULL = 26_000;
const MANY_WORDS = "in many words ".repeat(50);
const POSITIONS = 65_536;
/**
 * A policy of half a million parameters reads 38,000 tokens of OpenClaw's usual prompt for minutes, and a fifth of them soon. As it has learned
 * nothing, it repeats the line break that ends its prompt, which nobody sees, unless it is hot.
 */
const SHORT_AND_HOT = {
  tools: { allow: ["read"] },
  skills: { allowBundled: ["weather"] },
  agents: { defaults: { skipBootstrap: true, params: { temperature: 2 } } },
};

const QUESTIONS = ["Wales", "Scotland", "Ireland", "France", "Spain", "Italy", "Greece", "Malta"].map(
  (country) => `What is the capital of ${country}?`,
);

function checkMain(turns: Turn[], count: number): void {
  assert.deepEqual(
    turns.map(({ kind, mark, state }) => [kind, mark, state]),
    Array(count).fill(["main", null, "answered"]),
  );
}

function checkSide(turns: Turn[], mark: string): void {
  assert.ok(turns.length > 0);
  for (const turn of turns) assert.deepEqual([turn.kind, turn.mark, turn.next_state, turn.reward], ["side", mark, null, null]);
}

describe("with the extension", () => {
  const chat = new Conversation();
  let latest: Turn;

  before(() => chat.start("extension"));
  after(() => chat.stop());

  it("records what was asked, and as the next state what was said to the answer", async () => {
    const [first, ...none] = await chat.say("What is the capital of Wales?");
    assert.deepEqual(none, []);
    checkMain([first!], 1);
    assert.deepEqual([first!.evidence, first!.epoch, first!.parent], ["extension", 0, null]);
    assert.equal(first!.requests.length, 1);
    const [request] = first!.requests;
    assert.equal(request!.answers[0]?.text, "Understood.");
    // Answers without token ids are judged, and not trained on.
    assert.equal(request!.answers[0]?.exact, false);
    const [second] = await chat.say("Thanks, that is what I wanted.");
    const judged = await chat.checkNext(first!, second!, "Thanks, that is what I wanted.", 1);
    assert.deepEqual(judged.samples, []);
    const [third] = await chat.say("No, that's wrong.");
    await chat.checkNext(second!, third!, "No, that's wrong.", -1);
    latest = third!;
  });

  it("passes the usage on by which the client compacts", () => {
    const sent = JSON.stringify(chat.upstream.chats().at(-1)!.body).length;
    assert.equal(latest.requests[0]!.prompt_tokens, Math.ceil(sent / 4));
  });

  it("records each request of a loop of tools, and their results", async () => {
    const calls = [
      { call: "read", arguments: { path: "AGENTS.md" } },
      { call: "exec", arguments: { command: "true" } },
    ];
    chat.upstream.plan(...calls);
    const loop = await chat.say("Read the file AGENTS.md.");
    checkMain(loop, 3);
    await chat.checkNext(latest, loop[0]!, "Read the file AGENTS.md.", 0);
    for (const [place, { call, arguments: given }] of calls.entries()) {
      const [turn, next] = [await chat.judged(loop[place]!), loop[place + 1]!];
      const made = turn.requests[0]!.answers[0]!.calls.map(({ name, arguments: written }) => [name, JSON.parse(written)]);
      assert.deepEqual(made, [[call, given]]);
      assert.equal(next.parent, turn.turn);
      assert.equal(turn.next_state?.request, next.turn);
      assert.deepEqual(turn.next_state.messages.map(([, kind, call]) => [kind, call]), [["tool result", 0]]);
      assert.deepEqual([turn.reward?.value, turn.reward?.source], [0, "judges"]);
    }
    latest = loop[2]!;
  });

  it("tries again by itself what may pass, and the client hears nothing of it", async () => {
    const from = chat.upstream.captured.length;
    chat.upstream.plan({ status: 503 });
    const turns = await chat.say("Name a river.");
    checkMain(turns, 1);
    assert.deepEqual(chat.upstream.chats(from).map(({ status }) => status), [503, 200]);
    assert.deepEqual(turns[0]!.requests.map(({ state }) => state), ["answered"]);
    await chat.checkNext(latest, turns[0]!, "Name a river.", 0);
    latest = turns[0]!;
  });

  it("takes what the client tries again for the same turn, and for no feedback", async () => {
    const from = chat.upstream.captured.length;
    chat.upstream.plan(...Array(TRIES + 1).fill({ status: 503 }));
    const turns = await chat.say("Name a lake.");
    checkMain(turns, 1);
    assert.deepEqual(chat.upstream.chats(from).map(({ status }) => status), [503, 503, 503, 200]);
    const requests = turns[0]!.requests.map(({ state, is_retry }) => [state, is_retry]);
    assert.deepEqual(requests, [["failed", false], ["answered", true]]);
    await chat.checkNext(latest, turns[0]!, "Name a lake.", 0);
    const [next] = await chat.say("Name a mountain.");
    await chat.checkNext(turns[0]!, next!, "Name a mountain.", 0);
    latest = next!;
  });

  it("takes a heartbeat for a side turn, and what is said to it for nothing else", async () => {
    chat.upstream.plan({ text: "Your mail is full." });
    const turns = await chat.heartbeat();
    checkSide(turns, "triggered by `heartbeat`");
    assert.deepEqual(turns.map(({ parent }) => parent), [latest.turn]);
    const [next] = await chat.say("No, it is not.");
    checkMain([next!], 1);
    const heartbeat = await chat.served.turn(turns[0]!.turn);
    assert.equal(next!.parent, heartbeat.turn);
    assert.equal(heartbeat.next_state?.request, next!.turn);
    const before = await chat.served.turn(latest.turn);
    assert.deepEqual([before.next_state, before.reward, heartbeat.reward], [null, null, null]);
    latest = next!;
  });

  it("knows nothing of a heartbeat that had nothing to say, as the client forgets it", async () => {
    chat.upstream.plan({ text: "HEARTBEAT_OK" });
    checkSide(await chat.heartbeat(), "triggered by `heartbeat`");
    const [next] = await chat.say("Great, name another lake.");
    await chat.checkNext(latest, next!, "Great, name another lake.", 1);
    latest = next!;
  });

  it("judges by /good and /bad before all rules, and the last word counts", async () => {
    for (const words of ["/good", "/bad  it was too long "]) {
      const known = (await chat.served.turn(latest.turn)).feedback.length;
      await chat.client.type(words, MAIN);
      await chat.served.until(
        "feedback",
        async () => ((await chat.served.turn(latest.turn)).feedback.length > known ? true : undefined),
        SECONDS,
      );
    }
    const turn = await chat.served.turn(latest.turn);
    const said = turn.feedback.map(({ source, thumb, text }) => [source, thumb, text]);
    assert.deepEqual(said, [["extension", 1, null], ["extension", -1, "it was too long"]]);
    const [next] = await chat.say("Thanks, name a valley.");
    // The commands are in the client's history and in the next state, and are removed before judging.
    const judged = await chat.served.until("vote", async () => {
      const now = await chat.served.turn(latest.turn);
      return now.votes.length > 0 ? now : undefined;
    }, SECONDS);
    assert.equal(judged.next_state?.request, next!.turn);
    assert.deepEqual(judged.votes.find(({ judge }) => judge === "turn")?.score, 1);
    assert.deepEqual([judged.reward?.value, judged.reward?.source], [-1, "feedback"]);
    // Later, the client sends them and the following words as one message.
    const [behind] = await chat.say("Thank you.");
    await chat.checkNext(next!, behind!, "Thank you.", 1);
    latest = behind!;
  });

  it("labels a memory flush and a compaction as side turns, and continues after them", async () => {
    chat.upstream.plan({ text: "I have said a lot.", promptTokens: NEARLY_FULL });
    const [full] = await chat.type("Tell me a lot.");
    await chat.checkNext(latest, full!, "Tell me a lot.", 0);
    assert.equal(full!.requests[0]!.prompt_tokens, NEARLY_FULL);
    const turns = await chat.type("What comes next?");
    const of = (mark: string) => turns.filter((turn) => turn.mark === mark);
    const [flushes, compactions] = [of("triggered by `memory`"), of("header x-clawrl-turn")];
    checkSide(flushes, "triggered by `memory`");
    for (const flush of flushes) assert.ok(has(flush, "Pre-compaction memory flush."));
    checkSide(compactions, "header x-clawrl-turn");
    const main = turns.filter(({ kind }) => kind === "main");
    checkMain(main, 1);
    assert.equal(flushes.length + compactions.length + main.length, turns.length);
    assert.equal(main[0]!.epoch, full!.epoch + 1);
    // The answer was kept, and so is its next state.
    await chat.checkNext(full!, main[0]!, "What comes next?", 0);
    latest = main[0]!;
  });

  it("tells the client of a conversation that is too long, and goes on behind its compaction", async () => {
    const [more] = await chat.say(`One thing more ${MANY_WORDS}`);
    await chat.checkNext(latest, more!, "One thing more", 0);
    chat.upstream.plan({ status: 400, message: "This model's maximum context length is 32768 tokens." });
    const turns = await chat.say(`This is too much ${MANY_WORDS}`);
    const main = turns.filter(({ kind }) => kind === "main");
    assert.deepEqual(main.map(({ state, requests }) => [state, requests.length]), [["unanswered", 1], ["answered", 1]]);
    assert.equal(main[1]!.epoch, main[0]!.epoch + 1);
    const [next] = await chat.say("The end is near.");
    await chat.checkNext(main[1]!, next!, "The end is near.", 0);
    latest = next!;
  });

  it("ends the session at /new, with its last turn unjudged", async () => {
    await chat.client.agent("/new", MAIN);
    const [session] = (await chat.served.sessions()).filter(({ turns }) => turns.some(({ turn }) => turn === latest.turn));
    assert.equal(session!.why, "endpoint");
    const last = await chat.served.turn(latest.turn);
    assert.deepEqual([last.ended_without_next_state, last.next_state, last.reward], [true, null, null]);
    const [next] = await chat.say("What is a new beginning?");
    checkMain([next!], 1);
    assert.equal(next!.parent, null);
    assert.notEqual(next!.session, latest.session);
    assert.equal(chat.upstream.unplayed, 0);
  });
});

describe("without the extension", () => {
  const chat = new Conversation();
  let latest: Turn;

  before(() => chat.start("provider"));
  after(() => chat.stop());

  it("records what was asked, and as the next state what was said to the answer", async () => {
    const [first] = await chat.say("What is the capital of Wales?");
    checkMain([first!], 1);
    assert.deepEqual([first!.evidence, first!.epoch, first!.parent], ["affinity", 0, null]);
    const [second] = await chat.say("Perfect, and of Scotland?");
    await chat.checkNext(first!, second!, "Perfect, and of Scotland?", 1);
    latest = second!;
  });

  it("knows what the client tries again by its words", async () => {
    chat.upstream.plan({ call: "exec", arguments: { command: "true" } }, ...Array(TRIES + 1).fill({ status: 503 }));
    const turns = await chat.say("Run it.");
    checkMain(turns, 2);
    assert.deepEqual(turns.map(({ requests }) => requests.length), [1, 2]);
    await chat.checkNext(latest, turns[0]!, "Run it.", 0);
    const call = await chat.judged(turns[0]!);
    assert.deepEqual(call.next_state?.messages.map(([, kind, place]) => [kind, place]), [["tool result", 0]]);
    latest = turns[1]!;
  });

  it("knows a heartbeat by its text", async () => {
    checkSide(await chat.heartbeat(), "a heartbeat");
    const [next] = await chat.say("Name a river.");
    checkMain([next!], 1);
    const before = await chat.served.turn(latest.turn);
    assert.deepEqual([before.next_state, before.reward], [null, null]);
    latest = next!;
  });

  it("recognises a memory flush and a compaction by their texts", async () => {
    chat.upstream.plan({ text: "I have said a lot.", promptTokens: NEARLY_FULL });
    const [full] = await chat.type("Tell me a lot.");
    await chat.checkNext(latest, full!, "Tell me a lot.", 0);
    const turns = await chat.type("What comes next?");
    const of = (mark: string) => turns.filter((turn) => turn.mark === mark);
    checkSide(of("a memory flush"), "a memory flush");
    checkSide(of("a compaction"), "a compaction");
    const main = turns.filter(({ kind }) => kind === "main");
    checkMain(main, 1);
    assert.equal(main[0]!.epoch, full!.epoch + 1);
    await chat.checkNext(full!, main[0]!, "What comes next?", 0);
    latest = main[0]!;
  });

  it("has no commands: /bad is a turn, and no complaint", async () => {
    const [command] = await chat.type("/bad");
    checkMain([command!], 1);
    assert.equal(command!.parent, latest.turn);
    assert.deepEqual((await chat.served.turn(latest.turn)).feedback, []);
    latest = command!;
  });

  it("goes on in the same session after /new, in another epoch", async () => {
    await chat.client.agent("/new", MAIN);
    const [next] = await chat.say("What is a new beginning?");
    checkMain([next!], 1);
    assert.deepEqual([next!.session, next!.epoch, next!.parent], [latest.session, latest.epoch + 1, null]);
    assert.equal(chat.upstream.unplayed, 0);
  });
});

describe("with a policy of its own", () => {
  let served: Served;
  let client: Client;

  before(async () => {
    served = await Served.tiny(POSITIONS);
    const { baseUrl, key, configuration, extension } = served;
    // Gibberish does not end by itself.
    const filledIn = configuration.replace(/maxTokens: \d+/, "maxTokens: 64");
    client = await Client.configure({ template: "extension", baseUrl, key, filledIn, extension, config: SHORT_AND_HOT });
    await client.start();
  });
  after(async () => {
    await client?.stop();
    await served?.stop();
  });

  async function say(words: string): Promise<Turn> {
    await client.agent(words, MAIN);
    const turn = (await served.turns()).filter(({ kind }) => kind === "main").at(-1);
    assert.ok(turn !== undefined && has(turn, words));
    return turn;
  }

  /** Any answer. */
  function checkExact(turn: Turn, version: number, adapter: string | null): void {
    const request = turn.requests.at(-1)!;
    const answer: Answer = request.answers[0]!;
    assert.deepEqual([answer.exact, answer.inexact], [true, null]);
    assert.equal(request.prompt_ids.length, request.prompt_tokens);
    assert.ok(answer.sampled_ids.length > 0);
    assert.equal(answer.logprobs.length, answer.sampled_ids.length);
    assert.ok(answer.logprobs.every((logprob) => logprob <= 0));
    assert.deepEqual(answer.versions, [[0, version]]);
    assert.equal(answer.adapter, adapter);
  }

  it("records tokens as they were fed and sampled, and learns from what is said of them", async () => {
    const turns = [await say(QUESTIONS[0]!)];
    // Some gibberish is invisible: white space, or tokens without text.
    const isSeen = ({ state }: Turn) => state === "answered";
    while (!turns.slice(-2).every(isSeen) || turns.length < 2) {
      assert.ok(turns.length < QUESTIONS.length, "nothing that anybody sees");
      turns.push(await say(QUESTIONS[turns.length]!));
    }
    for (const turn of turns) checkExact(turn, 0, null);
    const [first, second] = [turns.at(-2)!, turns.at(-1)!];
    assert.equal((await served.turn(first.turn)).next_state?.request, second.turn);
    await client.type("/bad answer in Welsh", MAIN);
    const waits = async () => ((await served.get("/policy")).waiting >= 1 ? true : undefined);
    await served.until("sample", waits, SECONDS);
    const [sample, ...none] = (await served.turn(second.turn)).samples;
    assert.deepEqual(none, []);
    assert.deepEqual([sample?.reward, sample?.hint, sample?.state], [-1, "answer in Welsh", "waiting"]);
    const policy = await served.post("/policy/train");
    assert.deepEqual([policy.version, policy.waiting, policy.versions[0]?.accepted], [1, 0, true], JSON.stringify(policy));
    const trained = await served.turn(second.turn);
    assert.deepEqual(trained.samples.map(({ state }) => state), ["trained"]);
    assert.deepEqual(trained.updates.map(({ version_after, state }) => [version_after, state]), [[1, "accepted"]]);
    checkExact(await say("And of Cyprus?"), 1, "user-me");
  });
});
