// What set each run of the agent going, and which run a request belongs to.
//
// I1. Everything is known by the id of a run, never by that of a session: a flush of memory and a compaction run in the
//     session of the user whose turn they precede.
// I2. Memory is bounded: runs that ended go first, then the oldest.
// I3. What was not told is not known; nothing here guesses.

/** As the client calls them and the gateway reads them. */
export const TRIGGERS = ["user", "heartbeat", "memory", "cron", "manual", "overflow"] as const;
export type Trigger = (typeof TRIGGERS)[number];

/** More than run at the same time, by far. */
const RUNS = 1024;
/** A run that ended is asked for again where its last attempt failed and another one follows. */
const ENDED_RUNS = 64;

type Run = {
  trigger: Trigger | undefined;
  /** Somebody else's words: another session's, or the client's own. */
  isRelayed: boolean;
};

export class Runs {
  readonly #running = new Map<string, Run>();
  readonly #ended = new Map<string, Run>();

  /** A run begins. `trigger` is the client's word for what set it going. */
  begin(runId: string, trigger: string | undefined, isRelayed: boolean): void {
    this.#ended.delete(runId);
    keep(this.#running, runId, { trigger: TRIGGERS.find((known) => known === trigger), isRelayed }, RUNS);
  }

  /** The words that a run answers are not of the user who talks in its session. */
  relay(runId: string): void {
    const run = this.find(runId);
    if (run !== undefined) run.isRelayed = true;
  }

  end(runId: string): void {
    const run = this.#running.get(runId);
    if (run === undefined) return;
    this.#running.delete(runId);
    keep(this.#ended, runId, run, ENDED_RUNS);
  }

  find(runId: string): Run | undefined {
    return this.#running.get(runId) ?? this.#ended.get(runId);
  }

  get size(): number {
    return this.#running.size + this.#ended.size;
  }
}

function keep(runs: Map<string, Run>, runId: string, run: Run, most: number): void {
  runs.delete(runId);
  runs.set(runId, run);
  const oldest = runs.keys().next();
  if (runs.size > most && oldest.done !== true) runs.delete(oldest.value);
}

/** The client numbers the requests of a run: `<run>:model:<n>`. */
export function runOfRequest(requestId: string | undefined): string | undefined {
  const run = requestId?.match(/^(.+):model:\d+$/s)?.[1];
  return run;
}

/** A compaction has a run id of its own: `<run or session>:compaction:<id>`. */
export function isCompaction(runId: string): boolean {
  return /:compaction:[^:]+$/.test(runId);
}

/** An agent that another agent started; what it is asked is that one's words. */
export function isOfSubagent(sessionKey: string | undefined): boolean {
  return sessionKey !== undefined && /(^|:)subagent:/i.test(sessionKey);
}
