// The headers of a request, as the gateway reads them (harness/gateway/src/headers.rs).
//
// I1. A header that would be a guess is left out, and the gateway decides by what it sees.
// I2. No value can make a request fail: what is not printable ASCII is left out.

import { isCompaction, type Runs } from "./runs.ts";

export const SESSION_HEADER = "x-clawrl-session";
export const EPOCH_HEADER = "x-clawrl-epoch";
export const TURN_HEADER = "x-clawrl-turn";
export const TRIGGER_HEADER = "x-clawrl-trigger";

export type Headers = Record<string, string>;

/** Longer than every id that the client makes. */
const NAME_CHARACTERS = 256;

/** The name of a session for the gateway: the client's own id of it, if a header can hold that. */
export function sessionName(sessionId: string | undefined): string | undefined {
  const name = sessionId?.trim();
  return name !== undefined && name.length <= NAME_CHARACTERS && /^[\x21-\x7e]+$/.test(name) ? name : undefined;
}

export function sessionHeaders(sessionId: string | undefined, epoch: number | undefined): Headers {
  const name = sessionName(sessionId);
  if (name === undefined) return {};
  return { [SESSION_HEADER]: name, ...(epoch === undefined ? {} : { [EPOCH_HEADER]: String(epoch) }) };
}

/** What a request of the agent is. */
export function turnHeaders(runId: string | undefined, runs: Runs): Headers {
  if (runId === undefined) return {};
  // Its id says so, and no trigger is told for it.
  if (isCompaction(runId)) return { [TURN_HEADER]: "side" };
  const run = runs.find(runId);
  if (run?.trigger === undefined) return {};
  switch (run.trigger) {
    case "user":
      // Main means the user's own turn. That the client calls relayed words `user` as well would only mislead.
      return run.isRelayed ? { [TURN_HEADER]: "side" } : { [TURN_HEADER]: "main", [TRIGGER_HEADER]: "user" };
    case "manual":
      // May be either, and the gateway shows it as such.
      return { [TRIGGER_HEADER]: "manual" };
    case "heartbeat":
    case "memory":
    case "cron":
    case "overflow":
      return { [TURN_HEADER]: "side", [TRIGGER_HEADER]: run.trigger };
  }
}

/** A request outside of any run: titles, names of files, summaries that a part of the client asks for. */
export const HOUSEKEEPING: Readonly<Headers> = { [TURN_HEADER]: "side" };
