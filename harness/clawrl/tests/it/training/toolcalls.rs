//! Trainings on tasks with built-in tools, which need no isolation.

use std::fs;

use super::ground::{REPRODUCIBLE, answered, ground, sampled};
use crate::place::Place;
use crate::toolcalling::bare;

/// Two tools; each task needs one of them.
const BELLS: &str = r#"
format: 1
suite: bells
vars: { names: { lines: names.txt } }
defaults:
  max_turns: 2
  action_format: hermes
  env:
    toolcall:
      tools:
        bell: { description: Rings the bell., parameters: { type: object, additionalProperties: false }, returns: ding }
        horn: { description: Blows the horn., parameters: { type: object, additionalProperties: false }, returns: toot }
tasks:
  - id: ring
    template: { name: { from: names } }
    instances: all
    instruction: Ring the bell, {{ name }}.
    checks: [ { called: { tool: bell } }, { not_called: horn } ]
    oracle: { actions: [{ call: { name: bell } }] }
    mistakes: [ { actions: [{ call: { name: horn } }] } ]
  - id: blow
    template: { name: { from: names } }
    instances: all
    instruction: Blow the horn, {{ name }}.
    checks: [ { called: { tool: horn } }, { not_called: bell } ]
    oracle: { actions: [{ call: { name: horn } }] }
    mistakes: [ { actions: [{ call: { name: bell } }] } ]
"#;

/// A folder with the finished training `bells`, whose policy sometimes calls the right tool.
pub(super) fn bells() -> Place {
    let train = REPRODUCIBLE.replace("tasks/signs", "tasks/bells").replace("train: signs", "train: bells");
    let place = ground(&train);
    place.suite("bells", BELLS);
    fs::copy(place.path().join("tasks/signs/names.txt"), place.path().join("tasks/bells/names.txt")).unwrap();
    let said = bare(&place, &["train", "train.yaml", "--name", "bells", "--json"]).ends(0);
    assert_eq!(said.json()["updates"], 4);
    place
}

#[test]
fn calls_are_imitated_sampled_and_learned_from_without_a_sandbox() {
    let place = bells();

    // The text around a call's name is one token each: a call without arguments has three and the end token.
    let tokenizer = fs::read_to_string(place.results().join("runs/bells/policy/tokenizer.json")).unwrap();
    assert!(tokenizer.contains(r#""<tool_call>Ċ{\"name\":Ġ\"": "#), "the phrase is no entry");
    let demonstrated = answered(&place, "bells-demonstrations");
    assert!(demonstrated.values().flatten().any(|(_, seen)| seen == "[bell] ding"));
    let called = answered(&place, "bells").into_iter().zip(sampled(&place, "bells"));
    let whole = called.flat_map(|((_, seen), (_, tokens))| seen.into_iter().zip(tokens));
    let lengths: Vec<usize> =
        whole.filter(|((_, seen), _)| seen == "[bell] ding").map(|(_, (ids, _))| ids.len()).collect();
    assert_eq!(lengths.iter().min(), Some(&4), "{lengths:?}");
}
