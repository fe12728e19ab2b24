import assert from "node:assert/strict";
import { it } from "node:test";

import { isCompaction, isOfSubagent, runOfRequest, Runs } from "../src/runs.ts";

it("finds the run of a request", () => {
  const check = (requestId: string | undefined, expected: string | undefined) =>
    assert.equal(runOfRequest(requestId), expected, String(requestId));
  check("a1:model:1", "a1");
  check("cron:model:7:model:12", "cron:model:7");
  check("s1:compaction:c1:model:2", "s1:compaction:c1");
  check("a1:turn:worker-model:1", undefined);
  check(":model:1", undefined);
  check("a1", undefined);
  check(undefined, undefined);
});

it("knows compactions and subagents by their ids", () => {
  assert.ok(isCompaction("a1:compaction:cmp-x") && !isCompaction("a1") && !isCompaction("compaction:a1:b"));
  assert.ok(isOfSubagent("agent:main:subagent:1") && isOfSubagent("subagent:1"));
  assert.ok(!isOfSubagent("agent:main:main") && !isOfSubagent("agent:subagents:main") && !isOfSubagent(undefined));
});

it("i1 keeps the runs of one session apart", () => {
  const runs = new Runs();
  runs.begin("flush", "memory", false);
  runs.begin("turn", "user", false);
  assert.equal(runs.find("flush")?.trigger, "memory");
  assert.equal(runs.find("turn")?.trigger, "user");
});

it("i2 forgets runs that ended first, and never grows", () => {
  const runs = new Runs();
  runs.begin("lasting", "user", false);
  for (let n = 0; n < 10_000; n += 1) {
    runs.begin(`r${n}`, "user", false);
    runs.end(`r${n}`);
  }
  assert.equal(runs.find("lasting")?.trigger, "user");
  assert.equal(runs.find("r9999")?.trigger, "user", "its next attempt may follow");
  assert.equal(runs.find("r9000"), undefined);
  for (let n = 0; n < 10_000; n += 1) runs.begin(`open${n}`, "user", false);
  assert.equal(runs.find("lasting"), undefined);
  assert.ok(runs.size <= 1024 + 64, `${runs.size}`);
});

it("i2 takes up a run again that had ended", () => {
  const runs = new Runs();
  runs.begin("a", "user", false);
  runs.end("a");
  runs.begin("a", "cron", false);
  assert.equal(runs.find("a")?.trigger, "cron");
  assert.equal(runs.size, 1);
});

it("i3 does not know what it was not told", () => {
  const runs = new Runs();
  runs.begin("a", "telepathy", false);
  runs.begin("b", undefined, false);
  runs.relay("c");
  runs.end("c");
  assert.equal(runs.find("a")?.trigger, undefined);
  assert.equal(runs.find("b")?.trigger, undefined);
  assert.equal(runs.find("c"), undefined);
});
