//! Oracles and mistakes.

use super::text::{JsonText, Visit, texts};
use crate::file::Text;

/// Actions in order.
#[derive(Debug)]
pub(crate) struct ScriptRow {
    pub(crate) actions: Vec<ActionRow>,
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
    /// Turns that it takes, with the submit that a scripted policy adds.
    pub(crate) fn turns(&self) -> usize {
        let submits = matches!(self.actions.last(), Some(ActionRow::Submit(_) | ActionRow::Patch(_)));
        self.actions.len() + usize::from(!submits)
    }

    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        for action in &self.actions {
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
