//! A folder with a suite and train files that take seconds, and readers of results.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use clawrl_core::{Outcome, SlotId};
use rustix::process::Signal;

use crate::place::{Place, Said};

/// Tasks solved by one of two short commands, so that twenty imitation steps give a policy some success.
///
/// Output must depend only on input, or two trainings rightly differ. A policy types anything: in `touch |sign`, two
/// programs print errors to one terminal in an order that the kernel chooses. So `touch`, `rm` and `ls` print no
/// errors. The timeout for output is long, since a busy machine would otherwise answer `[still running]`.
pub(super) const SIGNS: &str = r##"
format: 1
suite: signs
vars: { names: { lines: names.txt } }
defaults:
  max_turns: 2
  action_format: raw
  env:
    terminal:
      memory_mib: 64
      disk_mib: 4
      pids: 32
      idle_millis: 6000
      vars: { PATH: "/work/bin:/usr/bin:/bin" }
      files:
        bin/ls: &ls { mode: "0755", content: "#!/bin/sh\nexec /usr/bin/ls \"$@\" 2> /dev/null\n" }
        bin/rm: &rm { mode: "0755", content: "#!/bin/sh\nexec /usr/bin/rm \"$@\" 2> /dev/null\n" }
        bin/touch: &touch { mode: "0755", content: "#!/bin/sh\nexec /usr/bin/touch \"$@\" 2> /dev/null\n" }
      setup:
        - umask 022
tasks:
  - id: raise
    template: { name: { from: names } }
    instances: all
    instruction: Raise the sign, {{ name }}.
    checks: [ { file_equals: { path: sign, expected: "" } } ]
    oracle: { commands: ["touch sign"] }
    mistakes: [ ["ls"] ]
  - id: lower
    template: { name: { from: names } }
    instances: all
    instruction: Lower the sign, {{ name }}.
    env: { terminal: { files: { sign: "", bin/ls: *ls, bin/rm: *rm, bin/touch: *touch } } }
    checks: [ { file_absent: { path: sign } } ]
    oracle: { commands: ["rm sign"] }
    mistakes: [ ["touch sign"] ]
"##;

/// A train file whose training takes seconds and ends with the same bits every time.
pub(super) const REPRODUCIBLE: &str = r#"
format: 1
train: signs
seed: 4
reproducible: true
policy: { preset: tiny }
suites: [ { path: tasks/signs } ]
warm_start:
  demonstrations: 24
  oracle_percent: 50
  steps: 20
  batch: 8
  interchangeable: [names]
  optimizer: { learning_rate: 5e-3, warm_up_steps: 2 }
rl:
  updates: 4
  batch_groups: 2
  group_size: 4
  minibatches: 1
  optimizer: { learning_rate: 1e-3 }
  sampling: { max_new_tokens: 12 }
evaluation: { every_updates: 0 }
checkpoint: { every_updates: 2 }
limits: { concurrency: 4 }
"#;

/// Reinforcement learning from scratch, for suites whose environment rewards at random.
pub(super) const LUCKY: &str = r#"
format: 1
train: luck
policy: { preset: tiny }
suites: [ { path: tasks/signs } ]
rl: { updates: 4, batch_groups: 2, group_size: 6, minibatches: 1, sampling: { max_new_tokens: 3 } }
evaluation: { every_updates: 0, max_tasks: 4 }
limits: { concurrency: 4, max_retries: 0 }
"#;

/// One sampled turn: token ids, and log-probabilities as bits.
pub(super) type Sampled = (Vec<u32>, Vec<u32>);

/// A folder with the suite `signs` and `train.yaml`.
pub(super) fn ground(train: &str) -> Place {
    let place = Place::new();
    place.suite("signs", SIGNS);
    let names: Vec<String> = (0..24).map(|number| format!("n{number}")).collect();
    fs::write(place.path().join("tasks/signs/names.txt"), names.join("\n")).unwrap();
    fs::write(place.path().join("train.yaml"), train).unwrap();
    place
}

/// Like [`ground`] with tasks that half of all attempts solve at random, after these set-up commands.
pub(super) fn lucky(train: &str, setup: &str) -> Place {
    let place = ground(train);
    let drawn = format!("setup:\n{setup}        - (( SRANDOM % 2 )) || echo luck > sign\n");
    let wanted = r#"file_equals: { path: sign, expected: "luck\n" }"#;
    let suite = SIGNS
        .replace("setup:\n", &drawn)
        .replace(r#"file_equals: { path: sign, expected: "" }"#, wanted)
        .replace("file_absent: { path: sign }", wanted);
    place.suite("signs", &suite);
    place
}

/// Runs a training with this name to the end.
#[track_caller]
pub(super) fn trained(place: &Place, name: &str) -> Said {
    place.clawrl(&["train", "train.yaml", "--name", name, "--json"]).ends(0)
}

/// Runs a training with this name, killed at each of these words and resumed in between. The last kill is not resumed.
#[track_caller]
pub(super) fn killed(place: &Place, name: &str, moments: &[&str]) {
    for (number, moment) in moments.iter().enumerate() {
        let (begin, resume) = (["train", "train.yaml", "--name", name], ["train", "--resume", name]);
        let mut live = place.start(if number == 0 { &begin } else { &resume });
        live.hears(moment);
        live.signal(Signal::KILL);
        assert_eq!(live.ended().code, None, "killed after `{moment}`");
    }
}

/// The `--json` output without names and folders of the training.
pub(super) fn figures(said: &Said) -> (serde_json::Value, serde_json::Value) {
    let json = said.json();
    (json["updates"].clone(), json["held_out"].clone())
}

/// The folder of a checkpoint.
pub(super) fn checkpoint(place: &Place, name: &str, version: u64) -> PathBuf {
    place.run(name).checkpoints_dir().join(format!("{version:06}"))
}

/// The bytes of a checkpoint's weights, or of its adapter.
pub(super) fn weights(place: &Place, name: &str, version: u64) -> Vec<u8> {
    let model = checkpoint(place, name, version).join("model");
    fs::read(model.join("model.safetensors"))
        .or_else(|_| fs::read(model.join("adapter_model.safetensors")))
        .unwrap()
}

/// The progress that a checkpoint records.
pub(super) fn progress(place: &Place, name: &str, version: u64) -> serde_json::Value {
    let manifest = fs::read_to_string(checkpoint(place, name, version).join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    serde_json::from_str(manifest["progress"].as_str().unwrap()).unwrap()
}

/// Commands and observations of the attempt that closed each slot.
pub(super) fn answered(place: &Place, name: &str) -> BTreeMap<SlotId, Vec<(String, String)>> {
    let run = place.run(name);
    let closing = run.attempts().filter(|attempt| attempt.closes_slot);
    closing
        .map(|summary| {
            let turns = run.trajectory(summary.attempt).unwrap().trajectory.turns;
            let said = turns.iter().map(|turn| (turn.reply.joined_text(), turn.observation.joined_text()));
            (summary.attempt.slot, said.collect())
        })
        .collect()
}

/// Turns of the attempt that closed each slot.
pub(super) fn sampled(place: &Place, name: &str) -> BTreeMap<SlotId, Vec<Sampled>> {
    let run = place.run(name);
    let closing = run.attempts().filter(|attempt| attempt.closes_slot);
    closing
        .map(|summary| {
            let record = run.trajectory(summary.attempt).unwrap();
            assert!(matches!(record.outcome, Outcome::Finished { .. }), "{:?}", record.outcome);
            let turns = record.trajectory.turns.iter().map(|turn| {
                let tokens = turn.tokens.as_ref().unwrap();
                (tokens.ids.clone(), tokens.logprobs.iter().map(|logprob| logprob.to_bits()).collect())
            });
            (summary.attempt.slot, turns.collect())
        })
        .collect()
}

/// Checks that two trainings of four updates are equal to the last bit. Compares in causal order, since a difference in
/// the weights alone would not show its cause.
#[track_caller]
pub(super) fn assert_alike(place: &Place, one: &str, two: &str) {
    for part in ["-demonstrations", ""] {
        let of = |name: &str| answered(place, &format!("{name}{part}"));
        assert_eq!(of(one), of(two), "answers of the environment in {one}{part} and {two}{part}");
    }
    assert_eq!(sampled(place, one), sampled(place, two), "episodes of {one} and {two}");
    assert!(weights(place, one, 4) == weights(place, two, 4), "weights of {one} and {two}");
    for evaluation in ["eval-000000", "eval-000004"] {
        let of = |name: &str| sampled(place, &format!("{name}-{evaluation}"));
        assert_eq!(of(one), of(two), "{evaluation} of {one} and {two}");
    }
}
