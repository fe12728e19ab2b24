//! Long bodies and prompts, which are kept as what differs from the one before.

use clawrl_gateway::{Admitted, Deletion, NewAnswer};
use serde_json::{Value, json};

use crate::ledger_files::noise;
use crate::recording::{Chat, answer, replied, said};
use crate::tracker::user;

/// A conversation of so many turns, each with what was told: its body's words and its prompt.
async fn talk(chat: &Chat, turns: u32) -> (Vec<Value>, Vec<(Admitted, String, Vec<u32>)>) {
    talk_of(chat, ("ada", "s"), turns).await
}

/// The same of a user and a session. All begin alike.
async fn talk_of(
    chat: &Chat,
    (who, session): (&str, &str),
    turns: u32,
) -> (Vec<Value>, Vec<(Admitted, String, Vec<u32>)>) {
    let (mut history, mut told) = (vec![said(&noise(3_000, 1))], Vec::new());
    for turn in 0..turns {
        if turn > 0 {
            history.push(said(&format!("{session} {}", noise(200, u64::from(turn) + 2))));
        }
        let admitted = chat.ask(who, session, json!(history)).await;
        // What is fed ends with something that is not in the next prompt.
        let prompt: Vec<u32> = (0..600 + 40 * turn).chain([900_000, turn]).collect();
        let text = format!("answer {turn}");
        let new = NewAnswer { prompt_ids: prompt.clone().into(), ..answer(&text) };
        chat.handle().answered(admitted.request, new).await.unwrap();
        told.push((admitted, json!(history).to_string(), prompt));
        history.push(replied(&text));
    }
    (history, told)
}

async fn assert_kept(chat: &Chat, told: &[(Admitted, String, Vec<u32>)]) {
    assert_kept_of(chat, "ada", told).await;
}

async fn assert_kept_of(chat: &Chat, who: &str, told: &[(Admitted, String, Vec<u32>)]) {
    for (admitted, history, prompt) in told {
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
    let (mut history, told) = talk(&chat, 40).await;
    assert_kept(&chat, &told).await;
    // One in sixteen is whole.
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

    // Linked again from them, and gone on from; the first of a recorder is whole.
    chat.open().unwrap();
    assert_kept(&chat, &told).await;
    history.push(said("and then?"));
    let next = chat.ask("ada", "s", json!(history)).await;
    assert_eq!(next.session, told[0].0.session);
    chat.handle().expire().await.unwrap();
    assert_eq!(chat.value("SELECT count(*) FROM bodies WHERE base IS NULL"), "4");
    assert_eq!(chat.value("SELECT count(*) FROM next_states"), "40");
}

/// A turn that is asked again after later ones needs nothing of theirs, which a deletion may take alone.
#[tokio::test]
async fn deletion_keeps_earlier_turns_readable() {
    let chat = Chat::new();
    let (_, told) = talk(&chat, 6).await;
    let messages = |of: usize| serde_json::from_str::<Value>(&told[of].1).unwrap();
    let again = chat.ask("ada", "s", messages(2)).await;
    assert!(again.is_retry);
    assert_eq!(again.turn, told[2].0.turn);
    let prompt = told[2].2.clone();
    let new = NewAnswer { prompt_ids: prompt.clone().into(), ..answer("again") };
    chat.handle().answered(again.request, new).await.unwrap();

    chat.handle().delete(&user("ada"), Deletion::Turn(told[3].0.turn)).await.unwrap();
    assert_kept(&chat, &told[..3]).await;
    assert_kept(&chat, &[(again, told[2].1.clone(), prompt)]).await;
    for (admitted, ..) in &told[3..] {
        let gone = chat.handle().turn(&user("ada"), admitted.turn).await.unwrap();
        assert_eq!((&gone.requests[0].body, gone.requests[0].prompt_ids.len()), (&None, 0));
    }
    assert_eq!(chat.value("SELECT count(*) FROM bodies"), "4");
    assert_eq!(chat.value("SELECT count(*) FROM prompts"), "4");
}

/// What a user begins with in each session is written once for some of them, and a deletion of that leaves the others whole.
#[tokio::test]
async fn sessions_with_equal_start_share_a_base() {
    let mut chat = Chat::new();
    let (_, first) = talk_of(&chat, ("ada", "first"), 2).await;
    let (_, second) = talk_of(&chat, ("ada", "second"), 3).await;
    // Nobody's are differences from what somebody else has said.
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

/// A deletion has to write so many again and no more.
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

/// What is deleted while it waits leaves nothing when it is answered.
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
