// The real OpenClaw client with its own home folder.
//
// OPENCLAW_FOLDER names its folder with `node_modules` (ci/openclaw/run.sh sets it). `stop` ends a started client and
// removes its home.

import { spawn, type ChildProcess } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const EXTENSION = fileURLToPath(new URL("..", import.meta.url));
/** Deadlines that only a failure reaches. On a busy machine, the client takes tens of seconds to start. */
const COMMAND_SECONDS = 240;
const START_SECONDS = 240;
const TOKEN = "of-the-test";

export type Setup = {
  /** The template of its configuration: `provider` or `extension`. */
  template: "provider" | "extension";
  baseUrl: string;
  key: string;
  /** A filled template. */
  filledIn?: string;
  /** Source folder of the extension. Default: this one. */
  extension?: string;
  /** Patches of the configuration, after the template. */
  config?: object;
};

export type Ended = { code: number | null; stdout: string; stderr: string };

export class Client {
  readonly home: string;
  readonly #folder: string;
  #daemon: ChildProcess | undefined;
  #port = 0;
  #calls = 0;

  private constructor(folder: string, home: string) {
    this.#folder = folder;
    this.home = home;
  }

  /** A client, configured as documented. */
  static async configure({ template, baseUrl, key, filledIn, extension, config }: Setup): Promise<Client> {
    const folder = process.env["OPENCLAW_FOLDER"];
    if (folder === undefined) throw new Error("OPENCLAW_FOLDER is not set; run ci/openclaw/run.sh");
    const client = new Client(folder, await mkdtemp(join(tmpdir(), "clawrl-openclaw-")));
    try {
      await mkdir(join(client.home, ".openclaw"));
      await client.#patch(filledIn ?? (await fillIn(template, baseUrl, key)), template === "extension" ? (extension ?? EXTENSION) : undefined);
      if (config !== undefined) await client.#patch(JSON.stringify(config));
      return client;
    } catch (error) {
      await client.stop();
      throw error;
    }
  }

  async #patch(text: string, extension?: string): Promise<void> {
    const file = join(this.home, "patch.json5");
    await writeFile(file, text);
    if (extension !== undefined) {
      await this.succeed("plugins", "install", "--link", extension, "--force", "--accept-capabilities");
    }
    await this.succeed("config", "patch", "--file", file);
  }

  /** Runs a command of the client to its end. */
  run(...args: string[]): Promise<Ended> {
    const child = this.#spawn(args);
    const output = { stdout: "", stderr: "" };
    child.stdout?.on("data", (text) => (output.stdout += text));
    child.stderr?.on("data", (text) => (output.stderr += text));
    return new Promise((resolve, reject) => {
      const deadline = setTimeout(() => child.kill("SIGKILL"), COMMAND_SECONDS * 1000);
      child.once("error", reject);
      child.once("close", (code) => {
        clearTimeout(deadline);
        resolve({ code, ...output });
      });
    });
  }

  async succeed(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(...args);
    if (code !== 0) throw new Error(`openclaw ${args.join(" ")} ended with ${code}:\n${stdout}\n${stderr}`);
    return stdout;
  }

  /** One turn of a conversation in its own process. */
  async local(sessionId: string, message: string): Promise<void> {
    await this.succeed("agent", "--local", "--session-id", sessionId, "--message", message, "--json");
  }

  /** Starts the daemon, which runs until `stop`. */
  async start(): Promise<void> {
    this.#port = await freePort();
    const gateway = { mode: "local", port: this.#port, bind: "loopback", auth: { mode: "token", token: TOKEN } };
    await this.#patch(JSON.stringify({ gateway }));
    const daemon = this.#spawn(["gateway", "run", "--port", String(this.#port)]);
    this.#daemon = daemon;
    let said = "";
    await new Promise<void>((resolve, reject) => {
      const fail = (why: string) => reject(new Error(`the daemon ${why}:\n${said}`));
      const deadline = setTimeout(() => fail(`is not ready in ${START_SECONDS} s`), START_SECONDS * 1000);
      const listen = (text: Buffer) => {
        said += text.toString().replace(/\x1b\[\d+m/g, "");
        if (!/\[gateway\] ready\b/.test(said)) return;
        clearTimeout(deadline);
        resolve();
      };
      daemon.stdout?.on("data", listen);
      daemon.stderr?.on("data", listen);
      daemon.once("error", reject);
      daemon.once("exit", (code) => {
        clearTimeout(deadline);
        fail(`ended with ${code}`);
      });
    });
  }

  /** Calls a method of the daemon, and returns its final answer. */
  async call(method: string, params: object): Promise<any> {
    const url = `ws://127.0.0.1:${this.#port}`;
    const limit = String(COMMAND_SECONDS * 1000);
    const stdout = await this.succeed(
      ...["gateway", "call", method, "--params", JSON.stringify(params), "--url", url, "--token", TOKEN],
      ...["--expect-final", "--timeout", limit, "--json"],
    );
    return JSON.parse(stdout.slice(stdout.indexOf("{")));
  }

  /** One turn of the conversation under `sessionKey`, to its end. */
  agent(message: string, sessionKey: string): Promise<any> {
    return this.call("agent", { message, sessionKey, idempotencyKey: this.#nextId() });
  }

  /** Types a message into a chat. The answer comes later. */
  async type(message: string, sessionKey: string): Promise<void> {
    await this.call("chat.send", { message, sessionKey, idempotencyKey: this.#nextId() });
  }

  #nextId(): string {
    this.#calls += 1;
    return `test-${this.#calls}`;
  }

  async stop(): Promise<void> {
    const daemon = this.#daemon;
    if (daemon !== undefined && daemon.exitCode === null && daemon.signalCode === null) {
      const ended = new Promise((resolve) => daemon.once("exit", resolve));
      daemon.kill("SIGTERM");
      const deadline = setTimeout(() => daemon.kill("SIGKILL"), 30_000);
      await ended;
      clearTimeout(deadline);
    }
    await rm(this.home, { recursive: true, force: true, maxRetries: 5 });
  }

  #spawn(args: string[]): ChildProcess {
    const modules = join(this.#folder, "node_modules");
    const env = { PATH: process.env["PATH"] ?? "", HOME: this.home, LANG: "C.UTF-8", NO_COLOR: "1" };
    const program = [join(modules, "openclaw", "openclaw.mjs"), ...args];
    return spawn(join(modules, ".bin", "node"), program, { cwd: this.home, env, stdio: ["ignore", "pipe", "pipe"] });
  }
}

async function fillIn(template: string, baseUrl: string, key: string): Promise<string> {
  const values = { base_url: baseUrl, key, model: "clawrl", context_window: "32768", max_tokens: "4096" };
  const text = await readFile(join(EXTENSION, `${template}.json5`), "utf8");
  return Object.entries(values).reduce((text, [name, value]) => text.replaceAll(`{${name}}`, value), text);
}

/** A free port. The client does not choose one itself. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return port;
}
