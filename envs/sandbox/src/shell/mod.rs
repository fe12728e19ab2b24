//! The persistent shell of a terminal: one bash, driven step by step.
//!
//! A backend writes [`rc_script`] into its sandbox, starts bash with [`bash_arguments`] and [`terminal_environment`] on
//! a pseudo-terminal and hands the master over; [`ShellSession`] does the rest, the same for every backend.

mod activity;
mod capture;
mod drive;
mod input;
mod keys;
mod mark;
mod output_tracker;
mod rc;
mod session;
mod shell_trait;
mod signal;
mod step;
mod text;
mod unfinished;

pub use input::{CommandError, check_command};
pub use keys::{CursorKeys, KeyError, is_known_key, parse_keys};
pub use rc::{Nonce, bash_arguments, rc_script, supervisor_script, terminal_environment};
pub use session::ShellSession;
pub use shell_trait::{Shell, StepResult};
pub use signal::{DirectKiller, ForegroundKiller, JobSignal, UnknownSignal};
pub use step::{CastConfig, ShellConfig, ShellError, ShellState, StepEnd, StepLimits, StepNote, StepOutput};
