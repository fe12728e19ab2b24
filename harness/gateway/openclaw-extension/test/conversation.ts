// A conversation of the real OpenClaw with the real `clawrl serve`, in front of a scripted server, and its recorded turns.

import assert from "node:assert/strict";

import { CaptureServer } from "./capture-server.ts";
import { Client } from "./client.ts";
import { Served, type Turn } from "./served.ts";

export const MAIN = "agent:main:main";
/** A deadline that only a failure reaches. */
export const SECONDS = 120;
/** The gateway's attempts for one answer: with one more failure, the client gets an error. */
export const TRIES = 2;
const SMALL_TAIL = { agents: { defaults: { compaction: { keepRecentTokens: 100 } } } };

/** A received request of a turn; later ones contain notes of the client, too. */
function bodyOf(turn: Turn): any {
  return JSON.parse(turn.requests[0]!.body);
}

function textOf(message: any): string {
  return typeof message.content === "string" ? message.content : message.content.map((part: any) => part.text).join("\n");
}

/** Whether these words are in the request. */
export function has(turn: Turn, words: string): boolean {
  return bodyOf(turn).messages.some((message: any) => message.role === "user" && textOf(message).includes(words));
}

/** A client, its gateway, and the upstream server. */
export class Conversation {
  upstream!: CaptureServer;
  served!: Served;
  client!: Client;
  readonly #seen = new Set<number>();

  /** `stop` must follow, even if this fails. */
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

  /** The turns that `act` causes. */
  async during(act: () => Promise<unknown>): Promise<Turn[]> {
    await act();
    const turns = (await this.served.turns()).filter(({ turn }) => !this.#seen.has(turn));
    for (const { turn } of turns) this.#seen.add(turn);
    return turns;
  }

  /** The turns that these words cause. */
  say(words: string): Promise<Turn[]> {
    return this.during(() => this.client.agent(words, MAIN));
  }

  /** The same, typed into the chat, before which the client may flush its memory. */
  type(words: string): Promise<Turn[]> {
    return this.during(async () => {
      await this.client.type(words, MAIN);
      await this.#answered(words);
    });
  }

  /** The turns that a past event causes. */
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

  /** The turn, once it is judged. */
  judged({ turn }: Turn): Promise<Turn> {
    const isJudged = async () => {
      const now = await this.served.turn(turn);
      return now.reward === null ? undefined : now;
    };
    return this.served.until(`reward of ${turn}`, isJudged, SECONDS);
  }

  /** Checks that `next` is the next state of `turn`: only these user words. Returns its reward by the rules. */
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
