//! Terminal environments.

use clawrl_core::{TerminalSpec, WorkspaceSpec};
use minijinja::Value;

use super::filler::Filler;
use crate::row::TerminalRow;
use crate::value::BadValue;

impl<'s> Filler<'_, '_, 's> {
    pub(super) fn terminal(&mut self, row: &'s TerminalRow, values: &Value) -> Option<TerminalSpec> {
        let shell = match &row.shell {
            Some(shell) => self.ruled(shell, values, shell_name),
            None => Some("bash".to_owned()),
        };
        let setup: Vec<_> = row.setup.iter().map(|command| self.text(command, values)).collect();
        let WorkspaceSpec { files, env, sandbox, limits, network, image, read_only } =
            self.workspace(&row.workspace, values)?;
        Some(TerminalSpec {
            shell: shell?,
            files,
            setup: setup.into_iter().collect::<Option<_>>()?,
            env,
            size: row.size,
            idle: row.idle,
            observation_chars: row.observation_chars,
            sandbox,
            limits,
            network,
            image,
            read_only,
        })
    }
}

fn shell_name(text: &str) -> Result<(), BadValue> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    if !text.is_empty() && text.chars().all(allowed) {
        return Ok(());
    }
    Err(BadValue {
        message: format!("`{text}` is not the name of a program"),
        help: "write the name without path or arguments, such as `shell: bash`".to_owned(),
    })
}
