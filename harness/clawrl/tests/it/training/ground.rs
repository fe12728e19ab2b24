//! A folder with a suite and train files that take seconds, and what a training left there.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use clawrl_core::{Outcome, SlotId};
use rustix::process::Signal;

use crate::place::{Place, Said};

/// Tasks that two short commands decide, so that twenty steps of imitation teach a policy to be right sometimes.
///
/// What the environment answers must follow from what was typed, or two trainings have other bits with reason. A policy
/// types anything: of `touch |sign`, two programs complain to one terminal at once, and the kernel decides who is
/// first. So `touch`, `rm` and `ls` never complain. And the time to wait for output is long, or a busy machine answers
/// `[still running]`.
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

/// Reinforcement learning of a policy from nothing, for suites whose environment decides who is rewarded.
pub(super) const LUCKY: &str = r#"
format: 1
train: luck
policy: { preset: tiny }
suites: [ { path: tasks/signs } ]
rl: { updates: 4, batch_groups: 2, group_size: 6, minibatches: 1, sampling: { max_new_tokens: 3 } }
evaluation: { every_updates: 0, max_tasks: 4 }
limits: { concurrency: 4, max_retries: 0 }
"#;

/// One turn as sampled: ids, and log-probabilities by their bits.
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

/// The same with tasks that half of all attempts solve, whatever they do, after these commands of the setup.
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

/// Trains under this name, to the end.
#[track_caller]
pub(super) fn trained(place: &Place, name: &str) -> Said {
    place.clawrl(&["train", "train.yaml", "--name", name, "--json"]).ends(0)
}

/// Trains under this name, and is killed at each of these words, resumed in between. It is left killed.
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

/// What `--json` says, without the names and folders of the training.
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

/// What a checkpoint says that it consumed.
pub(super) fn progress(place: &Place, name: &str, version: u64) -> serde_json::Value {
    let manifest = fs::read_to_string(checkpoint(place, name, version).join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    serde_json::from_str(manifest["progress"].as_str().unwrap()).unwrap()
}

/// What was typed and what the environment answered, of whatever closed each slot.
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

/// The turns of whatever closed each slot.
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

/// Two trainings of four updates had the same course, to the last bit of the weights. They are compared in the order in
/// which one thing makes the next differ: the weights alone would not say why.
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
