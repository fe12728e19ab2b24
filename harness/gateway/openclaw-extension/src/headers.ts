// Headers of a request for the gateway (harness/gateway/src/headers.rs).
//
// I1. Uncertain headers are omitted, so that the gateway decides by the request.
// I2. No value can make a request fail: values that are not printable ASCII are omitted.

import { isCompaction, type Runs } from "./runs.ts";

export const SESSION_HEADER = "x-clawrl-session";
export const EPOCH_HEADER = "x-clawrl-epoch";
export const TURN_HEADER = "x-clawrl-turn";
export const TRIGGER_HEADER = "x-clawrl-trigger";

export type Headers = Record<string, string>;

/** Longer than every id of the client. */
const MAX_NAME_CHARACTERS = 256;

/** The session's name for the gateway: the client's id, if it is a valid header. */
export function sessionName(sessionId: string | undefined): string | undefined {
  const name = sessionId?.trim();
  return name !== undefined && name.length <= MAX_NAME_CHARACTERS && /^[\x21-\x7e]+$/.test(name) ? name : undefined;
}

export function sessionHeaders(sessionId: string | undefined, epoch: number | undefined): Headers {
  const name = sessionName(sessionId);
  if (name === undefined) return {};
  return { [SESSION_HEADER]: name, ...(epoch === undefined ? {} : { [EPOCH_HEADER]: String(epoch) }) };
}

/** Headers with the kind of a request. */
export function turnHeaders(runId: string | undefined, runs: Runs): Headers {
  if (runId === undefined) return {};
  // Recognised by its id; no hook reports its trigger.
  if (isCompaction(runId)) return { [TURN_HEADER]: "side" };
  const run = runs.find(runId);
  if (run?.trigger === undefined) return {};
  switch (run.trigger) {
    case "user":
      // Main means the user's own turn; the client reports relayed words as `user`, too.
      return run.isRelayed ? { [TURN_HEADER]: "side" } : { [TURN_HEADER]: "main", [TRIGGER_HEADER]: "user" };
    case "manual":
      // May be main or side, so that the gateway marks it as unknown.
      return { [TRIGGER_HEADER]: "manual" };
    case "heartbeat":
    case "memory":
    case "cron":
    case "overflow":
      return { [TURN_HEADER]: "side", [TRIGGER_HEADER]: run.trigger };
  }
}

/** A request outside of any run: titles, file names, summaries. */
export const HOUSEKEEPING: Readonly<Headers> = { [TURN_HEADER]: "side" };
