import assert from "node:assert/strict";
import { it } from "node:test";

import { sessionHeaders, sessionName, turnHeaders } from "../src/headers.ts";
import { Runs } from "../src/runs.ts";

it("i1 labels what is known, and nothing else", () => {
  const check = (trigger: string | undefined, isRelayed: boolean, expected: Record<string, string>) => {
    const runs = new Runs();
    runs.begin("a", trigger, isRelayed);
    assert.deepEqual(turnHeaders("a", runs), expected, String(trigger));
  };
  check("user", false, { "x-clawrl-turn": "main", "x-clawrl-trigger": "user" });
  check("user", true, { "x-clawrl-turn": "side" });
  for (const trigger of ["heartbeat", "memory", "cron", "overflow"]) {
    check(trigger, false, { "x-clawrl-turn": "side", "x-clawrl-trigger": trigger });
    check(trigger, true, { "x-clawrl-turn": "side", "x-clawrl-trigger": trigger });
  }
  check("manual", false, { "x-clawrl-trigger": "manual" });
  check("telepathy", false, {});
  check(undefined, false, {});
  assert.deepEqual(turnHeaders("unheard of", new Runs()), {});
  assert.deepEqual(turnHeaders(undefined, new Runs()), {});
});

it("labels a compaction by its id, in the run of a user, too", () => {
  const runs = new Runs();
  runs.begin("a", "user", false);
  assert.deepEqual(turnHeaders("a:compaction:c1", runs), { "x-clawrl-turn": "side" });
});

it("i2 names sessions that a header can hold", () => {
  const check = (sessionId: string | undefined, expected: string | undefined) =>
    assert.equal(sessionName(sessionId), expected, String(sessionId));
  check("2ac02592-8e80-4ab0-8672-31132f7a5f51", "2ac02592-8e80-4ab0-8672-31132f7a5f51");
  check(" s1 ", "s1");
  check("ünï", undefined);
  check("a b", undefined);
  check("a\r\nx: y", undefined);
  check("", undefined);
  check("s".repeat(257), undefined);
  check(undefined, undefined);
});

it("sends an epoch with a session only", () => {
  assert.deepEqual(sessionHeaders("s1", 2), { "x-clawrl-session": "s1", "x-clawrl-epoch": "2" });
  assert.deepEqual(sessionHeaders("s1", undefined), { "x-clawrl-session": "s1" });
  assert.deepEqual(sessionHeaders("ü", 2), {});
});
