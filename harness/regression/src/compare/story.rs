//! An attempt as texts, in the order in which they came.

use clawrl_core::{AttemptRecord, Outcome, Role, ToolCall, Turn};
use clawrl_report::{call_text, cancel_text, shown, stop_text};

/// The texts of an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Story {
    /// The prompt, all messages.
    pub(crate) asked: String,
    pub(crate) turns: Vec<TurnTexts>,
    /// The end, in one line.
    pub(crate) end: String,
    /// Checks that did not pass, a line each.
    pub(crate) unmet: Vec<String>,
}

/// The texts of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TurnTexts {
    /// Calls; without any, the reply.
    pub(crate) did: String,
    /// Observation of the environment.
    pub(crate) saw: String,
}

impl Story {
    /// Texts of a record.
    pub(crate) fn of(record: &AttemptRecord) -> Self {
        let trajectory = &record.trajectory;
        let asked = if trajectory.prompt.is_empty() {
            shown(&trajectory.reset.parts)
        } else {
            let said = |role: Role, text: String| format!("[{}]\n{text}", role_word(role));
            let messages = trajectory.prompt.iter().map(|message| said(message.role, shown(&message.parts)));
            messages.collect::<Vec<_>>().join("\n")
        };
        let (end, unmet) = match &record.outcome {
            Outcome::Finished { stop, grade, .. } => {
                let word = if grade.passed { "passed" } else { "did not pass" };
                let unmet = grade.checks.iter().filter(|check| check.score < 1.0);
                (
                    format!("{word}, score {:.3}, {}", grade.score, stop_text(stop)),
                    unmet.map(|check| format!("{}: {}", check.label, check.message)).collect(),
                )
            }
            Outcome::Faulted(fault) => (format!("fault {}/{}", fault.boundary, fault.code), Vec::new()),
            Outcome::Cancelled(reason) => (format!("cancelled: {}", cancel_text(*reason)), Vec::new()),
        };
        Self { asked, turns: trajectory.turns.iter().map(TurnTexts::of).collect(), end, unmet }
    }
}

impl TurnTexts {
    fn of(turn: &Turn) -> Self {
        let call = |call: &ToolCall| format!("{} {}", call.name, call_text(call)).trim_end().to_owned();
        let did = match turn.calls.as_slice() {
            [] => shown(&turn.reply.parts),
            calls => calls.iter().map(call).collect::<Vec<_>>().join("\n"),
        };
        Self { did, saw: shown(&turn.observation.parts) }
    }
}

fn role_word(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}
