// Triggers of the agent's runs, and the run of a request.
//
// I1. Everything is keyed by run, never by session: a memory flush and a compaction run in the session of the user whose
//     turn they precede.
// I2. Memory is bounded: ended runs are dropped first, then the oldest.
// I3. Unreported runs are unknown; nothing is guessed.

/** The client's names, which the gateway reads. */
export const TRIGGERS = ["user", "heartbeat", "memory", "cron", "manual", "overflow"] as const;
export type Trigger = (typeof TRIGGERS)[number];

/** Far more than run at once. */
const MAX_RUNS = 1024;
/** An ended run is still needed if its last attempt failed and is retried. */
const MAX_ENDED_RUNS = 64;

type Run = {
  trigger: Trigger | undefined;
  /** Whether it answers words of another session, or of the client itself. */
  isRelayed: boolean;
};

export class Runs {
  readonly #running = new Map<string, Run>();
  readonly #ended = new Map<string, Run>();

  /** Adds a run. `trigger` is the client's name. */
  begin(runId: string, trigger: string | undefined, isRelayed: boolean): void {
    this.#ended.delete(runId);
    keep(this.#running, runId, { trigger: TRIGGERS.find((known) => known === trigger), isRelayed }, MAX_RUNS);
  }

  /** Marks a run as answering words that are not the session user's. */
  relay(runId: string): void {
    const run = this.find(runId);
    if (run !== undefined) run.isRelayed = true;
  }

  end(runId: string): void {
    const run = this.#running.get(runId);
    if (run === undefined) return;
    this.#running.delete(runId);
    keep(this.#ended, runId, run, MAX_ENDED_RUNS);
  }

  find(runId: string): Run | undefined {
    return this.#running.get(runId) ?? this.#ended.get(runId);
  }

  get size(): number {
    return this.#running.size + this.#ended.size;
  }
}

function keep(runs: Map<string, Run>, runId: string, run: Run, limit: number): void {
  runs.delete(runId);
  runs.set(runId, run);
  const oldest = runs.keys().next();
  if (runs.size > limit && oldest.done !== true) runs.delete(oldest.value);
}

/** The client numbers the requests of a run: `<run>:model:<n>`. */
export function runOfRequest(requestId: string | undefined): string | undefined {
  const run = requestId?.match(/^(.+):model:\d+$/s)?.[1];
  return run;
}

/** A compaction has its own run id: `<run or session>:compaction:<id>`. */
export function isCompaction(runId: string): boolean {
  return /:compaction:[^:]+$/.test(runId);
}

/** An agent that another agent started and instructs. */
export function isOfSubagent(sessionKey: string | undefined): boolean {
  return sessionKey !== undefined && /(^|:)subagent:/i.test(sessionKey);
}
