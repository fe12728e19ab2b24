//! Deleted data is gone, and not trained on.

use clawrl_gateway::{
    Adapter, Admitted, Deletion, EntityKind, FeedbackSource, FeedbackTarget, Finish, LedgerError,
    NewFeedback, NewReward, NewSample, NewUpdate, NewVote, RequestId, SessionId, UpdateId,
};
use serde_json::json;

use crate::recording::{Chat, answer, replied, said};
use crate::tracker::user;

/// Three turns of Ada, each with all kinds of feedback; the second turn's words have a mark.
async fn three_turns(chat: &Chat) -> [Admitted; 3] {
    let handle = chat.handle();
    let mut history = Vec::new();
    let mut turns = Vec::new();
    for (question, text) in [("first", "one"), ("MARK-question", "MARK-answer"), ("third", "three")] {
        history.push(said(question));
        let turn = chat.ask("ada", "s", json!(history)).await;
        history.push(replied(text));
        let mut new = answer(text);
        new.choices[0].reasoning = Some(format!("{text}-reasoning"));
        handle.answered(turn.request, new).await.unwrap();
        turns.push(turn);
    }
    for turn in &turns {
        // The judge of the first turn quotes its next state, too.
        let vote = NewVote {
            turn: turn.turn,
            judge: "j".to_owned(),
            ballot: 0,
            score: Ok(1),
            hint: Some("MARK-hint".to_owned()),
            raw: "MARK-raw".to_owned(),
        };
        assert_eq!(handle.add_vote(vote).await, Ok(true));
        let reward = NewReward { turn: turn.turn, value: 1.0, source: "votes".to_owned() };
        handle.set_reward(reward).await.unwrap();
        let hint = Some("MARK-hint".to_owned());
        handle.add_sample(NewSample { request: turn.request, choice: 0, reward: 1.0, hint }).await.unwrap();
    }
    let given = NewFeedback {
        target: FeedbackTarget::Turn(turns[1].turn),
        choice: None,
        source: FeedbackSource::Extension,
        thumb: Some(1),
        text: Some("MARK-feedback".to_owned()),
        score: Some(0.5),
    };
    handle.feedback(&user("ada"), given).await.unwrap();
    turns.try_into().unwrap()
}

fn update(key: &str, limit: u32) -> NewUpdate {
    let adapter = Adapter { name: "ada".to_owned(), owner: Some(user("ada")) };
    NewUpdate { key: key.to_owned(), adapter, objective: "grpo".to_owned(), version: 3, limit }
}

#[tokio::test]
async fn deleted_turn_leaves_the_file_and_drops_samples() {
    let mut chat = Chat::new();
    let [first, second, third] = three_turns(&chat).await;
    assert!(chat.has_on_disk("MARK-answer"));
    let deleted = chat.handle().delete(&user("ada"), Deletion::Turn(second.turn)).await.unwrap();
    // The third turn repeats it; the first has its sample from the second one's words.
    assert_eq!((deleted.turns, deleted.requests, deleted.samples), (2, 2, 3));
    assert_eq!((deleted.versions, deleted.running), (vec![], vec![]));
    assert!(!chat.has_on_disk("MARK"), "at once, while the file is open");
    let kept = chat.handle().turn(&user("ada"), first.turn).await.unwrap();
    assert_eq!(kept.requests[0].answers[0].text.as_deref(), Some("one"));
    assert_eq!((kept.next_state, kept.votes.len(), kept.reward), (None, 0, None));
    for turn in [second.turn, third.turn] {
        let gone = chat.handle().turn(&user("ada"), turn).await.unwrap();
        assert!(gone.line.deleted_ms.is_some());
        assert_eq!(gone.samples[0].reason.as_deref(), Some("deleted"));
        assert_eq!((&gone.requests[0].body, gone.requests[0].prompt_ids.len()), (&None, 0));
        let answer = &gone.requests[0].answers[0];
        assert_eq!((&answer.text, answer.sampled_ids.len(), answer.logprobs.len()), (&None, 0, 0));
        assert_eq!(answer.inexact.as_deref(), Some("deleted"));
    }
    let taken = chat.handle().take(update("u", 9)).await.unwrap();
    assert_eq!(taken.samples, []);
    // A repeated deletion changes nothing; deleted turns are not valid targets.
    let again = chat.handle().delete(&user("ada"), Deletion::Turn(second.turn)).await.unwrap();
    assert_eq!((again.turns, again.requests, again.samples), (0, 0, 0));
    let sample = NewSample { request: second.request, choice: 0, reward: 1.0, hint: None };
    assert!(chat.handle().add_sample(sample).await.is_ok(), "the one that was dropped");
    let reward = NewReward { turn: second.turn, value: 1.0, source: String::new() };
    assert_eq!(chat.handle().set_reward(reward).await, Err(LedgerError::Unknown(EntityKind::Turn)));
    chat.close();
    assert!(!chat.has_on_disk("MARK"));
}

#[tokio::test]
async fn deletion_reports_trained_versions() {
    let chat = Chat::new();
    let [first, ..] = three_turns(&chat).await;
    let handle = chat.handle();
    let one = handle.take(update("one", 1)).await.unwrap();
    let accepted = Finish::Accepted {
        version: 4,
        branch: 0,
        checkpoint: None,
        metrics: [("loss".to_owned(), 0.5)].into(),
    };
    handle.finish(one.update, accepted).await.unwrap();
    let two = handle.take(update("two", 1)).await.unwrap();
    let deleted = handle.delete(&user("ada"), Deletion::Session(first.session)).await.unwrap();
    assert_eq!(deleted.versions, [("ada".to_owned(), 4)]);
    assert_eq!(deleted.running, [UpdateId(2)]);
    assert_eq!((deleted.turns, deleted.samples), (3, 1));
    // A returned sample is not tried again.
    handle.finish(two.update, Finish::Returned { reasons: vec!["stopped".to_owned()] }).await.unwrap();
    assert_eq!(chat.value("SELECT group_concat(state, ' ') FROM samples"), "trained dropped dropped");
    assert_eq!(handle.take(update("three", 9)).await.unwrap().samples, []);
}

#[tokio::test]
async fn deleted_turns_are_not_linked_to() {
    let mut chat = Chat::new();
    let [_, second, _] = three_turns(&chat).await;
    let history = json!([said("first"), replied("one"), said("MARK-question")]);
    let waiting = chat.ask("ada", "s", history.clone()).await;
    assert_eq!(waiting.turn, second.turn);
    chat.handle().delete(&user("ada"), Deletion::Turn(second.turn)).await.unwrap();
    // The answer to a request that was deleted meanwhile is accepted and not stored.
    chat.say(waiting.request, "MARK-late").await;
    assert!(!chat.has_on_disk("MARK"));
    let anew = chat.ask("ada", "s", history.clone()).await;
    assert_eq!((anew.session, anew.turn.0), (SessionId(anew.request), anew.request));
    chat.open().unwrap();
    let again = chat.ask("ada", "s", history).await;
    assert_eq!((again.session, again.turn), (anew.session, anew.turn));
}

#[tokio::test]
async fn deleting_a_user_keeps_other_users() {
    let chat = Chat::new();
    three_turns(&chat).await;
    let other = chat.ask("bob", "s", json!([said("hi")])).await;
    chat.say(other.request, "bobs own").await;
    let deleted = chat.handle().delete(&user("ada"), Deletion::All).await.unwrap();
    assert_eq!((deleted.turns, deleted.samples), (3, 3));
    assert!(!chat.has_on_disk("MARK"));
    assert!(chat.handle().turn(&user("bob"), other.turn).await.unwrap().line.deleted_ms.is_none());
    assert_eq!(chat.ask("ada", "s", json!([said("hi")])).await.request, RequestId(5), "numbers go on");
    let mut export = chat.handle().export(&user("ada"));
    let mut lines = Vec::new();
    while let Some(line) = export.next().await.unwrap() {
        lines.push(serde_json::from_str::<serde_json::Value>(&line).unwrap());
    }
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0]["user"]["user"], "ada");
    assert!(lines[1]["turn"]["deleted_ms"].is_i64() && lines[4]["turn"]["deleted_ms"].is_null());
}
