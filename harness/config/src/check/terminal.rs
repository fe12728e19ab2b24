//! The terminal environment of a task.

use std::time::Duration;

use clawrl_core::{Limit, Timeouts};

use super::checker::Checker;
use crate::bounds;
use crate::file::TerminalFile;
use crate::row::TerminalRow;

impl Checker {
    pub(super) fn terminal(&mut self, mut file: TerminalFile, timeouts: &Timeouts) -> TerminalRow {
        let workspace = self.workspace(file.take_workspace());
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
        TerminalRow {
            observation_chars: self.observation_chars(file.observation_chars.as_ref()),
            size: (u16::try_from(cols).unwrap_or(80), u16::try_from(rows).unwrap_or(24)),
            idle,
            shell: file.shell,
            setup: file.setup.unwrap_or_default(),
            workspace,
        }
    }
}
