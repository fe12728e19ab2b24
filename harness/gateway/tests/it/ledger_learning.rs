//! What learning keeps in the ledger.

use std::collections::BTreeMap;

use clawrl_gateway::{
    Adapter, Finish, LedgerError, NewReward, NewSample, NewUpdate, NewVote, Reconciled, SampleId, Thing,
    TurnId, UpdateId, VersionSegment,
};
use rusqlite::Connection;
use serde_json::json;

use crate::recording::{Chat, said};
use crate::told::user;

/// A turn that was answered, and its sample.
async fn sample(chat: &Chat, name: &str, question: &str) -> (TurnId, SampleId) {
    let turn = chat.ask(name, question, json!([said(question)])).await;
    chat.say(turn.request, "ok").await;
    let new = NewSample { request: turn.request, choice: 0, reward: 0.5, hint: Some("look".to_owned()) };
    let id = chat.handle().add_sample(new.clone()).await.unwrap();
    assert_eq!(chat.handle().add_sample(new).await, Ok(id), "once for each answer");
    (turn.turn, id)
}

fn update(key: &str, owner: Option<&str>, limit: u32) -> NewUpdate {
    let name = owner.unwrap_or("shared").to_owned();
    let adapter = Adapter { name, owner: owner.map(user) };
    NewUpdate { key: key.to_owned(), adapter, objective: "grpo".to_owned(), version: 3, limit }
}

fn accepted(version: u64) -> Finish {
    Finish::Accepted { version, branch: 0, checkpoint: Some("c".to_owned()), metrics: BTreeMap::new() }
}

async fn taken(chat: &Chat, update: NewUpdate) -> (UpdateId, Vec<u64>) {
    let taken = chat.handle().take(update).await.unwrap();
    (taken.update, taken.samples.iter().map(|sample| sample.sample.0).collect())
}

fn states(chat: &Chat) -> String {
    chat.value("SELECT group_concat(state, ' ') FROM (SELECT state FROM samples ORDER BY id)")
}

#[tokio::test]
async fn votes_and_rewards_are_recorded_once() {
    let chat = Chat::new();
    let (turn, _) = sample(&chat, "ada", "hi").await;
    let handle = chat.handle();
    let vote = |ballot, score| NewVote {
        turn,
        judge: "j".to_owned(),
        ballot,
        score,
        hint: None,
        raw: "because".to_owned(),
    };
    assert_eq!(handle.add_vote(vote(0, Ok(1))).await, Ok(true));
    assert_eq!(handle.add_vote(vote(0, Ok(-1))).await, Ok(false));
    assert_eq!(handle.add_vote(vote(1, Err("no number in it".to_owned()))).await, Ok(true));
    assert!(matches!(handle.add_vote(vote(2, Ok(2))).await, Err(LedgerError::Refused(_))));
    let nowhere = NewVote { turn: TurnId(clawrl_gateway::RequestId(99)), ..vote(0, Ok(1)) };
    assert_eq!(handle.add_vote(nowhere).await, Err(LedgerError::Unknown(Thing::Turn)));
    let reward = |value| NewReward { turn, value, source: "votes".to_owned() };
    handle.set_reward(reward(0.5)).await.unwrap();
    handle.set_reward(reward(1.0)).await.unwrap();
    assert!(matches!(handle.set_reward(reward(f64::NAN)).await, Err(LedgerError::Refused(_))));
    let view = handle.turn(&user("ada"), turn).await.unwrap();
    let scores: Vec<Option<i64>> = view.votes.iter().map(|vote| vote.score).collect();
    assert_eq!((scores, view.reward.unwrap().value), (vec![Some(1), None], 1.0));
}

#[tokio::test]
async fn a_sample_is_trained_at_most_once() {
    let chat = Chat::new();
    let (turn, _) = sample(&chat, "ada", "one").await;
    sample(&chat, "ada", "two").await;
    sample(&chat, "bob", "three").await;
    let handle = chat.handle();
    let one = handle.take(update("one", Some("ada"), 1)).await.unwrap();
    let first = &one.samples[0];
    assert_eq!((first.turn, first.prompt_ids.as_slice()), (turn, &[1, 5, 9][..]));
    assert_eq!((first.sampled_ids.as_slice(), first.logprobs.len()), (&[111, 107, 2][..], 3));
    assert_eq!(first.versions, [VersionSegment { first: 0, version: 3 }]);
    assert_eq!(
        handle.take(update("one", Some("ada"), 9)).await,
        Ok(one.clone()),
        "the same key, the same update"
    );
    let (two, samples) = taken(&chat, update("two", Some("ada"), 9)).await;
    assert_eq!(samples, [2], "neither what is taken nor what is Bob's");
    handle.finish(one.update, accepted(4)).await.unwrap();
    handle.finish(one.update, accepted(4)).await.unwrap();
    let other = handle.finish(one.update, accepted(5)).await;
    assert!(matches!(other, Err(LedgerError::Refused(_))), "{other:?}");
    let same_version = handle.finish(two, accepted(4)).await;
    assert!(matches!(same_version, Err(LedgerError::Refused(_))), "{same_version:?}");
    let rejected = Finish::Rejected { reasons: vec!["worse".to_owned()], metrics: BTreeMap::new() };
    handle.finish(two, rejected).await.unwrap();
    assert_eq!(states(&chat), "trained rejected waiting");
    assert_eq!(taken(&chat, update("three", Some("ada"), 9)).await.1, [] as [u64; 0]);
    // Whatever a program does: the ledger itself forbids it.
    let connection = Connection::open(chat.path()).unwrap();
    let twice = "INSERT INTO update_samples VALUES (3, 1, 'taken')";
    assert!(connection.execute(twice, []).unwrap_err().to_string().contains("UNIQUE"));
    let view = handle.turn(&user("ada"), turn).await.unwrap();
    assert_eq!((view.updates.len(), view.updates[0].version_after), (1, Some(4)));
    assert_eq!(handle.finish(UpdateId(9), accepted(4)).await, Err(LedgerError::Unknown(Thing::Update)));
}

#[tokio::test]
async fn what_is_shared_learns_from_those_who_share() {
    let chat = Chat::new();
    sample(&chat, "ada", "one").await;
    sample(&chat, "bob", "two").await;
    let handle = chat.handle();
    assert_eq!(taken(&chat, update("none", None, 9)).await.1, [] as [u64; 0], "no, until they say yes");
    handle.set_consent(&user("bob"), true).await.unwrap();
    assert!(handle.user(&user("bob")).await.unwrap().shares);
    let (id, samples) = taken(&chat, update("bob", None, 9)).await;
    assert_eq!(samples, [2]);
    handle.finish(id, Finish::Returned { reasons: vec![] }).await.unwrap();
    handle.set_consent(&user("bob"), false).await.unwrap();
    assert_eq!(taken(&chat, update("no more", None, 9)).await.1, [] as [u64; 0]);
    assert_eq!(states(&chat), "waiting waiting");
}

#[tokio::test]
async fn a_checkpoint_is_the_truth() {
    let chat = Chat::new();
    for question in ["one", "two", "three", "four"] {
        sample(&chat, "ada", question).await;
    }
    let handle = chat.handle();
    let (one, _) = taken(&chat, update("one", Some("ada"), 1)).await;
    handle.finish(one, accepted(4)).await.unwrap();
    let (two, _) = taken(&chat, update("two", Some("ada"), 1)).await;
    handle.finish(two, accepted(5)).await.unwrap();
    let (three, _) = taken(&chat, update("three", Some("ada"), 2)).await;
    assert_eq!(states(&chat), "trained trained taken taken");
    // The crash came between the checkpoint of version 6 and its entry here: half of what was taken is in it.
    let listed = vec![SampleId(1), SampleId(2), SampleId(3)];
    let done = handle.reconcile("ada", 6, listed.clone()).await;
    assert_eq!(done, Ok(Reconciled { trained: 1, waiting: 1 }));
    assert_eq!(states(&chat), "trained trained trained waiting");
    assert_eq!(handle.reconcile("ada", 6, listed).await, Ok(Reconciled::default()), "twice is once");
    let ended = format!("SELECT state || version_after FROM updates WHERE id = {}", three.0);
    assert_eq!(chat.value(&ended), "accepted6");
    // Training goes on from version 4: what came later is lost, and what it had waits.
    let done = handle.reconcile("ada", 4, vec![SampleId(1)]).await;
    assert_eq!(done, Ok(Reconciled { trained: 0, waiting: 2 }));
    assert_eq!(states(&chat), "trained waiting waiting waiting");
    let lost = "SELECT group_concat(state, ' ') FROM (SELECT state FROM updates ORDER BY id)";
    assert_eq!(chat.value(lost), "accepted lost lost");
    let (four, samples) = taken(&chat, update("four", Some("ada"), 9)).await;
    assert_eq!(samples, [2, 3, 4]);
    handle.finish(four, accepted(5)).await.unwrap();
    assert_eq!(states(&chat), "trained trained trained trained");
}
