//! A recorder with its own folder and clock, and the rows of its file.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use clawrl_gateway::{
    Admitted, Clock, Exactness, Headers, LedgerError, NewAnswer, NewChoice, NewRequest, Recorder,
    RecorderHandle, RecorderSettings, Reply, RequestId, UserId, VersionSegment,
};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::tracker::{parse, user};

#[derive(Debug)]
pub(crate) struct OwnClock(AtomicI64);

impl Clock for OwnClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) struct Chat {
    pub(crate) folder: tempfile::TempDir,
    clock: Arc<OwnClock>,
    recorder: Option<Recorder>,
}

impl Chat {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(OwnClock(AtomicI64::new(1_800_000_000_000)));
        let mut chat = Self { folder: tempfile::tempdir().unwrap(), clock, recorder: None };
        chat.open().unwrap();
        chat
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("chat.db")
    }

    pub(crate) fn settings(&self) -> RecorderSettings {
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        // The timer does not fire: tests decide when idle sessions are closed.
        RecorderSettings { clock, expiry: Duration::from_secs(3600), ..RecorderSettings::new(self.path()) }
    }

    pub(crate) fn open(&mut self) -> Result<(), LedgerError> {
        self.close();
        self.recorder = Some(Recorder::open(self.settings())?);
        Ok(())
    }

    pub(crate) fn close(&mut self) {
        self.recorder = None;
    }

    pub(crate) fn handle(&self) -> RecorderHandle {
        self.recorder.as_ref().unwrap().handle()
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.0.fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// A request of `name` in a named session.
    pub(crate) async fn ask(&self, name: &str, session: &str, messages: Value) -> Admitted {
        self.handle().arrived(asked(name, session, messages)).await.unwrap()
    }

    pub(crate) async fn say(&self, request: RequestId, text: &str) {
        self.handle().answered(request, answer(text)).await.unwrap();
    }

    /// Whether the words are in the ledger's files. Another process reads them: this one would lose `SQLite`'s locks by closing a file.
    pub(crate) fn has_on_disk(&self, words: &str) -> bool {
        let found =
            Command::new("grep").args(["-rqaF", "-e", words]).arg(self.folder.path()).status().unwrap();
        match found.code() {
            Some(0) => true,
            Some(1) => false,
            other => panic!("grep ended with {other:?}"),
        }
    }

    /// All rows as text, without `SQLite`'s own.
    pub(crate) fn rows(&self) -> Vec<String> {
        rows(&self.path())
    }

    /// The only value that `sql` returns.
    pub(crate) fn value(&self, sql: &str) -> String {
        let connection = Connection::open_with_flags(self.path(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        connection.query_row(sql, [], |row| Ok(shown(row.get_ref(0)?))).unwrap()
    }
}

pub(crate) fn rows(path: &Path) -> Vec<String> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let tables =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let mut statement = connection.prepare(tables).unwrap();
    let tables: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut found = Vec::new();
    for table in tables {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<String> =
                (0..columns).map(|column| shown(row.get_ref(column).unwrap())).collect();
            found.push(format!("{table}: {}", values.join(" | ")));
        }
    }
    found
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "-".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => format!("{bytes:02x?}"),
    }
}

pub(crate) fn asked(name: &str, session: &str, messages: Value) -> NewRequest {
    let headers = [("x-clawrl-session", session), ("x-other", "never kept")].into_iter().collect();
    asked_with(user(name), headers, &json!({"model": "m", "messages": messages}))
}

pub(crate) fn asked_with(user: UserId, headers: Headers, body: &Value) -> NewRequest {
    NewRequest {
        user,
        endpoint: "/v1/chat/completions",
        headers,
        raw: Bytes::from(body.to_string()),
        body: Arc::new(parse(body)),
        model: "m".to_owned(),
        sampling: json!({"temperature": 0.7}),
    }
}

/// An answer that can be trained on.
pub(crate) fn answer(text: &str) -> NewAnswer {
    answer_of(&Reply::text(text))
}

pub(crate) fn answer_of(reply: &Reply) -> NewAnswer {
    let ids: Vec<u32> = reply.text.bytes().map(u32::from).chain([2]).collect();
    let choice = NewChoice {
        text: reply.text.clone(),
        calls: reply.calls.clone(),
        finish_reason: "stop".to_owned(),
        logprobs: ids.iter().map(|_| -0.5).collect(),
        sampled_ids: ids,
        versions: vec![VersionSegment { first: 0, version: 3 }],
        exact: Exactness::Exact,
        ..NewChoice::default()
    };
    NewAnswer {
        choices: vec![choice],
        prompt_ids: Arc::from([1, 5, 9]),
        adapter: Some("ada".to_owned()),
        prompt_tokens: 3,
        completion_tokens: 4,
        first_token_after_ms: Some(12),
        ..NewAnswer::default()
    }
}

pub(crate) fn said(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(crate) fn replied(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}
