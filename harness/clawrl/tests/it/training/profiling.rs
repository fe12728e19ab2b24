//! `clawrl train --profile`: engine and learner beside the attempts.

use super::ground::{REPRODUCIBLE, ground};
use crate::profiling::{count, frames, phases};

#[test]
fn a_training_is_profiled_from_its_engine_to_its_learner() {
    let place = ground(REPRODUCIBLE);
    let said = place.clawrl(&["train", "train.yaml", "--name", "p", "--profile"]).ends(0);
    let phases = phases(&place, "p");
    assert_eq!((count(&phases, "imitate"), count(&phases, "learn")), (Some(20), Some(4)), "{phases}");
    // Each update's version is published and taken, but for what the end overtakes.
    let swaps = count(&phases, "swap").unwrap();
    assert!((3..=4).contains(&swaps) && Some(swaps) <= count(&phases, "publish"), "{phases}");
    assert!(count(&phases, "prefill") > Some(0) && count(&phases, "decode") > Some(0), "{phases}");
    // Demonstrations, groups and evaluations are the attempts of one process.
    let parts = ["p-demonstrations", "p", "p-eval-000000", "p-eval-000004"];
    let attempts: usize = parts.iter().map(|part| place.run(part).attempts().count()).sum();
    for phase in ["queue", "lease", "setup", "close"] {
        assert_eq!(count(&phases, phase), Some(attempts as u64), "{phase}");
    }
    assert!(said.err.lines().any(|line| line.starts_with("decode ")), "{}", said.err);
    let frames = frames(&place, "p");
    let has = |class: &str, part: &str| frames.iter().any(|(of, title)| of == class && title.contains(part));
    assert!(has("n", "clawrl-engine") && has("n", "clawrl-learner"), "{frames:?}");
    assert!(has("o", "clawrl_torch::engine") && has("t", "at::"), "{frames:?}");
}
