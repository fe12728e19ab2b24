//! A ledger that an earlier build wrote still opens, reads and links, and digests are those of earlier builds.
//!
//! `ledger-6.sqlite.zst` was written by commit dc68efab with a clock that starts at 1,800,000,000,000 ms: a session of Ada with a call, its
//! result, a failed request and its retry, feedback, a vote, samples and an update; and a request of Bob with a key that was redacted.

use clawrl_gateway::{ChatRequest, RequestId, SessionId};
use serde_json::{Value, json};

use crate::recording::{Chat, asked_with};
use crate::tracker::user;

const LEDGER: &[u8] = include_bytes!("../data/ledger-6.sqlite.zst");
const EXPORT: &str = include_str!("../data/ledger-6.export.jsonl");

fn stored() -> Chat {
    let mut chat = Chat::new();
    chat.close();
    let bytes = zstd::stream::decode_all(LEDGER).unwrap();
    std::fs::write(chat.path(), bytes).unwrap();
    for left in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{left}", chat.path().display()));
    }
    chat.open().unwrap();
    chat
}

#[tokio::test]
async fn stored_ledger_exports_the_same_views() {
    let chat = stored();
    let mut found = Vec::new();
    for name in ["ada", "bob"] {
        let mut export = chat.handle().export(&user(name));
        while let Some(line) = export.next().await.unwrap() {
            found.push(serde_json::from_str::<Value>(&line).unwrap());
        }
    }
    let expected: Vec<Value> = EXPORT.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn stored_session_links_the_next_request() {
    let chat = stored();
    let ada = user("ada");
    let last = chat.handle().turn(&ada, clawrl_gateway::TurnId(RequestId(3))).await.unwrap();
    let body: Value = serde_json::from_str(last.requests[1].body.as_deref().unwrap()).unwrap();
    let mut messages = body["messages"].as_array().unwrap().clone();
    messages.push(json!({"role": "assistant", "content": "You are welcome."}));
    messages.push(json!({"role": "user", "content": "And b.txt?"}));
    let headers = [("x-clawrl-session", "work")].into_iter().collect();
    let new = asked_with(ada.clone(), headers, &json!({"messages": messages, "tools": body["tools"]}));
    let next = chat.handle().arrived(new).await.unwrap();
    assert_eq!((next.session, next.request), (SessionId(RequestId(1)), RequestId(6)));
    chat.say(next.request, "Nothing.").await;
    let last = chat.handle().turn(&ada, last.line.turn).await.unwrap();
    let next_state = last.next_state.unwrap();
    assert_eq!((next_state.request, next_state.found_by.as_str()), (next.request, "history"));
}

/// Digests of whole histories, as the build that wrote the stored ledger computed them.
#[test]
fn digests_of_captured_requests_are_unchanged() {
    let captured = [
        ("req_a", [(1, "37654eb6"), (2, "a8cb5959"), (3, "1354aa6d"), (4, "084d1b27")].as_slice()),
        ("req_b", &[(1, "e012bb53"), (2, "a5e2d13e"), (3, "91660a85")]),
        ("req_gw1", &[(29, "eac05725"), (30, "aebf56cd"), (31, "563e75b1"), (32, "f6be8137")]),
        ("case_tcid", &[(26, "dfbb7bd0"), (27, "7ee0af06")]),
        ("case_small3", &[(40, "98416dee")]),
    ];
    for (file, expected) in captured {
        let path = format!("{}/tests/data/{file}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let found: Vec<(u64, String)> = text
            .lines()
            .map(|line| {
                let request: Value = serde_json::from_str(line).unwrap();
                let parsed = ChatRequest::parse(&request["body"]).unwrap();
                (request["n"].as_u64().unwrap(), format!("{:?}", parsed.context()))
            })
            .collect();
        let expected: Vec<(u64, String)> =
            expected.iter().map(|(number, digest)| (*number, (*digest).to_owned())).collect();
        assert_eq!(found, expected, "{file}");
    }
    // Text, a call, its result, and an image.
    let stored: Value = serde_json::from_str(EXPORT.lines().nth(3).unwrap()).unwrap();
    let body: Value = serde_json::from_str(stored["turn"]["requests"][0]["body"].as_str().unwrap()).unwrap();
    assert_eq!(format!("{:?}", ChatRequest::parse(&body).unwrap().context()), "cd893175");
}
