//! Oracles and mistakes: sequences of actions that could be played.

use super::checker::Checker;
use crate::bounds;
use crate::file::{ActionFile, Located, ScriptFile};
use crate::row::{ActionRow, ScriptRow};

impl Checker {
    /// `what` is `oracle` or `mistake`.
    pub(super) fn script(&mut self, script: Located<ScriptFile>, what: &str) -> Option<ScriptRow> {
        let Located { value, span } = script;
        let actions: Vec<(ActionRow, _)> = match value {
            ScriptFile::Commands(commands) => commands.into_iter().map(run).collect(),
            ScriptFile::Fields(fields) => match (fields.commands, fields.actions) {
                (Some(commands), None) => commands.into_iter().map(run).collect(),
                (None, Some(actions)) => {
                    actions.into_iter().filter_map(|action| self.action(action)).collect()
                }
                _ => {
                    let message = format!("the {what} needs either `commands` or `actions`");
                    let help = "write `{ commands: [\"echo hi > out.txt\"] }`, or `{ actions: [{ run: vi a }, { keys: \"Escape : q Enter\" }] }`";
                    self.problem(span, message, "none, or both", help);
                    return None;
                }
            },
        };
        if actions.is_empty() {
            let message = format!("the {what} is empty");
            let help = if what == "oracle" {
                "list the commands that solve the task, or remove `oracle:`"
            } else {
                "list the commands of a plausible wrong attempt, or remove the entry"
            };
            self.problem(span, message, "no actions", help);
            return None;
        }
        for ((action, _), (_, next)) in actions.iter().zip(actions.iter().skip(1)) {
            if matches!(action, ActionRow::Submit(_)) {
                let message = "nothing is played after a submit: it ends the episode";
                self.problem(*next, message, "never played", "move the submit to the end, or remove this");
            }
        }
        Some(ScriptRow { actions: actions.into_iter().map(|(action, _)| action).collect() })
    }

    fn action(&mut self, action: Located<ActionFile>) -> Option<(ActionRow, crate::source::Span)> {
        let Located { value: action, span } = action;
        let wait = match &action.wait {
            // What is wrong with it is reported there.
            Some(wait) => {
                Some(ActionRow::Wait(self.seconds("wait", Some(wait), bounds::MAX_WAIT_SECS)?.as_secs_f64()))
            }
            None => None,
        };
        let given = [
            action.run.map(ActionRow::Run),
            action.text.map(ActionRow::Type),
            action.keys.map(ActionRow::Keys),
            wait,
            action.signal.map(ActionRow::Signal),
            action.submit.map(|submit| ActionRow::Submit(submit.0)),
        ];
        let mut given: Vec<ActionRow> = given.into_iter().flatten().collect();
        match (given.pop(), given.is_empty()) {
            (Some(action), true) => Some((action, span)),
            (None, _) => {
                let help = "name one of `run`, `text`, `keys`, `wait`, `signal` and `submit`";
                self.problem(span, "this action does nothing", "no kind of action", help);
                None
            }
            (Some(_), false) => {
                let help = "start each action with its own `- `; they are played in order";
                self.problem(span, "this action is more than one", "several in one", help);
                None
            }
        }
    }
}

fn run(command: crate::file::Text) -> (ActionRow, crate::source::Span) {
    let span = command.span;
    (ActionRow::Run(command), span)
}
