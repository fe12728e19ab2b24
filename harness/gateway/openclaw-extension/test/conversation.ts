// A conversation of the real OpenClaw with the real `clawrl serve`, in front of a scripted server, and the turns that are recorded of it.

import assert from "node:assert/strict";

import { CaptureServer } from "./capture-server.ts";
import { Client } from "./client.ts";
import { Served, type Turn } from "./served.ts";

export const MAIN = "agent:main:main";
/** A deadline that only a failure reaches. */
export const SECONDS = 120;
/** The gateway's own tries for one answer: a failure more, and the client hears of it. */
export const TRIES = 2;
const SMALL_TAIL = { agents: { defaults: { compaction: { keepRecentTokens: 100 } } } };

/** A request of a turn as it was received; the first is what the user said, in those after it are notes of the client, too. */
function bodyOf(turn: Turn): any {
  return JSON.parse(turn.requests[0]!.body);
}

function textOf(message: any): string {
  return typeof message.content === "string" ? message.content : message.content.map((part: any) => part.text).join("\n");
}

/** Whether somebody's words are in what was asked. */
export function has(turn: Turn, words: string): boolean {
  return bodyOf(turn).messages.some((message: any) => message.role === "user" && textOf(message).includes(words));
}

/** A client, the gateway it talks to, and what is behind that. */
export class Conversation {
  upstream!: CaptureServer;
  served!: Served;
  client!: Client;
  readonly #seen = new Set<number>();

  /** `stop` has to follow, even where this fails. */
  async start(template: "extension" | "provider"): Promise<void> {
    this.upstream = await CaptureServer.start();
    this.served = await Served.upstream(this.upstream.baseUrl, TRIES);
    const { baseUrl, key, configuration, extension } = this.served;
    const filledIn = template === "extension" ? { filledIn: configuration, extension } : {};
    this.client = await Client.configure({ template, baseUrl, key, ...filledIn, config: SMALL_TAIL });
    await this.client.start();
  }

  async stop(): Promise<void> {
    await this.client?.stop();
    await this.served?.stop();
    await this.upstream?.stop();
  }

  /** Turns that `act` leads to. */
  async during(act: () => Promise<unknown>): Promise<Turn[]> {
    await act();
    const turns = (await this.served.turns()).filter(({ turn }) => !this.#seen.has(turn));
    for (const { turn } of turns) this.#seen.add(turn);
    return turns;
  }

  /** Turns that these words lead to. */
  say(words: string): Promise<Turn[]> {
    return this.during(() => this.client.agent(words, MAIN));
  }

  /** The same, typed into the chat: the client looks after its memory before it asks. */
  type(words: string): Promise<Turn[]> {
    return this.during(async () => {
      await this.client.type(words, MAIN);
      await this.#answered(words);
    });
  }

  /** Turns that something which has happened leads to. */
  heartbeat(): Promise<Turn[]> {
    return this.during(async () => {
      const known = new Set((await this.served.turns()).map(({ turn }) => turn));
      await this.client.call("wake", { mode: "now", text: "something happened" });
      await this.served.until(
        "heartbeat",
        async () => (await this.served.turns()).find(({ turn, state }) => !known.has(turn) && state === "answered"),
        SECONDS,
      );
    });
  }

  #answered(words: string): Promise<Turn> {
    const isAnswered = (turn: Turn) => turn.kind === "main" && turn.state === "answered" && has(turn, words);
    return this.served.until(`answer to ${words}`, async () => (await this.served.turns()).find(isAnswered), SECONDS);
  }

  /** The turn, once somebody has judged it. */
  judged({ turn }: Turn): Promise<Turn> {
    const isJudged = async () => {
      const now = await this.served.turn(turn);
      return now.reward === null ? undefined : now;
    };
    return this.served.until(`reward of ${turn}`, isJudged, SECONDS);
  }

  /** That `next` is what came after `turn`: these words alone, of a user. Its reward, as the rules have it. */
  async checkNext(turn: Turn, next: Turn, words: string, reward: number): Promise<Turn> {
    const judged = await this.judged(turn);
    assert.equal(next.parent, turn.turn);
    assert.equal(judged.next_state?.request, next.turn);
    const messages = judged.next_state.messages;
    assert.deepEqual(messages.map(([, kind]) => kind), ["user"]);
    assert.match(textOf(bodyOf(next).messages[messages[0]![0]]), new RegExp(`^\\[[^\\]]*\\] ${RegExp.escape(words)}`));
    assert.deepEqual([judged.reward?.value, judged.reward?.source], [reward, "judges"]);
    assert.deepEqual(judged.votes.filter(({ judge }) => judge === "turn").map(({ score }) => score), [reward]);
    return judged;
  }
}
