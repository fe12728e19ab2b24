//! Played replies and misses.

use clawrl_cassette::CassettePolicy;
use clawrl_core::{Boundary, Policy, Retry};
use proptest::prelude::*;

use crate::stage::{Question, cassette, plain, question, said, show};

fn policy_of(questions: &[(Question, &str)]) -> CassettePolicy {
    let replies = questions.iter().map(|(question, text)| question.answered(0, said(text)));
    CassettePolicy::new(cassette(replies), show())
}

#[tokio::test]
async fn i1_the_recorded_reply_is_played_whole() {
    let policy = policy_of(&[(question(0, "a"), "first"), (question(1, "a"), "second")]);
    let mut expected = said("second");
    // Its usage is that of the recording.
    expected.usage.as_mut().unwrap().notes.push("from-cassette".to_owned());
    assert_eq!(question(1, "a").put(&policy).await.unwrap(), expected);
    assert_eq!(policy.closing_notes(), ["1 of 2 recorded replies were played, 1 unused"]);
}

#[tokio::test]
async fn i2_whatever_differs_is_a_miss() {
    let policy = policy_of(&[(question(0, "Write stone."), "x")]);
    let check = async |question: Question, why: &str| {
        let fault = question.put(&policy).await.unwrap_err();
        let what = (fault.boundary, fault.code.as_str(), fault.retry);
        assert_eq!(what, (Boundary::Policy, "cassette-miss", Retry::Never));
        assert!(fault.message.contains(why), "{}", fault.message);
    };
    check(question(0, "Write stones."), "message 1, of the user, was `Write stone.` and is `Write stones.`")
        .await;
    check(Question { seed: 5, ..question(0, "Write stone.") }, "under another seed").await;
    check(question(1, "Write stone."), "turn 1 of task task-0").await;
    assert!(question(0, "Write stone.").put(&policy).await.is_ok());
    // A second time was not recorded.
    check(question(0, "Write stone."), "made 2 times by this attempt and 1 times in the recording").await;
    let notes = policy.closing_notes();
    assert_eq!(notes[0], "1 of 1 recorded replies were played, 0 unused");
    assert!(
        notes[1].starts_with(
            "4 requests had no recorded reply, and no model was called; the first: no \
        recorded reply for turn 1 of task task-0"
        ),
        "{notes:?}"
    );
}

#[tokio::test]
async fn i3_repeated_request_gets_the_next_reply() {
    let asked = question(0, "a");
    let replies = (0..3).map(|repeat| asked.answered(repeat, plain(&repeat.to_string())));
    let policy = CassettePolicy::new(cassette(replies), show());
    for expected in ["0", "1"] {
        assert_eq!(asked.put(&policy).await.unwrap().text, expected);
    }
    // Another attempt at the slot begins with the first.
    let retry = Question { number: 1, ..asked.clone() };
    assert_eq!(retry.put(&policy).await.unwrap().text, "0");
    assert_eq!(asked.put(&policy).await.unwrap().text, "2");
    policy.attempt_ended(asked.attempt());
    assert_eq!(asked.put(&policy).await.unwrap().text, "0");
}

/// A miss is compared with the request that a person would choose.
#[tokio::test]
async fn miss_compares_attempt_then_task_then_all() {
    let other = Question { seed: 9, ..question(0, "Write stone.") };
    let policy =
        policy_of(&[(question(0, "Write wood."), "x"), (other, "y"), (question(1, "Write stone."), "z")]);
    let why = async |question: Question| question.put(&policy).await.unwrap_err().message;
    let of_attempt = why(question(0, "Write stones.")).await;
    assert!(of_attempt.contains("is turn 1: message 1, of the user, was `Write wood.`"), "{of_attempt}");
    let of_task = why(Question { seed: 5, ..question(0, "Write stones.") }).await;
    assert!(of_task.contains("is turn 1 of another attempt at the task: "), "{of_task}");
    let of_all = why(question(7, "Write stones.")).await;
    assert!(of_all.contains("of task task-"), "{of_all}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// I3: attempts whose requests come in between each other's are each given their own.
    #[test]
    fn i3_no_order_changes_a_reply(
        order in Just((0..24u32).collect::<Vec<_>>()).prop_shuffle(),
        slots in 1u32..6,
    ) {
        // The same requests from every slot, some of them more than once.
        let all: Vec<(u32, u32)> = (0..24).map(|index| (index % slots, index / slots / 2)).collect();
        let mut recorded = std::collections::BTreeMap::new();
        let mut replies = Vec::new();
        for &(slot, text) in &all {
            let repeat: &mut u32 = recorded.entry((slot, text)).or_insert(0);
            let said = format!("{slot} {text} {repeat}");
            replies.push(question(slot, &text.to_string()).answered(*repeat, plain(&said)));
            *repeat += 1;
        }
        let policy = CassettePolicy::new(cassette(replies), show());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut asked = std::collections::BTreeMap::new();
        for index in order {
            let (slot, text) = all[index as usize];
            let repeat: &mut u32 = asked.entry((slot, text)).or_insert(0);
            let said = runtime.block_on(question(slot, &text.to_string()).put(&policy)).unwrap();
            prop_assert_eq!(said.text, format!("{slot} {text} {repeat}"));
            *repeat += 1;
        }
        prop_assert_eq!(policy.closing_notes(), ["24 of 24 recorded replies were played, 0 unused"]);
    }
}

/// Thousands of requests from several threads at once.
#[test]
fn i3_nor_does_concurrency() {
    let questions: Vec<Question> =
        (0..2_000).map(|slot| question(slot, if slot % 2 == 0 { "a" } else { "b" })).collect();
    let replies = questions.iter().map(|question| question.answered(0, plain(&question.slot.to_string())));
    let policy = CassettePolicy::new(cassette(replies), show());
    std::thread::scope(|scope| {
        for part in questions.chunks(250) {
            let policy = &policy;
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                for question in part.iter().rev() {
                    let said = runtime.block_on(question.put(policy)).unwrap();
                    assert_eq!(said.text, question.slot.to_string());
                }
            });
        }
    });
    assert_eq!(policy.closing_notes().len(), 1);
}
