//! Runs the commands about the policy and its versions.
//!
//! I1. Another command undoes each of them; the output names it.

use clawrl_remote::ApiError;

use super::server::{ServerState, Version};
use super::session::{ChatSession, Next};
use super::trouble::{is_missing, sentence};

/// Maximum versions listed.
const LISTED: usize = 8;

impl ChatSession {
    /// Shows the model, its version, and pending feedback.
    pub(super) async fn tell_status(&mut self) -> Next {
        let standing = if self.models.is_foreign {
            Ok(None)
        } else {
            match self.signals.unless_heard(self.server.standing()).await {
                Ok(standing) => standing.map(Some),
                Err(heard) => return self.stopped(heard),
            }
        };
        let mut rows = vec![("model", format!("`{}` at {}", self.model, self.base_url))];
        let has_failed = match &standing {
            Ok(Some(standing)) => {
                self.version = standing.version.or(self.version);
                rows.extend(standing_rows(standing));
                false
            }
            Ok(None) => {
                rows.push(("learning", "unknown: this server is not `clawrl serve`".to_owned()));
                false
            }
            Err(error) => {
                rows.push(("trouble", sentence(error)));
                true
            }
        };
        let said = self.conversation.messages().len();
        let messages = if said == 1 { "1 message".to_owned() } else { format!("{said} messages") };
        rows.push(("session", format!("{}, {messages}", self.conversation.session())));
        self.screen.table(&rows);
        self.has_failed |= has_failed;
        Next::GoOn
    }

    /// Trains on pending feedback.
    pub(super) async fn train(&mut self) -> Next {
        let before = match self.signals.unless_heard(self.server.standing()).await {
            Ok(Ok(before)) => before,
            Ok(Err(error)) => return self.not_done("nothing was trained", &error),
            Err(heard) => return self.stopped(heard),
        };
        if !before.learning {
            let why = before.why.unwrap_or_default();
            return self.wrong(&format!("nothing was trained, and nothing is learned here: {why}"));
        }
        if before.waiting > 0 {
            let samples = counted(before.waiting, "sample");
            self.screen
                .note(&format!("learning from {samples}; Ctrl-C stops waiting for it, and it goes on"));
        }
        match self.signals.unless_heard(self.server.train()).await {
            Ok(Ok(now)) if now.version != before.version => {
                self.tell_version(&now);
                Next::GoOn
            }
            Ok(Ok(now)) => {
                let why = now.last.unwrap_or_else(|| "the server says nothing about it".to_owned());
                self.wrong(&format!("there is no new version: {why}"))
            }
            Ok(Err(error)) => self.not_done("nothing was trained", &error),
            Err(heard) => self.stopped(heard),
        }
    }

    /// Rolls back to a version; `None`: the previous one.
    pub(super) async fn roll_back(&mut self, version: Option<u64>) -> Next {
        let before = match self.signals.unless_heard(self.server.standing()).await {
            Ok(Ok(before)) => before,
            Ok(Err(error)) => return self.not_done("nothing was changed", &error),
            Err(heard) => return self.stopped(heard),
        };
        if !before.learning {
            let why = before.why.unwrap_or_default();
            return self.wrong(&format!("nothing was changed, and nothing is learned here: {why}"));
        }
        let now = before.version.unwrap_or_default();
        let Some(to) = version.or(before.former) else {
            return self.wrong(&format!("version {now} answers, and there was none before it"));
        };
        match self.signals.unless_heard(self.server.roll_back(to)).await {
            Ok(Ok(after)) => {
                self.version = after.version.or(self.version);
                let version = after.version.unwrap_or_default();
                self.screen.note(&format!(
                    "version {version} answers now: it is version {to} again; `/rollback {now}` undoes this"
                ));
                Next::GoOn
            }
            Ok(Err(error)) => self.not_done("nothing was changed", &error),
            Err(heard) => self.stopped(heard),
        }
    }

    /// Reports that another version answers.
    fn tell_version(&mut self, standing: &ServerState) {
        self.version = standing.version.or(self.version);
        self.screen.note(&format!(
            "version {} answers now{}; `/rollback` goes back",
            standing.version.unwrap_or_default(),
            origin(standing).map(|origin| format!(": {origin}")).unwrap_or_default()
        ));
    }

    fn not_done(&mut self, what: &str, error: &ApiError) -> Next {
        if is_missing(error) && self.models.is_foreign {
            return self.wrong(&format!("{what}: this server is not `clawrl serve`, and does not learn"));
        }
        // The server's refusals give a reason that users can read.
        match error {
            ApiError::Refused { status: 404 | 409, message, .. } => self.wrong(&format!("{what}: {message}")),
            _ => self.wrong(&format!("{what}: {}", sentence(error))),
        }
    }
}

fn standing_rows(standing: &ServerState) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(trouble) = &standing.trouble {
        rows.push(("trouble", trouble.clone()));
    }
    if let Some(version) = standing.version {
        let origin = origin(standing).map(|origin| format!(", {origin}")).unwrap_or_default();
        rows.push(("version", format!("{version}{origin}")));
    }
    if !standing.learning {
        rows.push(("learning", format!("no: {}", standing.why.clone().unwrap_or_default())));
        return rows;
    }
    let objective = standing.objective.clone().unwrap_or_default();
    rows.push(match &standing.paused {
        Some(why) => ("learning", format!("paused: {why}; the dashboard's Versions page resumes it")),
        None => {
            let (turns, secs) = (standing.every_turns, standing.every_secs);
            ("learning", format!("{objective}, with {} or after {secs} s", counted(turns, "sample")))
        }
    });
    rows.push(("waiting", format!("{} of {}", counted(standing.waiting, "sample"), standing.every_turns)));
    if let Some(last) = &standing.last {
        rows.push(("last", last.clone()));
    }
    rows.push(("versions", versions(standing)));
    rows
}

/// Origin of the current version: its training data or a rollback.
fn origin(standing: &ServerState) -> Option<String> {
    let version = standing.version?;
    match standing.versions.iter().find(|listed| listed.version == version) {
        Some(Version { parent, turns, .. }) => {
            let parent = parent.unwrap_or_default();
            Some(match turns {
                0 => format!("which is version {parent} again"),
                turns => format!("made from version {parent} and {}", counted(*turns, "turn")),
            })
        }
        None if version == 0 => Some("what learning began with".to_owned()),
        None => None,
    }
}

/// Stored versions that a rollback can use, newest first.
fn versions(standing: &ServerState) -> String {
    let word = |listed: &Version| match listed {
        Version { version, .. } if Some(*version) == standing.version => format!("{version} (answers)"),
        Version { version, accepted: false, .. } => format!("{version} (given up)"),
        Version { version, .. } => version.to_string(),
    };
    let mut words: Vec<String> = standing.versions.iter().take(LISTED).map(word).collect();
    if standing.versions.len() > LISTED {
        words.push("...".to_owned());
    }
    if standing.versions.iter().all(|listed| listed.version > 0) {
        words.push(if standing.version == Some(0) { "0 (answers)" } else { "0" }.to_owned());
    }
    words.join(", ")
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(version: u64, parent: u64, accepted: bool, turns: u64) -> Version {
        Version { version, parent: Some(parent), accepted, turns }
    }

    #[test]
    fn a_status_says_what_answers_and_what_waits() {
        let standing = ServerState {
            learning: true,
            version: Some(3),
            objective: Some("combined".to_owned()),
            waiting: 1,
            every_turns: 16,
            every_secs: 600,
            versions: vec![version(3, 1, true, 0), version(2, 1, false, 16), version(1, 0, true, 1)],
            ..ServerState::default()
        };
        let text = |standing: &ServerState| super::super::layout::table(&standing_rows(standing), None);
        let expected = "version   3, which is version 1 again\n\
                        learning  combined, with 16 samples or after 600 s\n\
                        waiting   1 sample of 16\n\
                        versions  3 (answers), 2 (given up), 1, 0";
        assert_eq!(text(&standing), expected);
        let fresh = ServerState { version: Some(0), versions: Vec::new(), ..standing.clone() };
        assert!(text(&fresh).starts_with("version   0, what learning began with\n"), "{}", text(&fresh));
        assert!(text(&fresh).ends_with("versions  0 (answers)"), "{}", text(&fresh));
        let paused = ServerState {
            paused: Some("it collapses".to_owned()),
            trouble: Some("no".to_owned()),
            ..standing
        };
        assert!(text(&paused).contains("learning  paused: it collapses"), "{}", text(&paused));
        assert!(text(&paused).starts_with("trouble   no\n"), "{}", text(&paused));
        let off = ServerState { why: Some("it is off".to_owned()), ..ServerState::default() };
        assert_eq!(text(&off), "learning  no: it is off");
    }
}
