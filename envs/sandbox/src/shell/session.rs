//! A persistent shell on a pseudo-terminal.
//!
//! H1. A step ends exactly once, with one [`StepEnd`]; it returns within its limits.
//! H2. State persists: folder, variables, jobs, running programs.
//! H3. Whatever a step leaves behind (lost marks, a raw terminal, half a line), the next command runs as given, or its
//! output says why not.
//! H4. The session types its own lines at primary prompts only. If the kind of prompt is unknown, a key asks the shell
//! for it.
//!
//! Output is not read between steps: a background job that fills the terminal's buffer (some kilobytes) waits.
//!
//! Cancellation: by the token of the limits. After a dropped step future, the session can only be dropped. Errors:
//! [`ShellError`]; a failing command is not an error.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::drive::{DriveEnd, DriveLimits, IdleRule, SilentParty, TerminalIo};
use super::input::{push_command, push_typed};
use super::keys::parse_keys;
use super::mark::Report;
use super::output_tracker::{Arrival, OutputTracker, Phase, ShellReport};
use super::rc::{REPAIR_LINE, REPORT_KEY, adoption_line};
use super::signal::{ForegroundKiller, JobSignal};
use super::step::{ShellConfig, ShellError, ShellState, StepEnd, StepLimits, StepNote, StepOutput};
use super::unfinished::missing;
use crate::pty::Pty;
use crate::screen::ScreenView;

/// C-c.
const INTERRUPT: u8 = 0x03;
/// C-e C-u: to the end of the line, then delete it. The kernel's own line editing knows the second.
const DROP_LINE: &[u8] = b"\x05\x15";
/// How often a line is interrupted. An interrupt between the drawing of a prompt and the wait for a key is recorded,
/// but handled with the next key only (bash 5.2: `rl_getc` asks for the shell's signals when its wait was cut short,
/// not before it).
const INTERRUPTS: usize = 3;
/// Commands that end a shell, besides the end of its input.
const LEAVING: [&str; 2] = ["exit", "logout"];
/// How often the foreground is checked within a grace period.
const KILL_SLICES: u32 = 2;
/// An unfinished command is no longer analysed after this many bytes.
const MAX_UNFINISHED: usize = 256 * 1024;

/// A shell that takes one step at a time. Dropping it hangs the terminal up, which ends the shell.
pub struct ShellSession {
    wire: TerminalIo,
    config: ShellConfig,
    killer: Arc<dyn ForegroundKiller>,
    state: State,
    /// The terminal's settings differ from those of a fresh one.
    unsound: bool,
    /// Restoring them failed; do not try at every step.
    repair_failed: bool,
    /// The shell does not react to the report key.
    deaf: bool,
    /// A new shell has started since the last step ended.
    renewed: bool,
    /// The unfinished command, if all of it is known.
    unfinished: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Prompt {
        typed: bool,
    },
    /// A prompt without marks; it is unknown whether it is primary.
    Unmarked,
    Continuation,
    Running,
    Gone,
}

struct StepContext {
    at: Instant,
    /// An end that came before the step began.
    late: Option<StepEnd>,
    notes: Vec<StepNote>,
    /// The sent input may have told the shell to end.
    ends_shell: bool,
    /// Number of lines that the line editor had started to read.
    lines_begun: u64,
}

impl ShellSession {
    /// Takes over the terminal of a bash that was started with [`crate::rc_script`] and waits for its first prompt.
    ///
    /// # Errors
    /// [`ShellError::NotStarted`], [`ShellError::NoPrompt`] (also when cancelled), [`ShellError::Terminal`].
    pub async fn start(
        pty: Pty,
        config: ShellConfig,
        killer: Arc<dyn ForegroundKiller>,
        limits: StepLimits<'_>,
    ) -> Result<Self, ShellError> {
        let (columns, rows) = config.size;
        pty.resize(columns, rows)?;
        let tracker = OutputTracker::new(&config, Instant::now());
        let wire = TerminalIo::new(pty, tracker, config.cast.input);
        let state = State::Running;
        let mut session = Self {
            wire,
            config,
            killer,
            state,
            unsound: false,
            repair_failed: false,
            deaf: false,
            renewed: false,
            unfinished: None,
        };
        let ending = session.drive(limits, IdleRule::Ignored).await?;
        match ending {
            DriveEnd::Arrived(_) => {
                session.wire.know_shell();
                // Output of the start belongs to no step.
                drop(session.wire.tracker.take_text());
                session.state = State::Prompt { typed: false };
                Ok(session)
            }
            DriveEnd::HungUp => Err(ShellError::NotStarted { output: session.text_so_far() }),
            DriveEnd::Deadline | DriveEnd::Cancelled | DriveEnd::Silent(_) => {
                Err(ShellError::NoPrompt { output: session.text_so_far() })
            }
        }
    }

    /// Runs a command at the prompt, or continues an incomplete one. If a program is running, the command is typed into
    /// it, followed by Enter, and [`StepNote::TypedIntoProgram`] reports that; check [`Self::state`] first to avoid it.
    ///
    /// # Errors
    /// [`ShellError::Command`], [`ShellError::Gone`], [`ShellError::Terminal`].
    pub async fn run(&mut self, command: &str, limits: StepLimits<'_>) -> Result<StepOutput, ShellError> {
        let mut step = self.begin()?;
        // Refused before anything changes.
        let mut bytes = std::mem::take(&mut self.wire.outgoing);
        push_command(command, &mut bytes)?;
        if let Some(ended) = self.make_ready(&mut step, limits).await? {
            return Ok(self.finish(step, ended));
        }
        let drawn = self.wire.tracker.paste_on;
        let edited = self.state != State::Running && (drawn || self.wire.tracker.hidden);
        if !edited {
            bytes.clear();
            push_typed(command, &mut bytes);
            bytes.push(b'\r');
        } else if self.state == State::Unmarked {
            bytes.splice(..0, DROP_LINE.iter().copied());
        }
        step.ends_shell =
            command.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| LEAVING.contains(&word));
        self.unfinished = match (self.state, self.unfinished.take()) {
            (State::Prompt { .. } | State::Unmarked, _) => Some(command.to_owned()),
            (State::Continuation, Some(before)) => Some(format!("{before}\n{command}")),
            _ => None,
        };
        self.unfinished = self.unfinished.take().filter(|text| text.len() <= MAX_UNFINISHED);
        if self.state == State::Running {
            step.notes.push(StepNote::TypedIntoProgram);
        }
        let lines = memchr::memchr2_iter(b'\n', b'\r', command.as_bytes()).count() as u64;
        let tracker = &mut self.wire.tracker;
        tracker.expect_numbers(lines + 2);
        tracker.expects_prompts = self.state == State::Running;
        let echoes = edited && drawn;
        tracker.phase = if echoes { Phase::Echo } else { Phase::Output };
        tracker.echoed = command.is_empty();
        self.wire.outgoing = bytes;
        let was = std::mem::replace(&mut self.state, State::Running);
        let ending = self.drive(limits, IdleRule::Checked).await?;
        self.unsound |= echoes && !self.wire.tracker.echoed;
        self.settle(step, ending, was, limits).await
    }

    /// Types keys by name, see [`crate::parse_keys`].
    ///
    /// # Errors
    /// [`ShellError::Keys`], [`ShellError::Gone`], [`ShellError::Terminal`].
    pub async fn send_keys(&mut self, keys: &str, limits: StepLimits<'_>) -> Result<StepOutput, ShellError> {
        let step = self.begin()?;
        let bytes = parse_keys(keys, self.wire.tracker.cursor_keys)?;
        self.send(step, bytes, limits).await
    }

    /// Types text literally; a newline in it is the Enter key, none is added.
    ///
    /// # Errors
    /// [`ShellError::Gone`], [`ShellError::Terminal`].
    pub async fn send_text(&mut self, text: &str, limits: StepLimits<'_>) -> Result<StepOutput, ShellError> {
        let step = self.begin()?;
        let mut bytes = Vec::with_capacity(text.len());
        push_typed(text, &mut bytes);
        self.send(step, bytes, limits).await
    }

    /// Watches for `duration`, or until the running program has ended. The deadline only shortens the wait.
    ///
    /// # Errors
    /// [`ShellError::Gone`], [`ShellError::Terminal`].
    pub async fn wait(
        &mut self,
        duration: Duration,
        limits: StepLimits<'_>,
    ) -> Result<StepOutput, ShellError> {
        let step = self.begin()?;
        let was = self.state;
        let watch = StepLimits { deadline: limits.deadline.min(step.at + duration), ..limits };
        if let Some(end) = step.late {
            return Ok(self.finish(step, end));
        }
        let ending = self.drive(watch, IdleRule::Ignored).await?;
        if ending == DriveEnd::Deadline {
            let ended = self.still(was);
            return Ok(self.finish(step, ended));
        }
        self.settle(step, ending, was, limits).await
    }

    /// Signals the foreground job and watches the result.
    ///
    /// # Errors
    /// [`ShellError::Signal`], [`ShellError::Gone`], [`ShellError::Terminal`].
    pub async fn signal(
        &mut self,
        signal: JobSignal,
        limits: StepLimits<'_>,
    ) -> Result<StepOutput, ShellError> {
        let mut step = self.begin()?;
        if self.state != State::Running {
            step.notes.push(StepNote::NothingRunning);
            let ended = self.still(self.state);
            return Ok(self.finish(step, ended));
        }
        self.deliver(signal).await.map_err(ShellError::Signal)?;
        self.wire.tracker.expect_numbers(1);
        self.wire.tracker.expects_prompts = true;
        let ending = self.drive(limits, IdleRule::Checked).await?;
        self.settle(step, ending, State::Running, limits).await
    }

    /// Discards the text at the prompt, and the lines of the command that it continues. Output drawn meanwhile is
    /// discarded. The step ends as [`StepEnd::Completed`] without a code; if there was nothing to discard, according to
    /// the state.
    ///
    /// # Errors
    /// [`ShellError::Gone`], [`ShellError::Terminal`].
    pub async fn drop_line(&mut self, limits: StepLimits<'_>) -> Result<StepOutput, ShellError> {
        let step = self.begin()?;
        let early = self.interrupt_line(limits).await?;
        let end = early.unwrap_or_else(|| self.still(self.state));
        Ok(self.finish(step, end))
    }

    /// Ends the shell; a new one starts, in the folder in which the first one started. Background programs of the old
    /// one keep running. The step ends as [`StepEnd::ShellReplaced`], or with its failure.
    ///
    /// # Errors
    /// [`ShellError::Signal`], [`ShellError::Gone`], [`ShellError::Terminal`].
    pub async fn renew(&mut self, limits: StepLimits<'_>) -> Result<StepOutput, ShellError> {
        let step = self.begin()?;
        let shell = self.wire.tracker.shell.ok_or(ShellError::Gone)?;
        // Its line editor cannot do it any more, and an image may have no `stty` for the supervisor.
        self.wire.pty.gather_lines()?;
        self.killer.signal_group(shell, JobSignal::Kill).await.map_err(ShellError::Signal)?;
        let text = self.wire.tracker.set_text_aside();
        let end = loop {
            let ending = self.drive(limits, IdleRule::Ignored).await?;
            if let Some(ended) = self.ended_early(ending) {
                break ended;
            }
            if let DriveEnd::Arrived(arrival) = ending
                && let end @ StepEnd::ShellReplaced { .. } = self.arrive(arrival)
            {
                break end;
            }
        };
        self.wire.tracker.restore_text(text);
        Ok(self.finish(step, end))
    }

    /// The current screen.
    ///
    /// # Errors
    /// [`ShellError::Terminal`].
    pub fn screen(&mut self) -> Result<ScreenView, ShellError> {
        self.take_late_output()?;
        Ok(self.wire.tracker.screen.view())
    }

    /// Changes the terminal's size (columns, rows).
    ///
    /// # Errors
    /// [`ShellError::Terminal`].
    pub fn resize(&mut self, size: (u16, u16)) -> Result<(), ShellError> {
        self.wire.pty.resize(size.0, size.1)?;
        self.wire.tracker.screen.resize(size);
        self.wire.tracker.cast.resize(Instant::now(), size);
        Ok(())
    }

    /// The session's state after the last step.
    #[must_use]
    pub fn state(&self) -> ShellState {
        match self.state {
            State::Prompt { .. } | State::Unmarked => ShellState::Prompt,
            State::Continuation => ShellState::Continuation,
            State::Running => ShellState::Running,
            State::Gone => ShellState::Gone,
        }
    }

    /// The recording so far, as asciicast v2.
    #[must_use]
    pub fn cast(&self) -> String {
        self.wire.tracker.cast.to_text()
    }

    fn begin(&mut self) -> Result<StepContext, ShellError> {
        let at = Instant::now();
        self.wire.outgoing.clear();
        if self.state == State::Gone {
            return Err(ShellError::Gone);
        }
        let late = self.take_late_output()?;
        let lines_begun = self.wire.tracker.lines_begun;
        Ok(StepContext { at, late, notes: Vec::new(), ends_shell: false, lines_begun })
    }

    /// Output since the last step belongs to the next step; so does a prompt that came late.
    fn take_late_output(&mut self) -> Result<Option<StepEnd>, ShellError> {
        self.wire.tracker.phase = Phase::Output;
        self.wire.drain()?;
        let late = self.wire.tracker.take_arrival();
        Ok(late.map(|arrival| self.arrive(arrival)))
    }

    /// The shell is at one of our prompts.
    fn arrive(&mut self, arrival: Arrival) -> StepEnd {
        self.deaf = false;
        if let Some(exit_code) = self.wire.tracker.take_replaced() {
            self.wire.know_shell();
            self.state = State::Prompt { typed: false };
            self.unsound = false;
            self.repair_failed = false;
            self.renewed = true;
            return StepEnd::ShellReplaced { exit_code };
        }
        match arrival {
            Arrival::Prompt { exit_code } => {
                self.state = State::Prompt { typed: false };
                // The line editor leaves output processing unchanged; a terminal left raw has none.
                self.unsound |= self.wire.tracker.prompt_mode.is_some_and(|mode| !mode.processes_output);
                StepEnd::Completed { exit_code: Some(exit_code) }
            }
            Arrival::Continuation => {
                self.state = State::Continuation;
                StepEnd::Incomplete
            }
        }
    }

    /// Brings the shell to a clean prompt if it is at some prompt. `Some` when that ended the step.
    async fn make_ready(
        &mut self,
        step: &mut StepContext,
        limits: StepLimits<'_>,
    ) -> Result<Option<StepEnd>, ShellError> {
        if self.state == (State::Prompt { typed: true }) {
            let ended = self.interrupt_line(limits).await?;
            if ended.is_some() {
                return Ok(ended);
            }
            if self.state == (State::Prompt { typed: true }) {
                self.state = State::Unmarked;
            }
        }
        let at_prompt = self.state == (State::Prompt { typed: false });
        let OutputTracker { hidden, paste_on, .. } = self.wire.tracker;
        let mut bytes = DROP_LINE.to_vec();
        if self.repair_failed {
            return Ok(None);
        } else if at_prompt && (self.unsound || !paste_on && !hidden) {
            bytes.extend_from_slice(REPAIR_LINE);
        } else if at_prompt && hidden && paste_on {
            // Prompts can be drawn on the terminal again.
            let ending = self.ask(limits).await?.1;
            return Ok(self.ended_early(ending));
        } else if self.state == State::Unmarked && self.wire.is_at_first_line_of_another() {
            push_command(&adoption_line(&self.config.nonce, self.wire.tracker.last_number()), &mut bytes)?;
        } else {
            return Ok(None);
        }
        let was_unsound = self.unsound;
        self.wire.tracker.expect_numbers(2);
        let ending = self.prepare(&bytes, limits).await?;
        if let Some(ended) = self.ended_early(ending) {
            return Ok(Some(ended));
        }
        if let DriveEnd::Arrived(arrival) = ending {
            self.unsound = false;
            self.arrive(arrival);
            step.notes.push(StepNote::ShellRepaired);
            self.repair_failed = was_unsound && self.unsound;
        } else {
            self.repair_failed = true;
        }
        Ok(None)
    }

    /// Presses the key that makes the shell report. The ending is the silence after that.
    async fn ask(&mut self, limits: StepLimits<'_>) -> Result<(Option<ShellReport>, DriveEnd), ShellError> {
        self.wire.tracker.ask();
        let ending = self.prepare(REPORT_KEY, limits).await?;
        Ok((self.wire.tracker.take_report(), ending))
    }

    /// At a prompt without a mark: asks the shell which one it is.
    async fn identify(
        &mut self,
        step: &mut StepContext,
        limits: StepLimits<'_>,
    ) -> Result<StepEnd, ShellError> {
        let mut prompt = None;
        if !self.deaf {
            let (reported, ending) = self.ask(limits).await?;
            match ending {
                DriveEnd::Arrived(arrival) => return Ok(self.arrive(arrival)),
                DriveEnd::HungUp | DriveEnd::Cancelled => {
                    return Ok(self.ended_early(ending).unwrap_or(StepEnd::Cancelled));
                }
                DriveEnd::Silent(_) | DriveEnd::Deadline => {}
            }
            self.deaf = reported.is_none();
            if let Some(reported) = reported {
                if !step.notes.contains(&StepNote::ShellRepaired) {
                    step.notes.push(StepNote::ShellRepaired);
                }
                prompt = prompt_of(reported);
            }
        }
        self.state = prompt.unwrap_or(State::Unmarked);
        Ok(match self.state {
            State::Prompt { .. } => {
                StepEnd::Completed { exit_code: Some(self.wire.tracker.last_exit_code()) }
            }
            State::Unmarked => {
                step.notes.push(StepNote::MarksLost);
                StepEnd::Completed { exit_code: None }
            }
            other => self.still(other),
        })
    }

    /// Interrupts the line at the prompt, if any. `Some` when that ended the step.
    async fn interrupt_line(&mut self, limits: StepLimits<'_>) -> Result<Option<StepEnd>, ShellError> {
        for _ in 0..INTERRUPTS {
            if !matches!(self.state, State::Prompt { typed: true } | State::Continuation) {
                break;
            }
            self.wire.tracker.expect_numbers(1);
            let ending = self.prepare(&[INTERRUPT], limits).await?;
            if let Some(ended) = self.ended_early(ending) {
                return Ok(Some(ended));
            }
            if let DriveEnd::Arrived(arrival) = ending {
                self.arrive(arrival);
            }
        }
        Ok(None)
    }

    /// Sends the session's own input, whose output is discarded.
    async fn prepare(&mut self, bytes: &[u8], limits: StepLimits<'_>) -> Result<DriveEnd, ShellError> {
        self.wire.outgoing.extend_from_slice(bytes);
        self.wire.tracker.expects_prompts = true;
        let text = self.wire.tracker.set_text_aside();
        let ending = self.drive(limits, IdleRule::Checked).await;
        self.wire.tracker.restore_text(text);
        ending
    }

    async fn send(
        &mut self,
        mut step: StepContext,
        bytes: Vec<u8>,
        limits: StepLimits<'_>,
    ) -> Result<StepOutput, ShellError> {
        // Any key may be bound to accepting a line.
        self.wire.tracker.expect_numbers(bytes.len() as u64);
        self.wire.tracker.expects_prompts = true;
        self.wire.outgoing = bytes;
        step.ends_shell = true;
        self.unfinished = None;
        if let State::Prompt { typed } = &mut self.state {
            *typed = true;
        }
        let was = self.state;
        let ending = self.drive(limits, IdleRule::Checked).await?;
        self.settle(step, ending, was, limits).await
    }

    async fn drive(&mut self, limits: StepLimits<'_>, silence: IdleRule) -> Result<DriveEnd, ShellError> {
        let until = DriveLimits {
            deadline: limits.deadline,
            cancel: limits.cancel,
            silence,
            idle: self.config.idle,
            patience: self.config.patience,
        };
        Ok(self.wire.drive(until).await?)
    }

    /// From the end of the drive to the end of the step.
    async fn settle(
        &mut self,
        mut step: StepContext,
        ending: DriveEnd,
        was: State,
        limits: StepLimits<'_>,
    ) -> Result<StepOutput, ShellError> {
        let end = match ending {
            DriveEnd::Arrived(arrival) => self.arrive(arrival),
            DriveEnd::Silent(SilentParty::LineEditor)
                if self.wire.tracker.lines_begun == step.lines_begun =>
            {
                // No other line was started: the typed text is still at the prompt.
                self.state = match was {
                    State::Prompt { .. } => State::Prompt { typed: true },
                    other => other,
                };
                self.still(self.state)
            }
            DriveEnd::Silent(SilentParty::LineEditor) => self.identify(&mut step, limits).await?,
            DriveEnd::Silent(SilentParty::HiddenEditor) => {
                let end = self.identify(&mut step, limits).await?;
                if self.deaf {
                    // It was not one.
                    step.notes.retain(|note| *note != StepNote::MarksLost);
                    self.state = State::Running;
                    StepEnd::Running
                } else {
                    end
                }
            }
            DriveEnd::Silent(SilentParty::Program) => {
                self.state = State::Running;
                StepEnd::Running
            }
            DriveEnd::Deadline => {
                self.drop_unsent(&mut step);
                StepEnd::TimedOut { shell_lost: !self.stop_foreground(limits).await? }
            }
            DriveEnd::Cancelled => StepEnd::Cancelled,
            DriveEnd::HungUp => {
                self.state = State::Gone;
                StepEnd::ShellExited
            }
        };
        self.drop_unsent(&mut step);
        Ok(self.finish(step, end))
    }

    fn drop_unsent(&mut self, step: &mut StepContext) {
        if !self.wire.outgoing.is_empty() {
            self.wire.outgoing.clear();
            step.notes.push(StepNote::InputUnread);
        }
    }

    /// The end of a step that changed nothing.
    fn still(&self, state: State) -> StepEnd {
        match state {
            State::Prompt { typed: false } | State::Unmarked => StepEnd::Completed { exit_code: None },
            State::Prompt { typed: true } | State::Continuation => StepEnd::Incomplete,
            State::Running => StepEnd::Running,
            State::Gone => StepEnd::ShellExited,
        }
    }

    /// Whether a preparation ended the whole step.
    fn ended_early(&mut self, ending: DriveEnd) -> Option<StepEnd> {
        match ending {
            DriveEnd::HungUp => {
                self.state = State::Gone;
                Some(StepEnd::ShellExited)
            }
            DriveEnd::Cancelled => Some(StepEnd::Cancelled),
            DriveEnd::Deadline => Some(StepEnd::TimedOut { shell_lost: false }),
            DriveEnd::Arrived(_) | DriveEnd::Silent(_) => None,
        }
    }

    async fn deliver(&self, signal: JobSignal) -> std::io::Result<()> {
        if self.wire.pty.signal_foreground(signal.number())? {
            return Ok(());
        }
        match self.wire.pty.foreground_group() {
            Some(group) => self.killer.signal_group(group, signal).await,
            None => Ok(()),
        }
    }

    /// Ends the program that holds the terminal: by an interrupt, then by killing. Returns whether the shell is back.
    async fn stop_foreground(&mut self, limits: StepLimits<'_>) -> Result<bool, ShellError> {
        self.wire.tracker.expect_numbers(1);
        self.wire.tracker.expects_prompts = true;
        self.deliver(JobSignal::Int).await.map_err(ShellError::Signal)?;
        let slice = self.config.kill_grace / KILL_SLICES;
        for turn in 1..=3 * KILL_SLICES {
            let slice = StepLimits { deadline: Instant::now() + slice, ..limits };
            match self.drive(slice, IdleRule::Ignored).await? {
                DriveEnd::Arrived(arrival) => {
                    return Ok(!matches!(self.arrive(arrival), StepEnd::ShellReplaced { .. }));
                }
                DriveEnd::HungUp => {
                    self.state = State::Gone;
                    return Ok(false);
                }
                DriveEnd::Cancelled => return Ok(true),
                DriveEnd::Silent(_) | DriveEnd::Deadline => {}
            }
            if self.wire.is_at_line_editor()? {
                self.state = State::Unmarked;
                return Ok(true);
            }
            // Every further job of the same command is killed in turn.
            if turn >= KILL_SLICES && self.wire.pty.foreground_group() != self.wire.tracker.shell {
                self.deliver(JobSignal::Kill).await.map_err(ShellError::Signal)?;
            }
        }
        // The shell itself does not return to its prompt.
        if let Some(shell) = self.wire.tracker.shell {
            // Its line editor cannot do it any more, and an image may have no `stty` for the supervisor.
            self.wire.pty.gather_lines()?;
            self.killer.signal_group(shell, JobSignal::Kill).await.map_err(ShellError::Signal)?;
        }
        let slice = StepLimits { deadline: Instant::now() + self.config.kill_grace, ..limits };
        match self.drive(slice, IdleRule::Ignored).await? {
            DriveEnd::Arrived(arrival) => {
                self.arrive(arrival);
            }
            _ => self.state = State::Gone,
        }
        Ok(false)
    }

    fn finish(&mut self, mut step: StepContext, mut end: StepEnd) -> StepOutput {
        if std::mem::take(&mut self.renewed) {
            step.notes.push(StepNote::NewShell);
        }
        let tracker = &mut self.wire.tracker;
        if std::mem::take(&mut tracker.forged) {
            step.notes.push(StepNote::ForgedMark);
        }
        let (captured, replaced) = tracker.take_text();
        if replaced {
            step.notes.push(StepNote::InvalidUtf8);
        }
        let cut = captured.cut(self.config.observation_chars);
        if cut.full.is_some() {
            step.notes.push(StepNote::OutputCut);
        }
        if matches!(end, StepEnd::ShellReplaced { .. }) && step.ends_shell && is_exit_message(&cut.text) {
            step.notes.retain(|note| *note != StepNote::NewShell);
            self.state = State::Gone;
            end = StepEnd::ShellExited;
        }
        let missing = match (end, self.state) {
            (StepEnd::Incomplete, State::Continuation) => self.unfinished.as_deref().and_then(missing),
            (StepEnd::Incomplete, _) => Some("the Enter key".to_owned()),
            _ => None,
        };
        let screen = tracker.screen.is_full_screen().then(|| tracker.screen.view());
        StepOutput {
            end,
            text: screen.as_ref().map_or(cut.text, ScreenView::describe),
            full_text: cut.full,
            screen,
            missing,
            folder: tracker.folder().map(str::to_owned),
            duration: step.at.elapsed(),
            notes: step.notes,
        }
    }

    fn text_so_far(&mut self) -> String {
        self.wire.tracker.take_text().0.cut(self.config.observation_chars).text
    }
}

/// What bash writes when it was told to end.
fn is_exit_message(text: &str) -> bool {
    text.lines().next_back().is_some_and(|line| LEAVING.contains(&line))
}

/// The state of a shell that shows no mark, by its report; `None` if unclear.
fn prompt_of(reported: ShellReport) -> Option<State> {
    let prompt = Some(State::Prompt { typed: false });
    let ShellReport { report, is_known, is_new } = reported;
    let Report { has_prompt, has_continuation, expands, continues, on_terminal, .. } = report;
    match (has_prompt, has_continuation) {
        _ if !expands => None,
        // One of our prompts would have shown its mark, if it was drawn on the terminal and its number was in reach.
        (true, false) if on_terminal => Some(State::Continuation),
        (false, true) if on_terminal || !continues => prompt,
        // The shell itself reads a line, as `read -e` does.
        (true, true) if is_known && (on_terminal || !is_new && !continues) => Some(State::Running),
        (true, true) if continues => Some(State::Continuation),
        (true, true) => prompt,
        _ => None,
    }
}
