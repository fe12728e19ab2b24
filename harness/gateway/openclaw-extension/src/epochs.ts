// How often the history of a session was compacted or begun anew: the number that the client itself puts behind the
// session in `x-session-affinity`.
//
// I1. It is counted in the session's transcript, once, and again after every boundary the client tells of.
// I2. A transcript that cannot be read gives no number, and no error.

/** Sessions whose number is kept. */
const SESSIONS = 256;

/** The events of a session's transcript. */
export type ReadTranscript = (agentId: string | undefined, sessionId: string) => readonly { type?: unknown }[];

export class Epochs {
  readonly #numbers = new Map<string, number>();
  #read: ReadTranscript | undefined;

  /** The way to read transcripts comes later than the first request may. */
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
      if (this.#numbers.size >= SESSIONS) this.#numbers.clear();
      this.#numbers.set(key, epoch);
      return epoch;
    } catch {
      return undefined;
    }
  }

  /** A history was compacted or begun anew. That is rare, so it does not matter which. */
  recount(): void {
    this.#numbers.clear();
  }
}
