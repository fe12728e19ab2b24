// What the gateway is told apart from requests: that a session is over, and what a user thinks of an answer.
//
// I1. Nothing here throws or rejects, and every call ends within its time limit.
// I2. A failure is logged once, and once again after things went well.

/** The gateway is on this machine; one that takes longer is busy or gone. */
const TIME_LIMIT_MS = 2000;

export type Endpoint = { baseUrl: string; apiKey: string | undefined };

/** What all registrations of one process have in common. */
export type GatewayState = {
  /** Ends on their way, by session. */
  closing: Map<string, Promise<unknown>>;
  hasComplained: boolean;
};

export function newGatewayState(): GatewayState {
  return { closing: new Map(), hasComplained: false };
}

export type GatewayOptions = {
  state: GatewayState;
  /** Where the gateway is; nothing if the provider is not configured. */
  endpoint: () => Promise<Endpoint | undefined>;
  log: (message: string) => void;
  fetch?: typeof fetch;
  timeLimitMs?: number;
};

export type Rating = 1 | -1;

export class Gateway {
  readonly #options: GatewayOptions;
  readonly #state: GatewayState;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#state = options.state;
  }

  /** A session is over. */
  async close(session: string): Promise<void> {
    const closing = this.#post("/sessions/close", { session });
    this.#state.closing.set(session, closing);
    await closing;
    if (this.#state.closing.get(session) === closing) this.#state.closing.delete(session);
  }

  /**
   * What the next request of a session has to wait for, if anything: `/new` keeps the session's name, and an end that
   * arrived after the first request behind it would end the wrong conversation.
   */
  closing(session: string | undefined): Promise<unknown> | undefined {
    return session === undefined ? undefined : this.#state.closing.get(session);
  }

  /** Whether the gateway took it. */
  rate(session: string, rating: Rating, text: string): Promise<boolean> {
    return this.#post("/feedback", { session, rating, source: "extension", ...(text === "" ? {} : { text }) });
  }

  async #post(path: string, body: object): Promise<boolean> {
    try {
      const endpoint = await this.#options.endpoint();
      if (endpoint === undefined) return false;
      const { baseUrl, apiKey } = endpoint;
      const response = await (this.#options.fetch ?? fetch)(baseUrl.replace(/\/+$/, "") + path, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
        },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(this.#options.timeLimitMs ?? TIME_LIMIT_MS),
      });
      await response.body?.cancel();
      if (!response.ok) throw new Error(`status ${response.status}`);
      this.#state.hasComplained = false;
      return true;
    } catch (error) {
      const isFirst = !this.#state.hasComplained;
      this.#state.hasComplained = true;
      if (isFirst) this.#options.log(`${path} failed; conversations go on without it: ${String(error)}`);
      return false;
    }
  }
}
