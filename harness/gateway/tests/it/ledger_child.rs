//! This test binary as a child process that records conversations until another test kills it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use clawrl_gateway::{Page, Recorder, RecorderHandle, RecorderSettings, SessionView, UserId};
use serde_json::{Value, json};

use crate::recording::{answer, asked, replied, said};
use crate::tracker::user;

const LEDGER: &str = "CLAWRL_GATEWAY_TEST_LEDGER";
pub(crate) const USERS: [&str; 3] = ["ada", "bob", "cy"];
/// Turns per user; more than fit between two kills.
const TURNS: usize = 400;

/// The child's body; run alone, it tests that conversations are recorded.
#[test]
fn records_conversations() {
    if let Some(path) = std::env::var_os(LEDGER) {
        record(&PathBuf::from(path), TURNS, say);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.db");
    record(&path, 3, |_| {});
    check_links(&path, 3);
}

/// Checks that each user has one conversation in which every turn continues the one before; returns the number of turns.
pub(crate) fn check_links(path: &Path, at_least: usize) -> usize {
    let recorder = Recorder::open(RecorderSettings::new(path.to_owned())).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut count = 0;
    for name in USERS {
        let handle = recorder.handle();
        let Some(session) = runtime.block_on(conversation(&handle, &user(name))) else { continue };
        let mut parent = None;
        for (place, line) in session.turns.iter().enumerate() {
            assert_eq!((line.parent, line.sibling, line.kind.as_str()), (parent, None, "main"), "{line:?}");
            parent = Some(line.turn);
            let view = runtime.block_on(handle.turn(&user(name), line.turn)).unwrap();
            let next = view.next_state.map(|next| next.request);
            let expected = session.turns.get(place + 1).map(|next| next.turn.0);
            assert_eq!(next, expected, "{line:?}");
        }
        assert!(session.turns.len() >= at_least, "{} turns of {name}", session.turns.len());
        count += session.turns.len();
    }
    count
}

async fn conversation(handle: &RecorderHandle, user: &UserId) -> Option<SessionView> {
    let sessions = handle.sessions(Some(user), Page { before: None, limit: 10 }).await.unwrap();
    assert!(sessions.len() < 2, "one conversation is one session: {sessions:?}");
    let session = sessions.first()?.session;
    Some(handle.session(user, session).await.unwrap())
}

/// Runs the child and returns its output, without that of the test harness. `limits`: shell commands before it.
pub(crate) fn start(path: &Path, limits: &str) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limits} exec \"$@\""), "sh"]).arg(std::env::current_exe().unwrap());
    command.args(["ledger_child::records_conversations", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(LEDGER, path).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let output: BufReader<ChildStdout> = BufReader::new(child.stdout.take().unwrap());
    let sayings = output.lines().map_while(Result::ok).filter_map(|line| {
        let at = line.find("child: ")?;
        Some(line[at + "child: ".len()..].to_owned())
    });
    (child, sayings)
}

fn say(what: &str) {
    // A single write, past the harness's capture, so that output before a kill is complete.
    std::io::stdout().write_all(format!("child: {what}\n").as_bytes()).unwrap();
}

/// Continues the conversations of all users concurrently, from the state of the ledger.
fn record(path: &Path, turns: usize, say: fn(&str)) {
    let recorder = Recorder::open(RecorderSettings::new(path.to_owned())).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let talks = USERS.map(|name| {
        let handle = recorder.handle();
        async move {
            let known = conversation(&handle, &user(name)).await;
            let is_answered = |line: &&clawrl_gateway::TurnLine| line.state == "answered";
            let first = known.map_or(0, |session| session.turns.iter().filter(is_answered).count());
            for turn in first..turns {
                let history = (0..turn).flat_map(|turn| [said(&question(turn)), replied(&reply(turn))]);
                let messages: Value = history.chain([said(&question(turn))]).collect();
                let admitted = match handle.arrived(asked(name, "s", json!(messages))).await {
                    Ok(admitted) => admitted,
                    Err(error) => return say(&format!("failed 0 {}", error.is_storage())),
                };
                say(&format!("admitted {} {name}", admitted.request));
                if let Err(error) = handle.answered(admitted.request, answer(&reply(turn))).await {
                    return say(&format!("failed {} {}", admitted.request, error.is_storage()));
                }
                say(&format!("answered {} {name} {turn}", admitted.request));
            }
        }
    });
    runtime.block_on(futures_util::future::join_all(talks));
}

pub(crate) fn question(turn: usize) -> String {
    format!("question {turn}")
}

pub(crate) fn reply(turn: usize) -> String {
    format!("reply {turn}")
}
