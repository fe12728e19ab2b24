//! Input and result of a step of a shell session.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use clawrl_core::CancelToken;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::input::CommandError;
use super::keys::KeyError;
use super::rc::Nonce;
use crate::screen::ScreenView;

/// Settings of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShellConfig {
    /// The nonce used in the start file, see [`crate::rc_script`].
    pub nonce: Nonce,
    /// Columns and rows.
    pub size: (u16, u16),
    /// A silence this long ends a step if the foreground waits for input.
    pub idle: Duration,
    /// A silence this long ends a step even if the foreground works.
    pub patience: Duration,
    /// After a deadline: how long an interrupted job may take to end before it is killed, and how long the shell
    /// may then take to return to its prompt.
    pub kill_grace: Duration,
    /// Maximum characters of [`StepOutput::text`].
    pub observation_chars: usize,
    /// Maximum bytes of output kept for [`StepOutput::full_text`].
    pub full_text_bytes: usize,
    /// Recording settings.
    pub cast: CastConfig,
}

/// What a session records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CastConfig {
    /// Maximum memory; 0 records nothing.
    pub cap_bytes: usize,
    /// Whether input is recorded as well as output.
    pub input: bool,
}

impl Default for CastConfig {
    fn default() -> Self {
        Self { cap_bytes: 256 * 1024, input: false }
    }
}

impl ShellConfig {
    /// The default settings of a plan.
    #[must_use]
    pub fn new(nonce: Nonce) -> Self {
        Self {
            nonce,
            size: (80, 24),
            idle: Duration::from_millis(500),
            patience: Duration::from_secs(10),
            kill_grace: Duration::from_millis(500),
            observation_chars: 4_000,
            full_text_bytes: 1024 * 1024,
            cast: CastConfig::default(),
        }
    }
}

/// Limits of a step.
#[derive(Debug, Clone, Copy)]
pub struct StepLimits<'a> {
    /// The foreground job is interrupted at this time, and killed if necessary; the step returns within four
    /// [`ShellConfig::kill_grace`] more.
    pub deadline: Instant,
    /// When it fires, the step returns at once. The session can only be dropped then.
    pub cancel: &'a CancelToken,
}

/// Why a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepEnd {
    /// The prompt is back.
    Completed {
        /// `None` when nothing ran, or when the shell's marks were lost.
        exit_code: Option<i32>,
    },
    /// A program holds the terminal: it waits for input, or was silent for longer than the patience.
    Running,
    /// The shell waits for the rest of a command: an open quote or here-document, a line without Enter.
    Incomplete,
    /// The deadline passed and the foreground job was ended.
    TimedOut {
        /// The shell itself did not return to its prompt and was ended, too. [`StepNote::NewShell`] reports whether
        /// there is a new one.
        shell_lost: bool,
    },
    /// The shell ended on request.
    ShellExited,
    /// The shell ended without a request, and a new one is at its prompt.
    ShellReplaced {
        /// Exit code of the shell that ended.
        exit_code: i32,
    },
    /// The step was cancelled.
    Cancelled,
}

impl fmt::Display for StepEnd {
    /// Completes a sentence about the command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed { exit_code: Some(code) } => write!(f, "ended with exit code {code}"),
            Self::Completed { exit_code: None } => f.write_str("ended with an unknown exit code"),
            Self::Running => f.write_str("holds the terminal, and waits or prints nothing"),
            Self::Incomplete => f.write_str("is unfinished: the shell waits for the rest of it"),
            Self::TimedOut { .. } => f.write_str("took too long"),
            Self::ShellExited => f.write_str("ended the shell"),
            Self::ShellReplaced { .. } => f.write_str("ended the shell, and a new one began"),
            Self::Cancelled => f.write_str("was cancelled"),
        }
    }
}

/// Noteworthy events of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StepNote {
    /// A program printed text that has the form of our marks. It was not trusted.
    ForgedMark,
    /// The shell is at a prompt without marks: its prompt variables were changed, or another bash replaced it.
    MarksLost,
    /// The shell's prompt variables, line editor or terminal settings were restored.
    ShellRepaired,
    /// Invalid UTF-8 was replaced.
    InvalidUtf8,
    /// The text was cut.
    OutputCut,
    /// A program was running: the command was typed into it.
    TypedIntoProgram,
    /// The program did not read part of the input, which was discarded.
    InputUnread,
    /// There was no job to signal.
    NothingRunning,
    /// Another shell is at its prompt: folder, variables, functions and jobs of the previous one are gone.
    NewShell,
    /// The shell ended because the sandbox ran out of memory.
    OutOfMemory,
}

impl StepNote {
    /// A stable name for records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ForgedMark => "forged_mark",
            Self::MarksLost => "marks_lost",
            Self::ShellRepaired => "shell_repaired",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::OutputCut => "output_cut",
            Self::TypedIntoProgram => "typed_into_program",
            Self::InputUnread => "input_unread",
            Self::NothingRunning => "nothing_running",
            Self::NewShell => "new_shell",
            Self::OutOfMemory => "out_of_memory",
        }
    }
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOutput {
    /// Why it ended.
    pub end: StepEnd,
    /// Output since the previous step, as plain text, cut to the budget; or the screen, while a full-screen program
    /// runs.
    pub text: String,
    /// The uncut text, if it was cut (up to [`ShellConfig::full_text_bytes`]).
    pub full_text: Option<String>,
    /// The screen, while a full-screen program runs.
    pub screen: Option<ScreenView>,
    /// What would complete an unfinished command, if known.
    pub missing: Option<String>,
    /// Working folder at the last prompt.
    pub folder: Option<String>,
    /// Wall time.
    pub duration: Duration,
    /// In order of discovery, each at most once.
    pub notes: Vec<StepNote>,
}

impl StepOutput {
    /// Whether the step has this note.
    #[must_use]
    pub fn has(&self, note: StepNote) -> bool {
        self.notes.contains(&note)
    }
}

/// The input that a session expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellState {
    /// A command.
    Prompt,
    /// The rest of a command.
    Continuation,
    /// Input for the program that holds the terminal.
    Running,
    /// None; the shell has ended.
    Gone,
}

/// Why a step could not be done. Nothing was sent, except after [`ShellError::Terminal`].
#[derive(Debug, Error)]
pub enum ShellError {
    /// The command cannot be typed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The keys cannot be typed.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The shell has ended.
    #[error("the shell has ended")]
    Gone,
    /// The shell ended before its first prompt.
    #[error("the shell ended before its first prompt; it wrote: {output}")]
    NotStarted {
        /// What it wrote.
        output: String,
    },
    /// No prompt in time.
    #[error("the shell showed no prompt in time; it wrote: {output}")]
    NoPrompt {
        /// What it wrote.
        output: String,
    },
    /// The terminal failed.
    #[error("the terminal failed")]
    Terminal(#[from] io::Error),
    /// A signal could not be delivered.
    #[error("the job could not be signalled")]
    Signal(#[source] io::Error),
}
