//! Training data in the ledger.

use std::collections::BTreeMap;
use std::time::Duration;

use clawrl_gateway::{
    Adapter, Deletion, EntityKind, FeedbackSource, FeedbackTarget, Finish, LedgerChange, LedgerError,
    NEUTRAL, NewFeedback, NewReward, NewSample, NewUpdate, NewVote, Reconciled, RequestId, RollBack,
    SampleId, TurnId, UpdateId, VersionSegment, Waiting,
};
use rusqlite::Connection;
use serde_json::json;

use crate::recording::{Chat, replied, said};
use crate::tracker::user;

/// An answered turn and its sample.
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
    let nowhere = NewVote { turn: TurnId(RequestId(99)), ..vote(0, Ok(1)) };
    assert_eq!(handle.add_vote(nowhere).await, Err(LedgerError::Unknown(EntityKind::Turn)));
    let reward = |value| NewReward { turn, value, source: "votes".to_owned() };
    handle.set_reward(reward(0.5)).await.unwrap();
    handle.set_reward(reward(1.0)).await.unwrap();
    assert!(matches!(handle.set_reward(reward(f64::NAN)).await, Err(LedgerError::Refused(_))));
    let view = handle.turn(&user("ada"), turn).await.unwrap();
    let scores: Vec<Option<i64>> = view.votes.iter().map(|vote| vote.score).collect();
    assert_eq!((scores, view.reward.unwrap().value), (vec![Some(1), None], 1.0));
}

#[tokio::test]
async fn sample_is_trained_at_most_once() {
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
    // The ledger itself forbids it.
    let connection = Connection::open(chat.path()).unwrap();
    let twice = "INSERT INTO update_samples VALUES (3, 1, 'taken')";
    assert!(connection.execute(twice, []).unwrap_err().to_string().contains("UNIQUE"));
    let view = handle.turn(&user("ada"), turn).await.unwrap();
    assert_eq!((view.updates.len(), view.updates[0].version_after), (1, Some(4)));
    assert_eq!(handle.finish(UpdateId(9), accepted(4)).await, Err(LedgerError::Unknown(EntityKind::Update)));
}

#[tokio::test]
async fn shared_adapter_takes_samples_of_sharing_users() {
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
async fn reconcile_follows_the_checkpoint() {
    let chat = Chat::new();
    for question in ["one", "two", "three", "four"] {
        sample(&chat, "ada", question).await;
    }
    let handle = chat.handle();
    let (one, _) = taken(&chat, update("one", Some("ada"), 1)).await;
    handle.finish(one, accepted(4)).await.unwrap();
    let (two, _) = taken(&chat, update("two", Some("ada"), 1)).await;
    let on_a_branch = Finish::Accepted { version: 5, branch: 2, checkpoint: None, metrics: BTreeMap::new() };
    handle.finish(two, on_a_branch).await.unwrap();
    let (three, _) = taken(&chat, NewUpdate { version: 5, ..update("three", Some("ada"), 2) }).await;
    assert_eq!(states(&chat), "trained trained taken taken");
    // The crash came between the checkpoint of version 6 and its entry here: half of the taken samples are in it.
    let listed = vec![SampleId(1), SampleId(2), SampleId(3)];
    let done = handle.reconcile("ada", 6, Some("six".to_owned()), listed.clone()).await;
    assert_eq!(done, Ok(Reconciled { trained: 1, waiting: 1 }));
    let made = "SELECT parent || checkpoint || branch FROM versions WHERE version = 6";
    assert_eq!(chat.value(made), "5six2");
    assert_eq!(states(&chat), "trained trained trained waiting");
    assert_eq!(handle.reconcile("ada", 6, None, listed).await, Ok(Reconciled::default()), "twice is once");
    let ended = format!("SELECT state || version_after FROM updates WHERE id = {}", three.0);
    assert_eq!(chat.value(&ended), "accepted6");
    // Training resumes from version 4: later versions are lost, and their samples wait.
    let done = handle.reconcile("ada", 4, None, vec![SampleId(1)]).await;
    assert_eq!(done, Ok(Reconciled { trained: 0, waiting: 2 }));
    assert_eq!(states(&chat), "trained waiting waiting waiting");
    let lost = "SELECT group_concat(state, ' ') FROM (SELECT state FROM updates ORDER BY id)";
    assert_eq!(chat.value(lost), "accepted lost lost");
    let (four, samples) = taken(&chat, update("four", Some("ada"), 9)).await;
    assert_eq!(samples, [2, 3, 4]);
    handle.finish(four, accepted(5)).await.unwrap();
    assert_eq!(states(&chat), "trained trained trained trained");
}

fn vote(turn: TurnId) -> NewVote {
    NewVote { turn, judge: "j".to_owned(), ballot: 0, score: Ok(1), hint: None, raw: "because".to_owned() }
}

fn worth(turn: TurnId, reward: f64, hint: Option<&str>) -> NewSample {
    NewSample { request: turn.0, choice: 0, reward, hint: hint.map(str::to_owned) }
}

/// An update with one sample of Ada, which makes `version` of `adapter` from `from`.
async fn learn(chat: &Chat, (adapter, from, version): (&str, u64, u64)) -> UpdateId {
    let adapter = Adapter { name: adapter.to_owned(), owner: Some(user("ada")) };
    let key = format!("{} {version}", adapter.name);
    let new = NewUpdate { key, adapter, objective: "grpo".to_owned(), version: from, limit: 1 };
    let (update, samples) = taken(chat, new).await;
    assert_eq!(samples.len(), 1);
    chat.handle().finish(update, accepted(version)).await.unwrap();
    update
}

fn back(to: u64, version: u64) -> RollBack {
    RollBack { adapter: "ada".to_owned(), to, version, checkpoint: Some("d".to_owned()) }
}

/// Versions of Ada's adapter, newest first: number, parent, branch, accepted.
async fn line(chat: &Chat) -> String {
    let versions = chat.handle().versions("ada", 9).await.unwrap();
    let shown = versions.iter().map(|view| {
        let from = view.parent.map_or("-".to_owned(), |parent| parent.to_string());
        format!("{}<{from}/{}{}", view.version, view.branch, if view.accepted { "" } else { "!" })
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn updates(chat: &Chat) -> String {
    chat.value("SELECT group_concat(state, ' ') FROM (SELECT state FROM updates ORDER BY id)")
}

#[tokio::test]
async fn waiting_sample_has_the_latest_reward() {
    let chat = Chat::new();
    let (turn, id) = sample(&chat, "ada", "one").await;
    let handle = chat.handle();
    let since = |waiting: Vec<Waiting>| waiting[0].since_ms;
    let began = since(handle.waiting().await.unwrap());
    chat.pass(Duration::from_secs(5));
    assert_eq!(handle.add_sample(worth(turn, -1.0, Some("read it"))).await, Ok(id));
    assert_eq!(handle.add_sample(worth(turn, -1.0, None)).await, Ok(id));
    assert!(matches!(handle.add_sample(worth(turn, f64::NAN, None)).await, Err(LedgerError::Refused(_))));
    assert_eq!(since(handle.waiting().await.unwrap()), began, "it has waited all that time");
    let one = handle.take(update("one", Some("ada"), 9)).await.unwrap();
    assert_eq!((one.samples[0].reward, one.samples[0].hint.as_deref()), (-1.0, None));
    // Samples in an update, and trained ones, do not change.
    assert_eq!(handle.add_sample(worth(turn, 1.0, Some("late"))).await, Ok(id));
    assert_eq!(handle.take(update("one", Some("ada"), 9)).await, Ok(one.clone()));
    handle.finish(one.update, accepted(4)).await.unwrap();
    assert_eq!(handle.add_sample(worth(turn, 1.0, Some("late"))).await, Ok(id));
    let view = &handle.turn(&user("ada"), turn).await.unwrap().samples[0];
    assert_eq!((view.reward, view.hint.as_deref(), view.state.as_str()), (-1.0, None, "trained"));
}

#[tokio::test]
async fn trainer_sees_waiting_samples_and_sharing_users() {
    let chat = Chat::new();
    let handle = chat.handle();
    assert_eq!((handle.waiting().await, handle.sharing().await), (Ok(vec![]), Ok(vec![])));
    let (_, first) = sample(&chat, "ada", "one").await;
    let began = handle.waiting().await.unwrap()[0].since_ms;
    chat.pass(Duration::from_secs(7));
    sample(&chat, "ada", "two").await;
    sample(&chat, "bob", "three").await;
    handle.set_consent(&user("bob"), true).await.unwrap();
    handle.set_consent(&user("eve"), true).await.unwrap();
    let wait =
        |name: &str, shares, samples, since_ms| Waiting { user: user(name), shares, samples, since_ms };
    let later = began + 7000;
    let expected = vec![wait("ada", false, 2, began), wait("bob", true, 1, later)];
    assert_eq!(handle.waiting().await, Ok(expected));
    assert_eq!(handle.sharing().await, Ok(vec![user("bob"), user("eve")]));
    handle.set_consent(&user("eve"), false).await.unwrap();
    assert_eq!(handle.sharing().await, Ok(vec![user("bob")]));
    // Taken, dropped and deleted samples do not wait.
    assert_eq!(handle.drop_sample(first, "too old").await, Ok(true));
    assert_eq!(handle.waiting().await.unwrap()[0], wait("ada", false, 1, later));
    taken(&chat, update("one", Some("ada"), 9)).await;
    handle.delete(&user("bob"), Deletion::All).await.unwrap();
    assert_eq!(handle.waiting().await, Ok(vec![]));
}

#[tokio::test]
async fn turn_waits_for_judge_and_again_after_feedback() {
    let chat = Chat::new();
    let handle = chat.handle();
    let one = chat.ask("ada", "s", json!([said("hi")])).await;
    chat.say(one.request, "hello").await;
    assert_eq!(handle.unjudged(None, 9).await, Ok(vec![]), "nothing has followed");
    let two = chat.ask("ada", "s", json!([said("hi"), replied("hello"), said("no")])).await;
    chat.say(two.request, "well").await;
    let (ada, bob) = (user("ada"), user("bob"));
    assert_eq!(handle.unjudged(None, 9).await, Ok(vec![(ada.clone(), one.turn)]));
    let other = chat.ask("bob", "s", json!([said("hi")])).await;
    chat.say(other.request, "hello").await;
    let feedback = |turn| NewFeedback {
        target: FeedbackTarget::Turn(turn),
        choice: None,
        source: FeedbackSource::Api,
        thumb: Some(-1),
        text: None,
        score: None,
    };
    handle.feedback(&bob, feedback(other.turn)).await.unwrap();
    let both = vec![(bob.clone(), other.turn), (ada.clone(), one.turn)];
    assert_eq!(handle.unjudged(None, 9).await, Ok(both.clone()), "feedback needs no next state");
    assert_eq!(handle.unjudged(None, 1).await.unwrap(), both[..1]);
    assert_eq!(handle.unjudged(Some(both[0].1), 9).await.unwrap(), both[1..]);
    handle.add_vote(vote(one.turn)).await.unwrap();
    assert_eq!(handle.unjudged(None, 9).await.unwrap(), both[..1]);
    let reward = |turn| NewReward { turn, value: -1.0, source: "feedback".to_owned() };
    for round in 0..2 {
        chat.pass(Duration::from_secs(1));
        handle.set_reward(reward(other.turn)).await.unwrap();
        assert_eq!(handle.unjudged(None, 9).await, Ok(vec![]), "{round}: also if the reward is the same");
        chat.pass(Duration::from_secs(1));
        handle.feedback(&bob, feedback(other.turn)).await.unwrap();
        assert_eq!(handle.unjudged(None, 9).await.unwrap(), both[..1]);
    }
    handle.delete(&bob, Deletion::Turn(other.turn)).await.unwrap();
    assert_eq!(handle.unjudged(None, 9).await, Ok(vec![]));
    // Turns that are not main turns are not judged.
    let beat = "Follow the heartbeat monitor scratch context when provided.";
    let side = chat.ask("ada", "beat", json!([said(beat)])).await;
    chat.say(side.request, "ok").await;
    chat.ask("ada", "beat", json!([said(beat), replied("ok"), said(beat)])).await;
    assert_eq!(handle.unjudged(None, 9).await, Ok(vec![]));
}

#[tokio::test]
async fn left_out_samples_are_dropped_with_reasons() {
    let chat = Chat::new();
    for question in ["one", "two", "three", "four", "five"] {
        sample(&chat, "ada", question).await;
    }
    let handle = chat.handle();
    let left = |id, why: &str| vec![(SampleId(id), why.to_owned())];
    let reasons = || chat.value("SELECT group_concat(id || ' ' || reason, ', ') FROM samples");
    let (one, _) = taken(&chat, update("one", Some("ada"), 2)).await;
    handle.leave_out(one, left(2, "too long")).await.unwrap();
    handle.leave_out(one, left(2, "another reason")).await.unwrap();
    handle.leave_out(one, left(3, "never taken")).await.unwrap();
    assert_eq!(
        (states(&chat).as_str(), reasons().as_str()),
        ("taken dropped waiting waiting waiting", "2 too long")
    );
    assert_eq!(taken(&chat, update("one", Some("ada"), 2)).await.1, [1], "the update continues without it");
    handle.finish(one, accepted(4)).await.unwrap();
    handle.leave_out(one, left(1, "too late")).await.unwrap();
    assert_eq!(states(&chat), "trained dropped waiting waiting waiting");
    // However the update ends, the sample does not wait again, and has a reason.
    let (two, _) = taken(&chat, update("two", Some("ada"), 2)).await;
    handle.leave_out(two, left(3, "no tokens")).await.unwrap();
    let refused = Finish::Rejected { reasons: vec!["worse".to_owned()], metrics: BTreeMap::new() };
    handle.finish(two, refused).await.unwrap();
    let (three, _) = taken(&chat, update("three", Some("ada"), 2)).await;
    handle.leave_out(three, left(5, "stale")).await.unwrap();
    handle.finish(three, Finish::Returned { reasons: vec![] }).await.unwrap();
    assert_eq!(states(&chat), "trained dropped dropped rejected dropped");
    assert_eq!(reasons(), "2 too long, 3 no tokens, 5 stale");
    let done = handle.reconcile("ada", 4, None, vec![SampleId(1)]).await;
    assert_eq!(done, Ok(Reconciled::default()));
    assert_eq!(taken(&chat, update("four", Some("ada"), 9)).await.1, [] as [u64; 0]);
}

#[tokio::test]
async fn neutral_sample_waits_again_with_a_signal() {
    let chat = Chat::new();
    let (turn, id) = sample(&chat, "ada", "one").await;
    let (long, other) = sample(&chat, "ada", "two").await;
    let handle = chat.handle();
    handle.add_sample(worth(turn, 0.0, None)).await.unwrap();
    let (one, _) = taken(&chat, update("one", Some("ada"), 2)).await;
    let out = vec![(id, NEUTRAL.to_owned()), (other, "too long".to_owned())];
    handle.leave_out(one, out).await.unwrap();
    handle.finish(one, Finish::Returned { reasons: vec![] }).await.unwrap();
    handle.add_sample(worth(turn, 0.0, None)).await.unwrap();
    handle.add_sample(worth(long, -1.0, Some("shorter"))).await.unwrap();
    assert_eq!(states(&chat), "dropped dropped", "nothing is said, and what was said did not count");
    handle.add_sample(worth(turn, -1.0, Some("read it"))).await.unwrap();
    assert_eq!(states(&chat), "waiting dropped");
    let two = handle.take(update("two", Some("ada"), 2)).await.unwrap();
    assert_eq!((two.samples[0].reward, two.samples[0].hint.as_deref()), (-1.0, Some("read it")));
    handle.finish(two.update, accepted(4)).await.unwrap();
    assert_eq!(states(&chat), "trained dropped");
}

#[tokio::test]
async fn rollback_discards_other_branches() {
    let chat = Chat::new();
    let mut turns = Vec::new();
    for question in ["one", "two", "three", "four", "five"] {
        turns.push(sample(&chat, "ada", question).await.0);
    }
    let handle = chat.handle();
    learn(&chat, ("ada", 0, 1)).await;
    handle.roll_back(back(0, 2)).await.unwrap();
    handle.roll_back(back(1, 3)).await.unwrap();
    assert_eq!(line(&chat).await, "3<1/2 2<0/1! 1<0/0");
    assert_eq!(states(&chat), "trained waiting waiting waiting waiting");
    // Version 0, through its copy: it contains nothing of version 1.
    handle.roll_back(back(2, 4)).await.unwrap();
    assert_eq!(line(&chat).await, "4<2/3 3<1/2! 2<0/1 1<0/0!");
    assert_eq!(states(&chat), "dropped waiting waiting waiting waiting");
    assert_eq!(updates(&chat), "lost");
    handle.roll_back(back(3, 5)).await.unwrap();
    assert_eq!(line(&chat).await, "5<3/4 4<2/3! 3<1/2 2<0/1! 1<0/0");
    assert_eq!(states(&chat), "trained waiting waiting waiting waiting");
    // Descendants contain what their ancestor learned.
    learn(&chat, ("ada", 5, 6)).await;
    let deleted = handle.delete(&user("ada"), Deletion::Turn(turns[0])).await.unwrap();
    let versions: Vec<u64> = deleted.versions.into_iter().map(|(_, version)| version).collect();
    assert_eq!(versions, [1, 3, 5, 6]);
}

#[tokio::test]
async fn rollback_discards_later_learning() {
    let chat = Chat::new();
    for question in ["one", "two", "three", "four", "five"] {
        sample(&chat, "ada", question).await;
    }
    let handle = chat.handle();
    learn(&chat, ("ada", 3, 4)).await;
    learn(&chat, ("ada", 4, 5)).await;
    learn(&chat, ("other", 3, 5)).await;
    learn(&chat, ("ada", 5, 6)).await;
    assert_eq!(line(&chat).await, "6<5/0 5<4/0 4<3/0");
    let taken = handle.roll_back(back(4, 6)).await;
    assert!(matches!(taken, Err(LedgerError::Refused(_))), "{taken:?}");
    let mut events = handle.events();
    handle.roll_back(back(4, 7)).await.unwrap();
    assert_eq!(events.try_recv().unwrap().what, LedgerChange::Learned);
    assert_eq!(line(&chat).await, "7<4/1 6<5/0! 5<4/0! 4<3/0");
    let views = handle.versions("ada", 1).await.unwrap();
    assert_eq!((views.len(), views[0].checkpoint.as_deref()), (1, Some("d")));
    assert!(!json!(views).to_string().contains("checkpoint"), "its path is not shown");
    assert_eq!(handle.versions("other", 9).await.unwrap().len(), 1);
    assert_eq!(states(&chat), "trained dropped trained dropped waiting");
    let why = "SELECT group_concat(DISTINCT reason) FROM samples";
    assert_eq!(chat.value(why), "given up when version 4 was gone back to");
    assert_eq!(updates(&chat), "accepted lost accepted lost");
    // A repeated rollback, and a checkpoint with the same content, change nothing.
    let rows = chat.rows();
    handle.roll_back(back(4, 7)).await.unwrap();
    assert_eq!(handle.reconcile("ada", 7, None, vec![SampleId(1)]).await, Ok(Reconciled::default()));
    assert_eq!(chat.rows(), rows);
    learn(&chat, ("ada", 7, 8)).await;
    let rows = chat.rows();
    handle.roll_back(back(4, 7)).await.unwrap();
    let both = vec![SampleId(1), SampleId(5)];
    assert_eq!(handle.reconcile("ada", 8, None, both).await, Ok(Reconciled::default()));
    assert_eq!(chat.rows(), rows);
    assert_eq!(line(&chat).await, "8<7/0 7<4/1 6<5/0! 5<4/0! 4<3/0");
    // Everything, back to version 0.
    handle.roll_back(back(0, 9)).await.unwrap();
    assert_eq!(line(&chat).await, "9<0/2 8<7/0! 7<4/1! 6<5/0! 5<4/0! 4<3/0!");
    assert_eq!(states(&chat), "dropped dropped trained dropped dropped");
}

#[tokio::test]
async fn discarded_version_can_be_restored() {
    let chat = Chat::new();
    let mut turns = Vec::new();
    for question in ["one", "two", "three", "four", "five"] {
        turns.push(sample(&chat, "ada", question).await.0);
    }
    let handle = chat.handle();
    let (one, _) = taken(&chat, update("one", Some("ada"), 2)).await;
    handle.leave_out(one, vec![(SampleId(2), "too long".to_owned())]).await.unwrap();
    handle.finish(one, accepted(4)).await.unwrap();
    learn(&chat, ("ada", 4, 5)).await;
    handle.roll_back(back(3, 6)).await.unwrap();
    learn(&chat, ("ada", 6, 7)).await;
    assert_eq!(states(&chat), "dropped dropped dropped trained waiting");
    handle.roll_back(back(5, 8)).await.unwrap();
    assert_eq!(line(&chat).await, "8<5/2 7<6/0! 6<3/1! 5<4/0 4<3/0");
    assert_eq!(states(&chat), "trained dropped trained dropped waiting");
    assert_eq!(updates(&chat), "accepted accepted lost");
    let left = chat.value("SELECT reason FROM samples WHERE id = 2");
    assert_eq!(left, "too long", "what was left out was in no version");
    let listed = vec![SampleId(1), SampleId(3)];
    assert_eq!(handle.reconcile("ada", 8, None, listed).await, Ok(Reconciled::default()));
    // A deletion reports discarded versions, too, because they can be restored.
    let deleted = handle.delete(&user("ada"), Deletion::Turn(turns[3])).await.unwrap();
    assert_eq!(deleted.versions, [("ada".to_owned(), 7)]);
}

#[tokio::test]
async fn rollback_may_reuse_a_lost_number() {
    let chat = Chat::new();
    for question in ["one", "two"] {
        sample(&chat, "ada", question).await;
    }
    let handle = chat.handle();
    learn(&chat, ("ada", 3, 4)).await;
    learn(&chat, ("ada", 4, 5)).await;
    // The checkpoint of version 5 was lost, and its number is reused.
    handle.reconcile("ada", 4, None, vec![SampleId(1)]).await.unwrap();
    handle.roll_back(back(3, 5)).await.unwrap();
    assert_eq!(line(&chat).await, "5<3/1 4<3/0!");
    assert_eq!(states(&chat), "dropped waiting");
}
