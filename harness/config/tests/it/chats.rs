//! Plans of chat files, and the errors of broken ones. One snapshot for each file in `chat/broken/`.

use std::path::Path;

use clawrl_config::{ChatObjective, ChatPlan, LoraTarget, load_chat};

use crate::diagnostics::rendered;

const BROKEN: [&str; 8] = [
    "format-missing",
    "format-zero",
    "nobody-judges",
    "numbers",
    "objective-unknown",
    "rule-says-nothing",
    "top-k-of-binary",
    "unknown-key",
];

fn good(name: &str) -> ChatPlan {
    load_chat(Path::new(&format!("tests/it/chat/good/{name}.yaml")))
        .unwrap_or_else(|error| panic!("{}", rendered(&error)))
}

#[test]
fn what_is_left_out_is_as_without_a_file() {
    assert_eq!(good("minimal"), ChatPlan::default());
    let ChatPlan { objective, train_every_turns, train_every_secs, top_k, max_staleness, .. } =
        ChatPlan::default();
    assert_eq!(objective, ChatObjective::Combined);
    assert_eq!((train_every_turns, train_every_secs, top_k, max_staleness), (16, 600, Some(4), 16));
}

#[test]
fn what_is_written_is_what_is_planned() {
    let plan = good("everything");
    assert_eq!((plan.train_every_turns, plan.train_every_secs, plan.max_staleness), (8, 60, 4));
    assert_eq!((plan.learning_rate, plan.top_k), (0.0003, None));
    assert_eq!((plan.max_kl, plan.max_reference_kl, plan.failures), (0.05, 0.5, 2));
    assert_eq!((plan.lora.rank, plan.lora.alpha), (8, 8.0));
    assert_eq!(plan.lora.targets, [LoraTarget::QProj, LoraTarget::VProj]);
    let hints: Vec<Option<&str>> = plan.judging.rules.iter().map(|rule| rule.hint.as_deref()).collect();
    assert_eq!(hints, [None, Some("Do not use bold.")]);
    let kept: ChatPlan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
    assert_eq!(kept, plan);
}

/// `max_drift` is the old name of `max_reference_kl`, in chat files and in stored plans.
#[test]
fn old_names_of_settings_are_read() {
    let plan = good("old-names");
    assert_eq!(plan, ChatPlan { max_reference_kl: 0.5, ..ChatPlan::default() });
    let stored = serde_json::to_string(&plan).unwrap().replace("max_reference_kl", "max_drift");
    assert_eq!(serde_json::from_str::<ChatPlan>(&stored).unwrap(), plan);
}

#[test]
fn every_broken_chat_file_is_explained() {
    for name in BROKEN {
        let path = format!("tests/it/chat/broken/{name}.yaml");
        let Err(error) = load_chat(Path::new(&path)) else { panic!("{path} should be refused") };
        for problem in error.problems() {
            assert!(!problem.help_text().is_empty(), "{problem}");
        }
        insta::assert_snapshot!(format!("chat-{name}"), rendered(&error));
    }
}
