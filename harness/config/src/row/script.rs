//! Oracles and mistakes.

use clawrl_core::Solver;

use super::text::{JsonText, Visit, texts};
use crate::file::Text;

/// What scripted policies play.
#[derive(Debug)]
pub(crate) enum ScriptRow {
    /// In order.
    Actions(Vec<ActionRow>),
    Solver(Solver),
}

#[derive(Debug)]
pub(crate) enum ActionRow {
    Run(Text),
    Type(Text),
    Keys(Text),
    Wait(f64),
    Signal(Text),
    /// A call of a declared tool. The name is never a template; the arguments are an object.
    Call {
        name: Text,
        arguments: Option<JsonText>,
    },
    Submit(Option<Text>),
    /// Ends the episode by handing a unified diff in. Never a template.
    Patch(String),
}

impl ActionRow {
    /// The key in the suite file.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Type(_) => "text",
            Self::Keys(_) => "keys",
            Self::Wait(_) => "wait",
            Self::Signal(_) => "signal",
            Self::Call { .. } => "call",
            Self::Submit(_) => "submit",
            Self::Patch(_) => "patch",
        }
    }
}

impl ScriptRow {
    /// Turns that it takes, with the submit that a scripted policy adds; of a solver, none that are known.
    pub(crate) fn turns(&self) -> usize {
        let Self::Actions(actions) = self else { return 0 };
        let submits = matches!(actions.last(), Some(ActionRow::Submit(_) | ActionRow::Patch(_)));
        actions.len() + usize::from(!submits)
    }

    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        let Self::Actions(actions) = self else { return };
        for action in actions {
            match action {
                ActionRow::Run(text)
                | ActionRow::Type(text)
                | ActionRow::Keys(text)
                | ActionRow::Signal(text) => texts([text], visit),
                ActionRow::Call { arguments, .. } => {
                    arguments.iter().for_each(|arguments| arguments.each_text(visit));
                }
                ActionRow::Submit(answer) => texts(answer, visit),
                ActionRow::Wait(_) | ActionRow::Patch(_) => {}
            }
        }
    }
}
