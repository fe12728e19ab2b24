// The real `clawrl serve` in its own folder, and its record through the API.
//
// CLAWRL names the program (ci/openclaw/run.sh sets it). `stop` ends a started server and removes its folder.

import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** A tiny policy has tokens for its words, and spells others in bytes. */
const SUITE = fileURLToPath(new URL("../../../../tasks/terminal-basics", import.meta.url));
/** Deadlines that only a failure reaches. */
const COMMAND_SECONDS = 120;
const START_SECONDS = 120;
const END_SECONDS = 60;

export type Line = {
  turn: number;
  epoch: number;
  parent: number | null;
  sibling: number | null;
  kind: "main" | "side" | "unknown";
  mark: string | null;
  state: "waiting" | "answered" | "unanswered";
  ended_without_next_state: boolean;
};

export type Session = {
  session: number;
  evidence: string;
  closed_ms: number | null;
  why: string | null;
  epoch: number;
  turns: Line[];
};

export type Answer = {
  text: string | null;
  calls: { name: string; arguments: string }[];
  sampled_ids: number[];
  logprobs: number[];
  versions: [number, number][];
  adapter: string | null;
  exact: boolean;
  inexact: string | null;
};

export type Request = {
  request: number;
  body: string;
  headers: [string, string][];
  is_retry: boolean;
  state: "waiting" | "answered" | "empty" | "failed";
  reason: string | null;
  prompt_tokens: number | null;
  completion_tokens: number | null;
  prompt_ids: number[];
  received_ms: number;
  ended_ms: number | null;
  first_token_after_ms: number | null;
  answers: Answer[];
};

/** A recorded turn, with the fields used here. */
export type Turn = Line & {
  session: number;
  evidence: string;
  requests: Request[];
  next_state: { request: number; found_by: string; messages: [number, string, number | null][]; aside: number[] } | null;
  feedback: { source: string; thumb: number | null; text: string | null }[];
  votes: { judge: string; score: number | null; hint: string | null }[];
  reward: { value: number; source: string } | null;
  samples: { sample: number; reward: number; hint: string | null; state: string; reason: string | null }[];
  updates: { update: number; version_after: number | null; state: string; adapter: string; outcome: string }[];
};

type Place = { baseUrl: string; key: string; configuration: string; extension: string; folder: string };

export class Served {
  readonly baseUrl: string;
  readonly key: string;
  /** The server's files for OpenClaw: configuration, and folder of the extension. */
  readonly configuration: string;
  readonly extension: string;
  readonly #folder: string;
  readonly #server: ChildProcess;
  /** The server's log. */
  readonly #log: () => string;

  private constructor(place: Place, server: ChildProcess, log: () => string) {
    this.baseUrl = place.baseUrl;
    this.key = place.key;
    this.configuration = place.configuration;
    this.extension = place.extension;
    this.#folder = place.folder;
    this.#server = server;
    this.#log = log;
  }

  /** In front of an upstream server, with at most `tries` attempts per answer. */
  static upstream(baseUrl: string, tries: number): Promise<Served> {
    return Served.#start(async (folder) => {
      const policy = join(folder, "policy.yaml");
      await writeFile(policy, `format: 1\nmodel: scripted\nbase_url: ${baseUrl}\nkey_env: none\ntries: ${tries}\n`);
      return policy;
    });
  }

  /** With an untrained local policy, which answers gibberish. */
  static tiny(positions: number): Promise<Served> {
    return Served.#start(async (folder) => {
      const policy = join(folder, "policy");
      await run(["policy", "init", "--preset", "tiny", "--positions", String(positions), "--out", policy, SUITE], folder);
      return policy;
    });
  }

  static async #start(policyIn: (folder: string) => Promise<string>): Promise<Served> {
    const folder = await mkdtemp(join(tmpdir(), "clawrl-served-"));
    try {
      const policy = await policyIn(folder);
      const data = join(folder, "chat");
      const server = spawn(program(), ["serve", policy, "--listen", "127.0.0.1:0", "--data", data, "--json"], {
        cwd: folder,
        stdio: ["ignore", "pipe", "pipe"],
      });
      let said = "";
      server.stderr?.on("data", (text) => (said += text));
      const started = await firstLine(server, () => said);
      const key = (await readFile(started.key_file, "utf8")).trim().split(/\s+/).at(-1) ?? "";
      const configuration = await readFile(join(data, "openclaw.json5"), "utf8");
      const extension = join(data, "openclaw-extension");
      return new Served({ baseUrl: started.base_url, key, configuration, extension, folder }, server, () => said);
    } catch (error) {
      await rm(folder, { recursive: true, force: true });
      throw error;
    }
  }

  async get(path: string): Promise<any> {
    return this.#ask("GET", path);
  }

  async post(path: string, body: object = {}): Promise<any> {
    return this.#ask("POST", path, body);
  }

  /** All sessions, oldest first. */
  async sessions(): Promise<Session[]> {
    const { data } = await this.get("/sessions?limit=500");
    const sessions = await Promise.all(data.map(({ session }: Session) => this.get(`/sessions/${session}`)));
    return sessions.sort((a, b) => a.session - b.session);
  }

  turn(turn: number): Promise<Turn> {
    return this.get(`/turns/${turn}`);
  }

  /** All turns, oldest first. */
  async turns(): Promise<Turn[]> {
    const lines = (await this.sessions()).flatMap(({ turns }) => turns ?? []);
    const turns = await Promise.all(lines.map(({ turn }) => this.turn(turn)));
    return turns.sort((a, b) => a.turn - b.turn);
  }

  /** The first result of `look`, which runs after every change of the record. */
  async until<T>(what: string, look: () => Promise<T | undefined>, seconds: number): Promise<T> {
    const signal = AbortSignal.timeout(seconds * 1000);
    try {
      const events = await fetch(new URL("/events", this.baseUrl), { headers: this.#headers(), signal });
      if (!events.ok || events.body === null) throw new Error(`/events: status ${events.status}`);
      // The first event confirms the subscription, so that no change is missed.
      for await (const _ of events.body) {
        const found = await look();
        if (found !== undefined) return found;
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    throw new Error(`no ${what} in ${seconds} s; the server said:\n${this.#log()}`);
  }

  async stop(): Promise<void> {
    if (this.#server.exitCode === null && this.#server.signalCode === null) {
      const ended = new Promise((resolve) => this.#server.once("exit", resolve));
      this.#server.kill("SIGTERM");
      const deadline = setTimeout(() => this.#server.kill("SIGKILL"), END_SECONDS * 1000);
      await ended;
      clearTimeout(deadline);
    }
    await rm(this.#folder, { recursive: true, force: true });
  }

  #headers(): Record<string, string> {
    return { authorization: `Bearer ${this.key}`, "content-type": "application/json" };
  }

  /** Without `fetch`, which times out after five minutes. */
  #ask(method: string, path: string, body?: object): Promise<any> {
    return new Promise((resolve, reject) => {
      const asked = request(this.baseUrl + path, { method, headers: this.#headers() }, (answered) => {
        let text = "";
        answered.setEncoding("utf8");
        answered.on("data", (piece) => (text += piece));
        answered.once("error", reject);
        answered.once("end", () => {
          if (answered.statusCode === 200) resolve(JSON.parse(text));
          else reject(new Error(`${method} ${path}: status ${answered.statusCode}: ${text}`));
        });
      });
      asked.once("error", reject);
      asked.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}

function program(): string {
  const program = process.env["CLAWRL"];
  if (program === undefined) throw new Error("CLAWRL is not set; run ci/openclaw/run.sh serve");
  return program;
}

/** Runs a command of the program to its end. */
function run(args: string[], cwd: string): Promise<void> {
  const child = spawn(program(), args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (text) => (said += text));
  return new Promise((resolve, reject) => {
    const deadline = setTimeout(() => child.kill("SIGKILL"), COMMAND_SECONDS * 1000);
    child.once("error", reject);
    child.once("close", (code) => {
      clearTimeout(deadline);
      if (code === 0) resolve();
      else reject(new Error(`clawrl ${args.join(" ")} ended with ${code}:\n${said}`));
    });
  });
}

/** The JSON line that a server prints when it listens. */
function firstLine(server: ChildProcess, said: () => string): Promise<{ base_url: string; key_file: string }> {
  let line = "";
  return new Promise((resolve, reject) => {
    const fail = (why: string) => {
      server.kill("SIGKILL");
      reject(new Error(`clawrl serve ${why}:\n${said()}`));
    };
    const deadline = setTimeout(() => fail(`does not listen in ${START_SECONDS} s`), START_SECONDS * 1000);
    server.stdout?.on("data", (text) => {
      line += text;
      if (!line.includes("\n")) return;
      clearTimeout(deadline);
      resolve(JSON.parse(line));
    });
    server.once("error", reject);
    server.once("exit", (code) => {
      clearTimeout(deadline);
      fail(`ended with ${code}`);
    });
  });
}
