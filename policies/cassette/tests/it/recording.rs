//! Recording and playing replies.

use std::sync::Arc;

use clawrl_cassette::{CassettePolicy, Recorder, RecordingPolicy};
use clawrl_core::{Boundary, Fault, Policy};
use clawrl_testkit::{Reply, ScriptedPolicy};

use crate::stage::{Question, origin, question, show};

/// Echoes its prompt; prompts that start with `fault` fault.
fn echo() -> Arc<dyn Policy> {
    Arc::new(ScriptedPolicy::new(|request| {
        let text = request.conversation[0].joined_text();
        match text.strip_prefix("fault") {
            Some(_) => Reply::Fault(Fault::transient(Boundary::Policy, "server-error", "it is gone")),
            None => Reply::text(&format!("{text} in attempt {}", request.attempt.number)),
        }
    }))
}

fn recording(
    may_keep: impl Fn(&clawrl_core::Action) -> bool + Send + Sync + 'static,
) -> (RecordingPolicy, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::new(may_keep));
    (RecordingPolicy::new(echo(), show(), Arc::clone(&recorder)), recorder)
}

#[tokio::test]
async fn recorded_replies_are_played() {
    let (policy, recorder) = recording(|_| true);
    let questions = [question(1, "a"), question(0, "a"), question(0, "a"), question(0, "b")];
    for question in &questions {
        question.put(&policy).await.unwrap();
    }
    let (cassette, withheld) = recorder.cassette(origin());
    assert_eq!((cassette.len(), withheld), (4, 0));
    let played = CassettePolicy::new(cassette, show());
    for question in questions.iter().rev() {
        let said = question.put(&played).await.unwrap().text;
        assert_eq!(said, format!("{} in attempt 0", question.text));
    }
}

#[tokio::test]
async fn i1_faults_are_not_recorded() {
    let (policy, recorder) = recording(|_| true);
    assert!(question(0, "fault").put(&policy).await.is_err());
    assert!(recorder.cassette(origin()).0.is_empty());
}

#[tokio::test]
async fn i2_of_several_attempts_the_last_counts() {
    let (policy, recorder) = recording(|_| true);
    let retry = |text: &str| Question { number: 1, ..question(0, text) };
    question(0, "a").put(&policy).await.unwrap();
    question(0, "only then").put(&policy).await.unwrap();
    retry("a").put(&policy).await.unwrap();
    // Late, and of an attempt that is over.
    question(0, "late").put(&policy).await.unwrap();
    let played = CassettePolicy::new(recorder.cassette(origin()).0, show());
    assert_eq!(question(0, "a").put(&played).await.unwrap().text, "a in attempt 1");
    assert!(question(0, "only then").put(&played).await.is_err());
    assert!(question(0, "late").put(&played).await.is_err());
}

#[tokio::test]
async fn i3_secrets_are_counted_and_left_out() {
    let (policy, recorder) = recording(|said| !said.text.contains("hunter2"));
    question(0, "hunter2").put(&policy).await.unwrap();
    question(0, "other").put(&policy).await.unwrap();
    let (cassette, withheld) = recorder.cassette(origin());
    assert_eq!((cassette.len(), withheld), (1, 1));
}
