// ClawRL's extension for OpenClaw: the provider `clawrl`, which labels its requests.
//
// I1. The extension never disturbs the client: if labelling fails, the request is sent without labels. The client
//     catches and logs exceptions of hooks.
// I2. Unreported runs have no turn and no trigger. Without `hooks.allowConversationAccess`, no run is reported.

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

/** Reasons that end a conversation. After all others it continues: with a summary, or in another process. */
const ENDS: ReadonlySet<string | undefined> = new Set(["new", "reset", "idle", "daily", "deleted"]);

export default {
  id: PROVIDER,
  name: "ClawRL",
  description: "Labels requests for ClawRL's gateway, and adds /good and /bad",
  register(api: OpenClawPluginApi): void {
    const { runs, epochs, gateway: state } = shared();
    const gateway = new Gateway({
      state,
      endpoint: () => findEndpoint(api),
      log: (message) => api.logger.warn(`clawrl: ${message}`),
    });
    findTranscripts().then(
      (read) => epochs.readBy(read),
      () => api.logger.warn("clawrl: this version has no readable transcripts; requests have no epoch"),
    );
    registerProvider(api, runs, epochs, gateway);
    watchRuns(api, runs);
    watchSessions(api, epochs, gateway);
    registerCommand(api, gateway, "good", 1, "Rate the last answer as good");
    registerCommand(api, gateway, "bad", -1, "Rate the last answer as bad, with an optional reason");
  },
};

function registerProvider(api: OpenClawPluginApi, runs: Runs, epochs: Epochs, gateway: Gateway): void {
  api.registerProvider({
    id: PROVIDER,
    label: "ClawRL",
    auth: [],
    // Compactions and requests outside of runs have no session in a wrapper's options.
    resolveTransportTurnState: ({ sessionId }) => orUndefined(() => ({ headers: sessionHeaders(sessionId, undefined) })),
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
    const headers = orUndefined(() => headersOf(options)) ?? {};
    const stream = () => streamFn(model, context, { ...options, headers: { ...options?.headers, ...headers } });
    const closing = orUndefined(() => gateway.closing(sessionName(options?.sessionId)));
    return closing === undefined ? stream() : closing.then(stream);
  };
}

function watchRuns(api: OpenClawPluginApi, runs: Runs): void {
  api.on("before_model_resolve", (_event, { runId, trigger, sessionKey }) => {
    if (runId !== undefined) runs.begin(runId, trigger, isOfSubagent(sessionKey));
  });
  // The first hook that knows whose words a run answers; without it, that stays unknown.
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
      if (session === undefined) return { text: "There is no conversation to rate." };
      const isTaken = await gateway.rate(session, rating, args?.trim() ?? "");
      return { text: isTaken ? "Noted." : "The ClawRL gateway did not accept it." };
    },
  });
}

/** The current configuration of the provider. */
async function findEndpoint(api: OpenClawPluginApi): Promise<Endpoint | undefined> {
  const config = api.runtime.config.current() as OpenClawPluginApi["config"];
  const baseUrl = config.models?.providers?.[PROVIDER]?.baseUrl;
  if (typeof baseUrl !== "string" || baseUrl === "") return undefined;
  const { apiKey } = await api.runtime.modelAuth.resolveApiKeyForProvider({ provider: PROVIDER, cfg: config });
  return { baseUrl, apiKey };
}

/** Imported here, so that the extension loads without this module. */
async function findTranscripts(): Promise<ReadTranscript> {
  const { loadTranscriptEventsSync } = await import("openclaw/plugin-sdk/session-store-runtime");
  return (agentId, sessionId) =>
    loadTranscriptEventsSync({ sessionId, ...(agentId === undefined ? {} : { agentId }) }) as { type?: unknown }[];
}

function orUndefined<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined;
  }
}
