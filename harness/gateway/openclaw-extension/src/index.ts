// ClawRL's extension for OpenClaw: the provider `clawrl`, whose requests say what they are.
//
// I1. Nothing here may disturb the client: a request goes out without our headers rather than not at all. What a hook
//     throws, the client catches and logs.
// I2. Runs of which we were not told have no turn and no trigger. Without `hooks.allowConversationAccess` that is all.

import type { OpenClawPluginApi } from "openclaw/plugin-sdk/plugin-entry";

import { type Epochs, type ReadTranscript } from "./epochs.ts";
import { Gateway, type Endpoint, type Rating } from "./gateway.ts";
import { HOUSEKEEPING, sessionHeaders, sessionName, turnHeaders, type Headers } from "./headers.ts";
import { isOfSubagent, runOfRequest, type Runs } from "./runs.ts";
import { shared } from "./shared.ts";

const PROVIDER = "clawrl";

type Provider = Parameters<OpenClawPluginApi["registerProvider"]>[0];
type Wrapper = NonNullable<Provider["wrapStreamFn"]>;
type StreamContext = Parameters<Wrapper>[0];
type StreamFn = NonNullable<StreamContext["streamFn"]>;
type StreamOptions = Parameters<StreamFn>[2];

/** Reasons for which a conversation is over. After all others it goes on: with a summary, or in another process. */
const ENDS: ReadonlySet<string | undefined> = new Set(["new", "reset", "idle", "daily", "deleted"]);

export default {
  id: PROVIDER,
  name: "ClawRL",
  description: "Tells ClawRL's gateway what each request is, and takes /good and /bad",
  register(api: OpenClawPluginApi): void {
    const { runs, epochs, gateway: state } = shared();
    const gateway = new Gateway({
      state,
      endpoint: () => findEndpoint(api),
      log: (message) => api.logger.warn(`clawrl: ${message}`),
    });
    findTranscripts().then(
      (read) => epochs.readBy(read),
      () => api.logger.warn("clawrl: this version has no transcripts to read; requests go without an epoch"),
    );
    registerProvider(api, runs, epochs, gateway);
    watchRuns(api, runs);
    watchSessions(api, epochs, gateway);
    registerCommand(api, gateway, "good", 1, "Tell ClawRL that the last answer was good");
    registerCommand(api, gateway, "bad", -1, "Tell ClawRL that the last answer was bad, and why");
  },
};

function registerProvider(api: OpenClawPluginApi, runs: Runs, epochs: Epochs, gateway: Gateway): void {
  api.registerProvider({
    id: PROVIDER,
    label: "ClawRL",
    auth: [],
    // Compactions and requests outside of runs have no session in the options that a wrapper sees.
    resolveTransportTurnState: ({ sessionId }) => orNothing(() => ({ headers: sessionHeaders(sessionId, undefined) })),
    wrapStreamFn: ({ agentId, streamFn }) =>
      streamFn &&
      withHeaders(streamFn, gateway, (options) => ({
        ...sessionHeaders(options?.sessionId, options?.sessionId ? epochs.of(agentId, options.sessionId) : undefined),
        ...turnHeaders(runOfRequest(options?.requestId), runs),
      })),
    wrapSimpleCompletionStreamFn: ({ streamFn }) => streamFn && withHeaders(streamFn, gateway, () => HOUSEKEEPING),
  });
}

function withHeaders(
  streamFn: StreamFn,
  gateway: Gateway,
  headersOf: (options: StreamOptions) => Headers,
): StreamFn {
  return (model, context, options) => {
    const headers = orNothing(() => headersOf(options)) ?? {};
    const stream = () => streamFn(model, context, { ...options, headers: { ...options?.headers, ...headers } });
    const closing = orNothing(() => gateway.closing(sessionName(options?.sessionId)));
    return closing === undefined ? stream() : closing.then(stream);
  };
}

function watchRuns(api: OpenClawPluginApi, runs: Runs): void {
  api.on("before_model_resolve", (_event, { runId, trigger, sessionKey }) => {
    if (runId !== undefined) runs.begin(runId, trigger, isOfSubagent(sessionKey));
  });
  // The first hook that is told whose words a run answers; where it is not called, that stays unknown.
  api.on("before_prompt_build", (_event, { runId, inputProvenance }) => {
    const kind = inputProvenance?.kind;
    if (runId !== undefined && kind !== undefined && kind !== "external_user") runs.relay(runId);
  });
  api.on("agent_end", (event, context) => {
    const runId = event.runId ?? context.runId;
    if (runId !== undefined) runs.end(runId);
  });
}

function watchSessions(api: OpenClawPluginApi, epochs: Epochs, gateway: Gateway): void {
  api.on("after_compaction", () => epochs.recount());
  api.on("before_reset", () => epochs.recount());
  api.on("session_start", () => epochs.recount());
  api.on("session_end", async ({ sessionId, reason }) => {
    epochs.recount();
    const session = sessionName(sessionId);
    if (session !== undefined && ENDS.has(reason)) await gateway.close(session);
  });
}

function registerCommand(
  api: OpenClawPluginApi,
  gateway: Gateway,
  name: string,
  rating: Rating,
  description: string,
): void {
  api.registerCommand({
    name,
    description,
    acceptsArgs: true,
    handler: async ({ sessionId, args }) => {
      const session = sessionName(sessionId);
      if (session === undefined) return { text: "There is no conversation here to judge." };
      const isTaken = await gateway.rate(session, rating, args?.trim() ?? "");
      return { text: isTaken ? "Noted." : "ClawRL's gateway did not take it." };
    },
  });
}

/** The provider as it is configured now. */
async function findEndpoint(api: OpenClawPluginApi): Promise<Endpoint | undefined> {
  const config = api.runtime.config.current() as OpenClawPluginApi["config"];
  const baseUrl = config.models?.providers?.[PROVIDER]?.baseUrl;
  if (typeof baseUrl !== "string" || baseUrl === "") return undefined;
  const { apiKey } = await api.runtime.modelAuth.resolveApiKeyForProvider({ provider: PROVIDER, cfg: config });
  return { baseUrl, apiKey };
}

/** Not an import at the top: a version without this module still loads the extension. */
async function findTranscripts(): Promise<ReadTranscript> {
  const { loadTranscriptEventsSync } = await import("openclaw/plugin-sdk/session-store-runtime");
  return (agentId, sessionId) =>
    loadTranscriptEventsSync({ sessionId, ...(agentId === undefined ? {} : { agentId }) }) as { type?: unknown }[];
}

function orNothing<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}
