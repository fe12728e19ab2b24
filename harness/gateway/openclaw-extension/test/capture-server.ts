// A minimal chat completions server that records every request with its headers.
//
// Answers planned with `plan` come in order; without a plan, it answers "Understood.", or with a valid summary. With an
// upstream, it forwards unplanned requests, and records in front of a real server.
//
//   node capture-server.ts [port]     serves until it is killed, and prints each request as a line of JSON

import { createServer } from "node:http";
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type Captured = {
  /** Counted from 0, in order of arrival. */
  n: number;
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  /** Parsed JSON, or the text if it is not JSON. */
  body: any;
  /** Status of the answer; 0 until it is sent. */
  status: number;
};

export type Answer =
  | { text: string; promptTokens?: number }
  | { call: string; arguments: unknown; promptTokens?: number }
  | { status: number; message?: string; retryAfterSeconds?: number };

export type Upstream = { baseUrl: string };

/** A summary that the client accepts; without these headings it asks again. */
const SUMMARY = ["Decisions", "Open TODOs", "Constraints/Rules", "Pending user asks", "Exact identifiers"]
  .map((heading) => `## ${heading}\nNone.`)
  .join("\n\n");

/** More than any client sends; a larger request is a bug in the test. */
const BODY_LIMIT_BYTES = 16 * 1024 * 1024;

export class CaptureServer {
  readonly captured: Captured[] = [];
  /** Called with each answered request. */
  onAnswer: (captured: Captured) => void = () => {};
  readonly #waiting = new Set<() => void>();
  readonly #planned: Answer[] = [];
  readonly #server: Server;
  readonly #upstream: Upstream | undefined;

  private constructor(upstream: Upstream | undefined) {
    this.#upstream = upstream;
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch((error) => {
        if (response.headersSent) response.destroy();
        else sendError(response, 500, String(error));
      });
    });
  }

  static async start(options: { port?: number; upstream?: Upstream } = {}): Promise<CaptureServer> {
    const server = new CaptureServer(options.upstream);
    await new Promise<void>((resolve, reject) => {
      server.#server.once("error", reject);
      server.#server.listen(options.port ?? 0, "127.0.0.1", resolve);
    });
    return server;
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  /** Plans the next answers, in this order. */
  plan(...answers: Answer[]): void {
    this.#planned.push(...answers);
  }

  /** Requests for chat completions since number `from`. */
  chats(from = 0): Captured[] {
    return this.captured.filter((each) => each.n >= from && each.path.endsWith("/chat/completions"));
  }

  /** Everything else since number `from`. */
  others(from = 0): Captured[] {
    return this.captured.filter((each) => each.n >= from && !each.path.endsWith("/chat/completions"));
  }

  get unplayed(): number {
    return this.#planned.length;
  }

  /** Waits until the answered requests meet `condition`; only a failure reaches the deadline of `seconds`. */
  until(what: string, condition: () => boolean, seconds: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = () => {
        if (condition()) settle(resolve);
      };
      const deadline = setTimeout(() => settle(() => reject(new Error(`no ${what} in ${seconds} s`))), seconds * 1000);
      const settle = (end: () => void) => {
        clearTimeout(deadline);
        this.#waiting.delete(look);
        end();
      };
      this.#waiting.add(look);
      look();
    });
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await readBody(request);
    const captured: Captured = {
      n: this.captured.length,
      method: request.method ?? "",
      path: request.url ?? "",
      headers: request.headers,
      body: parseOrText(text),
      status: 0,
    };
    this.captured.push(captured);
    response.once("finish", () => {
      captured.status = response.statusCode;
      this.onAnswer(captured);
      for (const look of this.#waiting) look();
    });
    const isChat = captured.method === "POST" && captured.path.endsWith("/chat/completions");
    const answer = isChat ? this.#planned.shift() : undefined;
    if (answer === undefined && this.#upstream !== undefined) {
      await forward(this.#upstream, request, text, response);
    } else if (isChat) {
      sendAnswer(response, captured, answer ?? unplanned(captured));
    } else if (captured.path.endsWith("/models")) {
      sendJson(response, 200, { object: "list", data: [{ id: "clawrl", object: "model", owned_by: "clawrl" }] });
    } else if (captured.method === "POST") {
      sendJson(response, 200, {});
    } else {
      sendError(response, 404, `there is no ${captured.path}`);
    }
  }
}

function unplanned({ body }: Captured): Answer {
  const prompt = body?.messages?.[0]?.content;
  const isForSummary = typeof prompt === "string" && prompt.startsWith("You are a context summarization assistant");
  return { text: isForSummary ? SUMMARY : "Understood." };
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes > BODY_LIMIT_BYTES) throw new Error(`a body of more than ${BODY_LIMIT_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function parseOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function sendJson(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

function sendError(response: ServerResponse, status: number, message: string, headers?: Record<string, string>): void {
  sendJson(response, status, { error: { message, type: "server_error", code: null, param: null } }, headers);
}

function sendAnswer(response: ServerResponse, captured: Captured, answer: Answer): void {
  if ("status" in answer) {
    const seconds = answer.retryAfterSeconds;
    const headers = seconds === undefined ? undefined : { "retry-after": String(seconds) };
    sendError(response, answer.status, answer.message ?? "planned by the test", headers);
    return;
  }
  const { n, body } = captured;
  const usage = {
    prompt_tokens: answer.promptTokens ?? Math.ceil(JSON.stringify(body).length / 4),
    completion_tokens: 8,
    total_tokens: 8 + (answer.promptTokens ?? Math.ceil(JSON.stringify(body).length / 4)),
  };
  const head = { id: `chatcmpl-${n}`, object: "chat.completion.chunk", created: 1_700_000_000 + n, model: "clawrl" };
  const call = "call" in answer && {
    index: 0,
    id: `call${n}`,
    type: "function",
    function: { name: answer.call, arguments: JSON.stringify(answer.arguments) },
  };
  const message = call ? { tool_calls: [call] } : { content: "text" in answer ? answer.text : "" };
  const reason = call ? "tool_calls" : "stop";
  if (body?.stream !== true) {
    const choices = [{ index: 0, message: { role: "assistant", content: null, ...message }, finish_reason: reason }];
    sendJson(response, 200, { ...head, object: "chat.completion", choices, usage });
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  const send = (chunk: object) => response.write(`data: ${JSON.stringify({ ...head, ...chunk })}\n\n`);
  send({ choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }] });
  send({ choices: [{ index: 0, delta: message, finish_reason: null }] });
  send({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });
  if (body.stream_options?.include_usage === true) send({ choices: [], usage });
  response.end("data: [DONE]\n\n");
}

async function forward(
  upstream: Upstream,
  request: IncomingMessage,
  text: string,
  response: ServerResponse,
): Promise<void> {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    // Hop-by-hop headers.
    if (["host", "connection", "content-length", "transfer-encoding"].includes(name)) continue;
    if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(", ") : value);
  }
  const path = (request.url ?? "").replace(/^\/v1/, "");
  const answered = await fetch(upstream.baseUrl + path, {
    method: request.method ?? "GET",
    headers,
    ...(request.method === "GET" ? {} : { body: text }),
  });
  const type = answered.headers.get("content-type") ?? "application/json";
  const retryAfter = answered.headers.get("retry-after");
  response.writeHead(answered.status, {
    "content-type": type,
    ...(retryAfter === null ? {} : { "retry-after": retryAfter }),
  });
  if (answered.body !== null) for await (const chunk of answered.body) response.write(chunk);
  response.end();
}

if (import.meta.main) {
  const server = await CaptureServer.start({ port: Number(process.argv[2] ?? 0) });
  server.onAnswer = (captured) => console.log(JSON.stringify(captured));
  console.error(server.baseUrl);
}
