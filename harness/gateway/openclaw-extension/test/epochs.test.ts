import assert from "node:assert/strict";
import { it } from "node:test";

import { Epochs } from "../src/epochs.ts";

const events = (...types: string[]) => types.map((type) => ({ type }));

it("i1 counts once, and again after a boundary", () => {
  const epochs = new Epochs();
  let transcript = events("session", "message", "compaction", "message", "reset");
  let reads = 0;
  epochs.readBy((agentId, sessionId) => {
    assert.deepEqual([agentId, sessionId], ["main", "s1"]);
    reads += 1;
    return transcript;
  });
  assert.equal(epochs.of("main", "s1"), 2);
  transcript = [...transcript, ...events("compaction")];
  assert.equal(epochs.of("main", "s1"), 2);
  assert.equal(reads, 1);
  epochs.recount();
  assert.equal(epochs.of("main", "s1"), 3);
});

it("keeps agents apart, and a bounded number of sessions", () => {
  const epochs = new Epochs();
  epochs.readBy((agentId) => (agentId === "a" ? events("reset") : []));
  for (let n = 0; n < 1000; n += 1) assert.equal(epochs.of("a", `s${n}`), 1);
  assert.equal(epochs.of("b", "s999"), 0);
  assert.equal(epochs.of(undefined, "s999"), 0);
});

it("i2 has no number for what it cannot read", () => {
  const epochs = new Epochs();
  assert.equal(epochs.of("main", "s1"), undefined);
  epochs.readBy(() => {
    throw new Error("locked");
  });
  assert.equal(epochs.of("main", "s1"), undefined);
  epochs.readBy(() => []);
  assert.equal(epochs.of("main", "s1"), 0, "a failure is not kept");
});
