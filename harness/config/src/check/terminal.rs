//! The terminal environment of a task.

use std::time::Duration;

use clawrl_core::{Limit, TerminalSpec, Timeouts, WorkspaceSpec};

use super::builder::TaskBuilder;
use crate::bounds;
use crate::file::TerminalFile;
use crate::value::BadValue;

impl<'s> TaskBuilder<'_, '_, 's> {
    pub(super) fn terminal(&mut self, file: &'s TerminalFile, timeouts: &Timeouts) -> TerminalSpec {
        let screen = bounds::MIN_SCREEN..=bounds::MAX_SCREEN;
        let cols = self.whole("cols", file.cols.as_ref(), screen.clone(), 80);
        let rows = self.whole("rows", file.rows.as_ref(), screen, 24);
        let idle = self.whole("idle_millis", file.idle_millis.as_ref(), 1..=bounds::MAX_IDLE_MILLIS, 500);
        let idle = Duration::from_millis(u64::from(idle));
        if let (Some(number), true) = (&file.idle_millis, idle >= timeouts.step) {
            let step = timeouts.step.as_secs_f64();
            let message =
                format!("`idle_millis` is {}, as long as a whole step may take ({step} s)", number.value);
            let help = format!("lower it, or raise `{}`", Limit::Step.key());
            self.problem(number.span, message, "never comes to it", help);
        }
        let shell = match &file.shell {
            Some(shell) => self.ruled(shell, shell_name).unwrap_or_default(),
            None => "bash".to_owned(),
        };
        let setup = self.texts(file.setup.as_deref().unwrap_or_default());
        let WorkspaceSpec { files, env, sandbox, limits, network, image, read_only } =
            self.workspace(file.workspace());
        TerminalSpec {
            shell,
            files,
            setup,
            env,
            size: (u16::try_from(cols).unwrap_or(80), u16::try_from(rows).unwrap_or(24)),
            idle,
            observation_chars: self.observation_chars(file.observation_chars.as_ref()),
            sandbox,
            limits,
            network,
            image,
            read_only,
        }
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
