// Number of compactions and resets of a session's history: the number that the client appends to the session in
// `x-session-affinity`.
//
// I1. It is counted in the session's transcript, once, and again after every boundary that the client reports.
// I2. An unreadable transcript gives no number and no error.

/** Cached sessions. */
const MAX_SESSIONS = 256;

/** The events of a session's transcript. */
export type ReadTranscript = (agentId: string | undefined, sessionId: string) => readonly { type?: unknown }[];

export class Epochs {
  readonly #numbers = new Map<string, number>();
  #read: ReadTranscript | undefined;

  /** Sets the reader, which may come after the first request. */
  readBy(read: ReadTranscript): void {
    this.#read = read;
  }

  of(agentId: string | undefined, sessionId: string): number | undefined {
    const key = `${agentId ?? ""}\n${sessionId}`;
    const known = this.#numbers.get(key);
    if (known !== undefined || this.#read === undefined) return known;
    try {
      const events = this.#read(agentId, sessionId);
      const epoch = events.filter(({ type }) => type === "compaction" || type === "reset").length;
      if (this.#numbers.size >= MAX_SESSIONS) this.#numbers.clear();
      this.#numbers.set(key, epoch);
      return epoch;
    } catch {
      return undefined;
    }
  }

  /** Clears the cache after a compaction or reset of any session, which is rare. */
  recount(): void {
    this.#numbers.clear();
  }
}
