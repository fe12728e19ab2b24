//! A test folder with a chat server, its ledger and key file.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use clawrl_gateway::{
    Keys, Page, Recorder, RecorderHandle, RecorderSettings, Server, ServerSettings, SessionView, TurnView,
    UserId,
};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::policy::Policy;
use crate::place::{Place, Said};

/// The key of the only user.
pub(super) const KEY: &str = "clawrl-key-0123456789";

/// A chat server; dropping this ends it.
pub(super) struct House {
    pub(super) place: Place,
    pub(super) policy: Arc<Policy>,
    pub(super) base_url: String,
    record: RecorderHandle,
    // The server's connections end before its recorder.
    runtime: Runtime,
    _recorder: Recorder,
}

impl House {
    pub(super) fn new() -> Self {
        let place = Place::new();
        let data = place.results().join("chat");
        fs::create_dir_all(&data).unwrap();
        write_key(&place, KEY);
        let recorder = Recorder::open(RecorderSettings::new(data.join("ledger.sqlite"))).unwrap();
        let record = recorder.handle();
        let mut keys = Keys::default();
        keys.add(KEY, me()).unwrap();
        let policy = Policy::new();
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let server =
            Server::new(listener, ServerSettings::default(), keys, Arc::clone(&policy) as _, record.clone());
        let server = server.unwrap();
        let base_url = format!("http://{}/v1", server.address().unwrap());
        runtime.spawn(server.run(std::future::pending()));
        Self { place, policy, base_url, record, runtime, _recorder: recorder }
    }

    /// `clawrl chat` with this server.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        self.place.command(&[&["chat", "--base-url", &self.base_url], arguments].concat())
    }

    /// Runs `clawrl chat` with these lines to the end.
    pub(super) fn chat(&self, arguments: &[&str], lines: &str) -> Said {
        said(self.command(arguments), lines)
    }

    /// All sessions, oldest first.
    pub(super) fn sessions(&self) -> Vec<SessionView> {
        let page = Page { before: None, limit: 100 };
        let mut sessions = self.runtime.block_on(self.record.sessions(Some(&me()), page)).unwrap();
        sessions.reverse();
        sessions
    }

    /// All turns of a session, oldest first.
    pub(super) fn turns(&self, session: &SessionView) -> Vec<TurnView> {
        self.runtime.block_on(async {
            let session = self.record.session(&me(), session.session).await.unwrap();
            let mut turns = Vec::new();
            for line in &session.turns {
                turns.push(self.record.turn(&me(), line.turn).await.unwrap());
            }
            turns.sort_by_key(|turn| turn.line.turn);
            turns
        })
    }

    /// The turns of the only session.
    pub(super) fn only_turns(&self) -> Vec<TurnView> {
        let sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        self.turns(&sessions[0])
    }

    /// Waits until the only session was closed by its client. The server closes it after the last pending answer, and
    /// records an interrupted answer shortly after the client disconnects.
    pub(super) fn only_session_ends(&self) {
        while self.sessions()[0].closed_ms.is_none() {
            std::thread::yield_now();
        }
        assert_eq!(self.sessions()[0].why.as_deref(), Some("endpoint"));
    }

    /// Waits until an answer was dropped.
    pub(super) fn one_dropped(&self) {
        self.runtime.block_on(self.policy.dropped.acquire()).unwrap().forget();
    }

    /// The texts of the messages of each request, as the policy saw them.
    pub(super) fn asked(&self) -> Vec<Vec<String>> {
        let asked = self.policy.asked.lock().unwrap();
        let text = |message: &serde_json::Value| message["content"].as_str().unwrap().to_owned();
        asked.iter().map(|(_, messages)| messages.iter().map(text).collect()).collect()
    }
}

fn me() -> UserId {
    UserId("me".to_owned())
}

/// Writes a key file like that of `clawrl serve`.
pub(super) fn write_key(place: &Place, key: &str) {
    let file = place.results().join("chat/keys");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, format!("# Keys of chat: USER KEY.\nme {key}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Runs the command with these lines; checks that the output does not contain the key.
pub(super) fn said(mut command: Command, lines: &str) -> Said {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that ended without reading has reported the reason.
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    let said = Said::of(&child.wait_with_output().unwrap());
    assert!(!said.out.contains(KEY) && !said.err.contains(KEY), "{said:?}");
    said
}
