//! Records of conversations, and access to them.

use std::time::Duration;

use clawrl_gateway::{
    Deletion, EntityKind, FeedbackSource, FeedbackTarget, LedgerChange, LedgerError, NewAnswer, NewFeedback,
    Page, RequestId, SessionId, TurnId, TurnKind,
};
use serde_json::{Value, json};

use crate::recording::{Chat, answer, asked, replied, said};
use crate::tracker::user;

fn feedback(target: FeedbackTarget) -> NewFeedback {
    NewFeedback {
        target,
        choice: None,
        source: FeedbackSource::Api,
        thumb: Some(-1),
        text: Some("no".to_owned()),
        score: None,
    }
}

#[tokio::test]
async fn conversation_is_recorded_with_training_data() {
    let chat = Chat::new();
    let mut events = chat.handle().events();
    let one = chat.ask("ada", "s", json!([said("hi")])).await;
    assert_eq!((one.request, one.turn), (RequestId(1), TurnId(RequestId(1))));
    assert_eq!((one.kind, one.is_retry), (TurnKind::Main, false));
    chat.pass(Duration::from_secs(2));
    chat.say(one.request, "hello").await;
    let two = chat.ask("ada", "s", json!([said("hi"), replied("hello"), said("no, wrong")])).await;
    assert_eq!((two.session, two.turn.0), (one.session, two.request));
    let again = chat.ask("ada", "s", json!([said("hi"), replied("hello"), said("no, wrong")])).await;
    assert_eq!((again.turn, again.is_retry), (two.turn, true));
    chat.handle().failed(two.request, "the stream was cut").await.unwrap();

    let turn = chat.handle().turn(&user("ada"), one.turn).await.unwrap();
    let request = &turn.requests[0];
    assert_eq!(request.body.as_deref(), Some(r#"{"messages":[{"content":"hi","role":"user"}],"model":"m"}"#));
    assert_eq!(request.headers, [("x-clawrl-session".to_owned(), "s".to_owned())]);
    assert_eq!((request.state.as_str(), request.prompt_ids.as_slice()), ("answered", &[1, 5, 9][..]));
    assert_eq!(request.ended_ms.unwrap() - request.received_ms, 2000);
    let answer = &request.answers[0];
    assert_eq!(answer.text.as_deref(), Some("hello"));
    assert_eq!(answer.sampled_ids, [104, 101, 108, 108, 111, 2]);
    assert_eq!(answer.logprobs, [-0.5; 6]);
    assert_eq!((answer.exact, &answer.versions), (true, &json!([[0, 3]])));
    let next = turn.next_state.unwrap();
    assert_eq!(
        (next.answered, next.request, next.messages),
        (one.request, two.request, json!([[2, "user", null]]))
    );
    let second = chat.handle().turn(&user("ada"), two.turn).await.unwrap();
    assert_eq!(second.line.parent, Some(one.turn));
    let states: Vec<&str> = second.requests.iter().map(|request| request.state.as_str()).collect();
    assert_eq!(states, ["failed", "waiting"]);
    assert_eq!(second.requests[0].reason.as_deref(), Some("the stream was cut"));

    let changes: Vec<LedgerChange> =
        std::iter::from_fn(|| events.try_recv().ok()).map(|event| event.what).collect();
    let expected = [
        LedgerChange::SessionOpened,
        LedgerChange::TurnOpened,
        LedgerChange::Answered,
        LedgerChange::TurnOpened,
        LedgerChange::NextState,
        LedgerChange::Retried,
        LedgerChange::Unanswered,
    ];
    assert_eq!(changes, expected);
}

/// A client may leave before its request is recorded, and before it learns the number.
#[tokio::test]
async fn request_of_a_gone_caller_fails() {
    for is_recorded in [false, true] {
        let (chat, handle, arrival) = loop {
            let chat = Chat::new();
            let handle = chat.handle();
            let asks = handle.clone();
            let mut arrival =
                Box::pin(async move { asks.arrived(asked("ada", "s", json!([said("hi")]))).await });
            // If the recorder was faster, there is no such moment.
            if futures_util::poll!(&mut arrival).is_pending() {
                break (chat, handle, arrival);
            }
        };
        if is_recorded {
            // Jobs run in order, so this one's answer comes after the abandoned one.
            chat.ask("eve", "t", json!([said("ho")])).await;
        }
        drop(arrival);
        chat.ask("eve", "t", json!([said("ho")])).await;
        // Abandoned requests fail after the batch that noticed them, and this call comes after that.
        handle.expire().await.unwrap();
        let turn = handle.turn(&user("ada"), TurnId(RequestId(1))).await.unwrap();
        let request = &turn.requests[0];
        assert_eq!(request.state, "failed", "recorded: {is_recorded}");
        let reason = "the client disconnected before its request was recorded";
        assert_eq!(request.reason.as_deref(), Some(reason));
    }
}

#[tokio::test]
async fn users_cannot_see_or_change_others_records() {
    let chat = Chat::new();
    let one = chat.ask("ada", "s", json!([said("hi")])).await;
    chat.say(one.request, "hello").await;
    let (handle, bob) = (chat.handle(), user("bob"));
    let before = chat.rows();
    let targets = [
        FeedbackTarget::Turn(one.turn),
        FeedbackTarget::Request(one.request),
        FeedbackTarget::Latest(one.session),
    ];
    // The same error for another user's entry as for a missing one.
    let nowhere = RequestId(77);
    let none = [
        FeedbackTarget::Turn(TurnId(nowhere)),
        FeedbackTarget::Request(nowhere),
        FeedbackTarget::Latest(SessionId(nowhere)),
    ];
    for (theirs, none) in targets.into_iter().zip(none) {
        let refused = handle.feedback(&bob, feedback(theirs)).await.unwrap_err();
        assert!(matches!(refused, LedgerError::Unknown(_)));
        assert_eq!(handle.feedback(&bob, feedback(none)).await.unwrap_err(), refused);
    }
    let turn = LedgerError::Unknown(EntityKind::Turn);
    let session = LedgerError::Unknown(EntityKind::Session);
    assert_eq!(handle.turn(&bob, one.turn).await.unwrap_err(), turn);
    assert_eq!(handle.session(&bob, one.session).await.unwrap_err(), session);
    assert_eq!(handle.close_session(&bob, one.session).await.unwrap_err(), session);
    assert_eq!(handle.delete(&bob, Deletion::Turn(one.turn)).await.unwrap_err(), turn);
    assert_eq!(handle.delete(&bob, Deletion::Session(one.session)).await.unwrap_err(), session);
    assert_eq!(handle.delete(&bob, Deletion::All).await.unwrap().turns, 0);
    let page = Page { before: None, limit: 10 };
    assert_eq!(handle.sessions(Some(&bob), page).await.unwrap(), []);
    assert_eq!(handle.export(&bob).next().await.unwrap(), None);
    assert_eq!(chat.rows(), before);
    // The same name of a session opens a new session.
    let other = chat.ask("bob", "s", json!([said("hi")])).await;
    assert_ne!(other.session, one.session);
    assert_eq!(handle.sessions(None, page).await.unwrap().len(), 2);
    assert_eq!(handle.sessions(Some(&bob), page).await.unwrap().len(), 1);
}

#[tokio::test]
async fn feedback_finds_its_turn() {
    let chat = Chat::new();
    let one = chat.ask("ada", "s", json!([said("hi")])).await;
    let handle = chat.handle();
    let latest = FeedbackTarget::Latest(one.session);
    let unknown = LedgerError::Unknown(EntityKind::Session);
    assert_eq!(handle.feedback(&user("ada"), feedback(latest)).await, Err(unknown), "nothing was answered");
    chat.say(one.request, "hello").await;
    let two = chat.ask("ada", "s", json!([said("hi"), replied("hello"), said("go on")])).await;
    // The latest answer is the one that was answered last, not the one that was asked last.
    handle.feedback(&user("ada"), feedback(latest)).await.unwrap();
    handle.feedback(&user("ada"), feedback(FeedbackTarget::Request(two.request))).await.unwrap();
    let given = |turn| {
        let handle = handle.clone();
        async move { handle.turn(&user("ada"), turn).await.unwrap().feedback }
    };
    let first = given(one.turn).await;
    assert_eq!((first.len(), first[0].thumb, first[0].text.as_deref()), (1, Some(-1), Some("no")));
    assert_eq!(given(two.turn).await.len(), 1);
    let wrong = NewFeedback { thumb: Some(2), ..feedback(latest) };
    assert!(matches!(handle.feedback(&user("ada"), wrong).await, Err(LedgerError::Refused(_))));
}

#[tokio::test]
async fn feedback_applies_to_one_answer_of_its_turn() {
    let chat = Chat::new();
    let (handle, ada) = (chat.handle(), user("ada"));
    let one = chat.ask("ada", "s", json!([said("hi")])).await;
    let unanswered = handle.feedback(&ada, feedback(FeedbackTarget::Turn(one.turn))).await;
    assert_eq!(unanswered, Err(LedgerError::Unknown(EntityKind::Turn)), "nothing was answered");
    chat.say(one.request, "hello").await;
    let again = chat.ask("ada", "s", json!([said("hi")])).await;
    assert_eq!(again.turn, one.turn, "a retry");
    handle.feedback(&ada, feedback(FeedbackTarget::Request(again.request))).await.unwrap();
    chat.say(again.request, "ho").await;
    let about = async |target| {
        handle.feedback(&ada, feedback(target)).await.unwrap();
        let said = handle.turn(&ada, one.turn).await.unwrap().feedback.pop().unwrap();
        (said.answered, said.choice)
    };
    let turn = FeedbackTarget::Turn(one.turn);
    assert_eq!(about(FeedbackTarget::Request(one.request)).await, (Some(one.request), Some(0)));
    assert_eq!(about(turn).await, (Some(again.request), Some(0)));
    assert_eq!(about(FeedbackTarget::Latest(one.session)).await, (Some(again.request), Some(0)));
    // Feedback on a cut answer is allowed.
    let third = chat.ask("ada", "s", json!([said("hi")])).await;
    handle.failed(third.request, "the client disconnected").await.unwrap();
    assert_eq!(about(FeedbackTarget::Request(third.request)).await, (Some(third.request), Some(0)));
    // The turn's answer is the one that the conversation continued.
    chat.ask("ada", "s", json!([said("hi"), replied("hello"), said("go on")])).await;
    assert_eq!(about(turn).await, (Some(one.request), Some(0)));
}

#[tokio::test]
async fn feedback_on_several_choices_needs_an_index() {
    let chat = Chat::new();
    let (handle, ada) = (chat.handle(), user("ada"));
    let one = chat.ask("ada", "s", json!([said("hi")])).await;
    let choices = ["hello", "ho"].map(|text| answer(text).choices.remove(0));
    let new = NewAnswer { choices: choices.into(), ..answer("") };
    handle.answered(one.request, new).await.unwrap();
    let say = async |choice| {
        let new = NewFeedback { choice, ..feedback(FeedbackTarget::Request(one.request)) };
        handle.feedback(&ada, new).await.map_err(|error| error.to_string())
    };
    assert!(say(None).await.unwrap_err().contains("the answer has 2 choices; set `choice`, from 0"));
    assert!(say(Some(2)).await.unwrap_err().contains("the answer has no choice 2"));
    say(Some(1)).await.unwrap();
    chat.ask("ada", "s", json!([said("hi"), replied("ho"), said("go on")])).await;
    say(None).await.unwrap();
    let said = handle.turn(&ada, one.turn).await.unwrap().feedback;
    assert_eq!(said.iter().map(|said| said.choice).collect::<Vec<_>>(), [Some(1), Some(1)]);
}

#[tokio::test]
async fn reactions_in_contexts_are_feedback() {
    let chat = Chat::new();
    let one = chat.ask("ada", "s", json!([said("hi")])).await;
    chat.say(one.request, "hello").await;
    let line = "System: [2026-11-20 09:49:17 UTC] Telegram reaction added: 👎 by Al on msg 44";
    let context =
        format!("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\n{line}\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>");
    chat.ask("ada", "s", json!([said("hi"), replied("hello"), said("go on"), said(&context)])).await;
    let turn = chat.handle().turn(&user("ada"), one.turn).await.unwrap();
    assert_eq!((turn.feedback[0].source.as_str(), turn.feedback[0].thumb), ("reaction", Some(-1)));
    assert_eq!(turn.feedback[0].reaction["emoji"], "👎");
    assert_eq!(turn.next_state.unwrap().aside, json!([3]));
}

#[tokio::test]
async fn sessions_end_by_time_and_by_request() {
    let chat = Chat::new();
    let handle = chat.handle();
    let one = chat.ask("ada", "one", json!([said("hi")])).await;
    chat.say(one.request, "hello").await;
    let two = chat.ask("ada", "two", json!([said("hi")])).await;
    chat.pass(Duration::from_secs(30 * 60 - 1));
    assert_eq!(handle.expire().await, Ok(0));
    chat.pass(Duration::from_secs(1));
    assert_eq!(handle.expire().await, Ok(1), "one that waits for an answer is not idle");
    let view = handle.session(&user("ada"), one.session).await.unwrap();
    assert_eq!(view.why.as_deref(), Some("idle"));
    assert!(view.turns[0].ended_without_next_state);
    handle.close_session(&user("ada"), two.session).await.unwrap();
    assert_eq!(handle.session(&user("ada"), two.session).await.unwrap().closed_ms, None, "an answer is due");
    chat.say(two.request, "hello").await;
    assert_eq!(handle.session(&user("ada"), two.session).await.unwrap().why.as_deref(), Some("endpoint"));
}

#[tokio::test]
async fn answer_that_cannot_be_trained_has_a_reason() {
    let chat = Chat::new();
    let check = async |request: RequestId, turn: TurnId, expected: &str| {
        chat.say(request, "hello").await;
        let view = chat.handle().turn(&user("ada"), turn).await.unwrap();
        let answer = &view.requests[0].answers[0];
        assert_eq!((answer.exact, answer.inexact.as_deref()), (false, Some(expected)));
    };
    let side = chat.ask("ada", "s", json!([said("Follow the heartbeat monitor scratch context")])).await;
    check(side.request, side.turn, "a side turn: a heartbeat").await;
    let unknown = chat.ask("ada", "t", json!([said("hi"), replied("hello")])).await;
    let view = chat.handle().turn(&user("ada"), unknown.turn).await.unwrap();
    let mark = view.line.mark.unwrap();
    check(unknown.request, unknown.turn, &format!("not known to be a main turn: {mark}")).await;
    let secret = chat.ask("ada", "u", json!([said("sk-abcdefghijklmnopqrst")])).await;
    check(secret.request, secret.turn, "the request was redacted").await;
}

#[tokio::test]
async fn redacted_text_is_not_stored_and_still_links() {
    let secret = "sk-MARKERabcdefghijklmnop";
    let mut chat = Chat::new();
    let question = format!("my key is {secret}");
    let reply = format!("never show {secret}!");
    let one = chat.ask("ada", "s", json!([said(&question)])).await;
    chat.say(one.request, &reply).await;
    let two = chat.ask("ada", "s", json!([said(&question), replied(&reply), said("sorry")])).await;
    chat.handle().failed(two.request, &format!("no {secret}")).await.unwrap();
    let text = Some(format!("again {secret}"));
    let given = NewFeedback { text, ..feedback(FeedbackTarget::Turn(one.turn)) };
    chat.handle().feedback(&user("ada"), given).await.unwrap();
    assert_eq!(chat.handle().turn(&user("ada"), two.turn).await.unwrap().line.parent, Some(one.turn));
    let view = chat.handle().turn(&user("ada"), one.turn).await.unwrap();
    let request = &view.requests[0];
    let body: Value = serde_json::from_str(request.body.as_deref().unwrap()).unwrap();
    assert_eq!(body["messages"][0]["content"], "my key is [redacted:sk-key]");
    assert_eq!(request.redacted, json!({"sk-key": 1}));
    assert_eq!(request.answers[0].text.as_deref(), Some("never show [redacted:sk-key]!"));
    assert!(request.prompt_ids.is_empty() && request.answers[0].sampled_ids.is_empty());
    assert!(request.answers[0].logprobs.is_empty());
    assert_eq!(view.feedback[0].text.as_deref(), Some("again [redacted:sk-key]"));
    assert!(view.next_state.is_some());
    // Restored from the redacted text, while the client still sends the original.
    chat.open().unwrap();
    let three = json!([said(&question), replied(&reply), said("sorry")]);
    let again = chat.ask("ada", "s", three).await;
    assert_eq!((again.turn, again.is_retry), (two.turn, true));
    chat.close();
    assert!(!chat.has_on_disk("MARKER"));
    assert!(chat.has_on_disk("[redacted:sk-key]"));
}

#[tokio::test]
async fn gone_client_leaves_no_request_waiting() {
    let chat = Chat::new();
    let handle = chat.handle();
    {
        // The recorder waits for the process that locks the file, and the client does not.
        let held = rusqlite::Connection::open(chat.path()).unwrap();
        held.execute_batch("BEGIN IMMEDIATE").unwrap();
        tokio::select! {
            biased;
            _ = handle.arrived(asked("ada", "s", json!([said("hi")]))) => panic!("the file is held"),
            () = std::future::ready(()) => {}
        }
    }
    // This call comes after it and its consequences.
    handle.expire().await.unwrap();
    handle.expire().await.unwrap();
    let reason = chat.value("SELECT state || ': ' || reason FROM requests");
    assert_eq!(reason, "failed: the client disconnected before its request was recorded");
}

#[tokio::test]
async fn answer_is_counted_once() {
    let chat = Chat::new();
    let one = chat.ask("ada", "s", json!([said("hi")])).await;
    chat.say(one.request, "hello").await;
    let before = chat.rows();
    let unknown = Err(LedgerError::Unknown(EntityKind::Request));
    assert_eq!(chat.handle().answered(one.request, answer("other")).await, unknown);
    assert_eq!(chat.handle().failed(one.request, "late").await, unknown);
    assert_eq!(chat.handle().answered(RequestId(9), answer("other")).await, unknown);
    assert_eq!(chat.rows(), before);
}
