//! Long bodies and prompts, which are stored as differences.

use clawrl_gateway::{Admitted, Deletion, NewAnswer};
use serde_json::{Value, json};

use crate::ledger_files::noise;
use crate::recording::{Chat, answer, replied, said};
use crate::tracker::user;

/// A conversation of this many turns; returns the text of each body, and each prompt.
async fn talk(chat: &Chat, turns: u32) -> (Vec<Value>, Vec<(Admitted, String, Vec<u32>)>) {
    talk_of(chat, ("ada", "s"), turns).await
}

/// The same for a user and a session. All start alike.
async fn talk_of(
    chat: &Chat,
    (who, session): (&str, &str),
    turns: u32,
) -> (Vec<Value>, Vec<(Admitted, String, Vec<u32>)>) {
    let (mut history, mut recorded) = (vec![said(&noise(3_000, 1))], Vec::new());
    for turn in 0..turns {
        if turn > 0 {
            history.push(said(&format!("{session} {}", noise(200, u64::from(turn) + 2))));
        }
        let admitted = chat.ask(who, session, json!(history)).await;
        // Each prompt ends with tokens that the next one lacks.
        let prompt: Vec<u32> = (0..600 + 40 * turn).chain([900_000, turn]).collect();
        let text = format!("answer {turn}");
        let new = NewAnswer { prompt_ids: prompt.clone().into(), ..answer(&text) };
        chat.handle().answered(admitted.request, new).await.unwrap();
        recorded.push((admitted, json!(history).to_string(), prompt));
        history.push(replied(&text));
    }
    (history, recorded)
}

async fn assert_kept(chat: &Chat, recorded: &[(Admitted, String, Vec<u32>)]) {
    assert_kept_of(chat, "ada", recorded).await;
}

async fn assert_kept_of(chat: &Chat, who: &str, recorded: &[(Admitted, String, Vec<u32>)]) {
    for (admitted, history, prompt) in recorded {
        let view = chat.handle().turn(&user(who), admitted.turn).await.unwrap();
        let request = view.requests.iter().find(|view| view.request == admitted.request).unwrap();
        let body: Value = serde_json::from_str(request.body.as_ref().unwrap()).unwrap();
        assert_eq!(body["messages"].to_string(), *history);
        assert_eq!(request.prompt_ids, *prompt);
    }
}

#[tokio::test]
async fn repeated_content_is_stored_once_and_read_exactly() {
    let mut chat = Chat::new();
    let (mut history, recorded) = talk(&chat, 40).await;
    assert_kept(&chat, &recorded).await;
    // One in sixteen is stored whole.
    for table in ["bodies", "prompts"] {
        assert_eq!(chat.value(&format!("SELECT count(*) FROM {table} WHERE base IS NULL")), "3", "{table}");
        assert_eq!(chat.value(&format!("SELECT count(*) FROM {table}")), "40", "{table}");
    }
    let bytes = |which: &str| -> u64 {
        chat.value(&format!("SELECT sum(length(middle)) FROM bodies WHERE base IS {which} NULL"))
            .parse()
            .unwrap()
    };
    assert!(bytes("NOT") < 37 * 400 && bytes("") > 3 * 1_800, "{} {}", bytes("NOT"), bytes(""));

    // Restored from them and continued; a new recorder stores the first one whole.
    chat.open().unwrap();
    assert_kept(&chat, &recorded).await;
    history.push(said("and then?"));
    let next = chat.ask("ada", "s", json!(history)).await;
    assert_eq!(next.session, recorded[0].0.session);
    chat.handle().expire().await.unwrap();
    assert_eq!(chat.value("SELECT count(*) FROM bodies WHERE base IS NULL"), "4");
    assert_eq!(chat.value("SELECT count(*) FROM next_states"), "40");
}

/// A repeated turn does not depend on later ones, which may be deleted alone.
#[tokio::test]
async fn deletion_keeps_earlier_turns_readable() {
    let chat = Chat::new();
    let (_, recorded) = talk(&chat, 6).await;
    let messages = |of: usize| serde_json::from_str::<Value>(&recorded[of].1).unwrap();
    let again = chat.ask("ada", "s", messages(2)).await;
    assert!(again.is_retry);
    assert_eq!(again.turn, recorded[2].0.turn);
    let prompt = recorded[2].2.clone();
    let new = NewAnswer { prompt_ids: prompt.clone().into(), ..answer("again") };
    chat.handle().answered(again.request, new).await.unwrap();

    chat.handle().delete(&user("ada"), Deletion::Turn(recorded[3].0.turn)).await.unwrap();
    assert_kept(&chat, &recorded[..3]).await;
    assert_kept(&chat, &[(again, recorded[2].1.clone(), prompt)]).await;
    for (admitted, ..) in &recorded[3..] {
        let gone = chat.handle().turn(&user("ada"), admitted.turn).await.unwrap();
        assert_eq!((&gone.requests[0].body, gone.requests[0].prompt_ids.len()), (&None, 0));
    }
    assert_eq!(chat.value("SELECT count(*) FROM bodies"), "4");
    assert_eq!(chat.value("SELECT count(*) FROM prompts"), "4");
}

/// Equal starts of a user's sessions are stored once for some of them, and deleting that one leaves the others whole.
#[tokio::test]
async fn sessions_with_equal_start_share_a_base() {
    let mut chat = Chat::new();
    let (_, first) = talk_of(&chat, ("ada", "first"), 2).await;
    let (_, second) = talk_of(&chat, ("ada", "second"), 3).await;
    // No difference refers to another user's content.
    let (_, others) = talk_of(&chat, ("bob", "second"), 2).await;
    let count = |chat: &Chat, table: &str, which: &str| -> u64 {
        chat.value(&format!("SELECT count(*) FROM {table} WHERE {which}")).parse().unwrap()
    };
    for table in ["bodies", "prompts"] {
        assert_eq!(count(&chat, table, "base IS NULL"), 2, "{table}");
        let elsewhere =
            format!("elsewhere = 1 AND request = {} AND base = {}", second[0].0.request, first[0].0.request);
        assert_eq!(
            (count(&chat, table, "elsewhere = 1"), count(&chat, table, &elsewhere)),
            (1, 1),
            "{table}"
        );
    }
    assert_kept(&chat, &first).await;
    assert_kept(&chat, &second).await;
    chat.open().unwrap();
    assert_kept(&chat, &second).await;

    chat.handle().delete(&user("ada"), Deletion::Session(first[0].0.session)).await.unwrap();
    for table in ["bodies", "prompts"] {
        assert_eq!(count(&chat, table, "elsewhere = 1"), 0, "{table}");
        assert_eq!((count(&chat, table, "base IS NULL"), count(&chat, table, "1")), (2, 5), "{table}");
    }
    assert_kept(&chat, &second).await;
    assert_kept_of(&chat, "bob", &others).await;
    chat.open().unwrap();
    assert_kept(&chat, &second).await;
    chat.handle().delete(&user("ada"), Deletion::All).await.unwrap();
    assert_eq!((count(&chat, "bodies", "1"), count(&chat, "prompts", "1")), (2, 2));
}

/// A deletion rewrites at most this many.
#[tokio::test]
async fn sessions_share_a_base_up_to_the_limit() {
    let chat = Chat::new();
    let mut all = Vec::new();
    for session in 0..40 {
        all.extend(talk_of(&chat, ("ada", &format!("s{session}")), 1).await.1);
    }
    for table in ["bodies", "prompts"] {
        let shared = format!(
            "SELECT group_concat(n) FROM (SELECT count(*) n FROM {table} WHERE elsewhere = 1 GROUP BY base ORDER BY base)"
        );
        assert_eq!(chat.value(&shared), "32,6", "{table}");
    }
    assert_kept(&chat, &all).await;
}

/// Content that is deleted while its request waits is not stored when it is answered.
#[tokio::test]
async fn answer_to_deleted_request_stores_no_prompt() {
    let chat = Chat::new();
    let admitted = chat.ask("ada", "s", json!([said(&noise(3_000, 1))])).await;
    chat.handle().delete(&user("ada"), Deletion::All).await.unwrap();
    let new = NewAnswer { prompt_ids: (0..2_000).collect(), ..answer("late") };
    chat.handle().answered(admitted.request, new).await.unwrap();
    for table in ["bodies", "prompts", "answers"] {
        assert_eq!(chat.value(&format!("SELECT count(*) FROM {table}")), "0", "{table}");
    }
}
