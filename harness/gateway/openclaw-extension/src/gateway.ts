// Calls to the gateway besides requests: the end of a session, and feedback on an answer.
//
// I1. Nothing here throws or rejects, and every call ends within its time limit.
// I2. A failure is logged once, and again only after a success.

/** The gateway is on this machine; a slower one is overloaded or gone. */
const TIME_LIMIT_MS = 2000;

export type Endpoint = { baseUrl: string; apiKey: string | undefined };

/** State that all registrations of a process share. */
export type GatewayState = {
  /** Pending close calls, by session. */
  closing: Map<string, Promise<unknown>>;
  hasLoggedFailure: boolean;
};

export function newGatewayState(): GatewayState {
  return { closing: new Map(), hasLoggedFailure: false };
}

export type GatewayOptions = {
  state: GatewayState;
  /** The gateway's address; undefined if the provider is not configured. */
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

  /** Closes a session. */
  async close(session: string): Promise<void> {
    const closing = this.#post("/sessions/close", { session });
    this.#state.closing.set(session, closing);
    await closing;
    if (this.#state.closing.get(session) === closing) this.#state.closing.delete(session);
  }

  /**
   * A pending close call that the next request of a session must await: `/new` keeps the session's name, and a close that
   * arrives after the next request would end the wrong conversation.
   */
  closing(session: string | undefined): Promise<unknown> | undefined {
    return session === undefined ? undefined : this.#state.closing.get(session);
  }

  /** Sends feedback on the last answer; returns whether the gateway accepted it. */
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
      this.#state.hasLoggedFailure = false;
      return true;
    } catch (error) {
      const isFirst = !this.#state.hasLoggedFailure;
      this.#state.hasLoggedFailure = true;
      if (isFirst) this.#options.log(`${path} failed; conversations continue without it: ${String(error)}`);
      return false;
    }
  }
}
