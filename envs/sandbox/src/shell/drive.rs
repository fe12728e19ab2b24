//! The loop of a step: reads while it writes, until a prompt arrives, the output has been silent long enough, or time
//! is up.
//!
//! D1. Output is always read while input waits to be written, so neither side can block the other for ever.
//! D2. An arrival ends the step as soon as there is nothing more to read; no timer is involved.
//! D3. A silence is judged only after it has lasted; see [`super::activity`].
//!
//! Cancellation: by the token, noticed within one wake-up. A dropped future loses only the rest of the input.

use std::io;
use std::time::{Duration, Instant};

use clawrl_core::CancelToken;
use rustix::process::Pid;
use tokio::time::sleep_until;

use super::activity::{Activity, foreground_activity, writes_elsewhere};
use super::output_tracker::{Arrival, Foreground, OutputTracker, Phase};
use crate::pty::{Pty, PtyRead};

/// Reads between two checks of the clock, each up to one buffer.
const READS_IN_A_ROW: usize = 64;
/// The line discipline returns at most this much at once.
const READ_BYTES: usize = 4096;
/// A program that is blocked reading the terminal is trusted to be idle after this fraction of the idle time.
const SETTLE_SHARE: u32 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleRule {
    Ignored,
    /// When the foreground waits for input, or after the patience.
    Checked,
}

/// What ends a drive, besides an arrival.
#[derive(Debug, Clone, Copy)]
pub(super) struct DriveLimits<'a> {
    pub(super) deadline: Instant,
    pub(super) cancel: &'a CancelToken,
    pub(super) silence: IdleRule,
    pub(super) idle: Duration,
    pub(super) patience: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DriveEnd {
    Arrived(Arrival),
    Silent(SilentParty),
    Deadline,
    Cancelled,
    HungUp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SilentParty {
    /// The shell, at a prompt of its line editor.
    LineEditor,
    /// The shell, probably at a prompt that its line editor draws elsewhere.
    HiddenEditor,
    /// A program, or the shell itself while busy.
    Program,
}

/// A terminal, with the state of its output and the input still to be written.
#[derive(Debug)]
pub(super) struct TerminalIo {
    pub(super) pty: Pty,
    pub(super) tracker: OutputTracker,
    pub(super) outgoing: Vec<u8>,
    shell_program: Option<String>,
    shell_arguments: Option<Vec<u8>>,
    buffer: Box<[u8; READ_BYTES]>,
    record_input: bool,
}

enum SilenceVerdict {
    Over(DriveEnd),
    /// There was no silence: data was under way in one of the directions.
    Heard,
    Open,
}

enum Drained {
    Nothing,
    All,
    More,
    HungUp,
}

impl TerminalIo {
    pub(super) fn new(pty: Pty, tracker: OutputTracker, record_input: bool) -> Self {
        Self {
            pty,
            tracker,
            outgoing: Vec::new(),
            shell_program: None,
            shell_arguments: None,
            buffer: Box::new([0; READ_BYTES]),
            record_input,
        }
    }

    /// Reads what is already there. A hang-up is left for the next drive to find.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        read_some(&self.pty, &mut self.tracker, &mut self.buffer[..]).map(drop)
    }

    /// Sends `outgoing`, reads, and returns when something ends it. Unsent input is kept.
    pub(super) async fn drive(&mut self, until: DriveLimits<'_>) -> io::Result<DriveEnd> {
        let started = Instant::now();
        if self.record_input && !self.outgoing.is_empty() {
            self.tracker.cast.input(started, &self.outgoing);
        }
        send_some(&self.pty, &mut self.outgoing)?;
        let mut last_sign = started;
        let mut threshold = until.idle / SETTLE_SHARE;
        let wake_at = |last_sign: Instant, threshold: Duration| match until.silence {
            IdleRule::Ignored => until.deadline,
            IdleRule::Checked => until.deadline.min(last_sign + threshold),
        };
        let mut timer = std::pin::pin!(sleep_until(wake_at(last_sign, threshold).into()));
        let mut cancelled = std::pin::pin!(until.cancel.cancelled());
        loop {
            let sending = !self.outgoing.is_empty();
            let mut more = false;
            tokio::select! {
                biased;
                guard = self.pty.readable() => {
                    let mut guard = guard?;
                    match read_some(&self.pty, &mut self.tracker, &mut self.buffer[..])? {
                        // The buffer was empty after the readiness was consumed: new data makes it ready again.
                        Drained::Nothing | Drained::All => guard.clear_ready(),
                        Drained::More => more = true,
                        Drained::HungUp => return Ok(DriveEnd::HungUp),
                    }
                    last_sign = Instant::now();
                    threshold = until.idle / SETTLE_SHARE;
                    if let Some(arrival) = self.tracker.take_arrival() {
                        return Ok(DriveEnd::Arrived(arrival));
                    }
                }
                guard = self.pty.writable(), if sending => {
                    let mut guard = guard?;
                    if send_some(&self.pty, &mut self.outgoing)? == 0 {
                        guard.clear_ready();
                    } else {
                        // The program read input, which counts as activity, too.
                        last_sign = Instant::now();
                    }
                }
                () = &mut cancelled => return Ok(DriveEnd::Cancelled),
                () = &mut timer => {
                    let now = Instant::now();
                    if now >= until.deadline {
                        return Ok(DriveEnd::Deadline);
                    }
                    if now >= last_sign + threshold {
                        let silence = now - last_sign;
                        match self.judge(silence, until)? {
                            SilenceVerdict::Over(ending) => return Ok(ending),
                            SilenceVerdict::Heard => {
                                last_sign = Instant::now();
                                threshold = until.idle / SETTLE_SHARE;
                            }
                            SilenceVerdict::Open => threshold = next_threshold(silence, until),
                        }
                    }
                    timer.as_mut().reset(wake_at(last_sign, threshold).into());
                }
            }
            if more {
                // An endless writer must starve neither the clock nor the other sessions of this thread.
                if last_sign >= until.deadline {
                    return Ok(DriveEnd::Deadline);
                }
                if until.cancel.is_cancelled() {
                    return Ok(DriveEnd::Cancelled);
                }
                tokio::task::yield_now().await;
            }
        }
    }

    /// Decides what a silence means.
    fn judge(&mut self, silence: Duration, until: DriveLimits<'_>) -> io::Result<SilenceVerdict> {
        let Some(shell) = self.tracker.shell else { return Ok(SilenceVerdict::Open) };
        if self.pty.foreground_group().is_none() {
            // The session leader has ended, even if another process keeps the terminal open.
            return Ok(SilenceVerdict::Over(DriveEnd::HungUp));
        }
        let activity = foreground_activity(shell);
        if activity != Activity::Working && self.pty.foreground_group() == Some(shell) {
            self.tracker.believe_doubtful();
            if let Some(arrival) = self.tracker.take_arrival() {
                return Ok(SilenceVerdict::Over(DriveEnd::Arrived(arrival)));
            }
        }
        let Some(silent) = self.silent(activity, silence, until)? else { return Ok(SilenceVerdict::Open) };
        // Only now, because it may wait for a kernel thread. The order matters: a program that waits for input has
        // received all of it, and output written before the program was seen waiting is read before the silence is
        // trusted.
        self.pty.deliver_input();
        let wakes = activity != Activity::Working && foreground_activity(shell) == Activity::Working;
        match read_some(&self.pty, &mut self.tracker, &mut self.buffer[..])? {
            Drained::Nothing if wakes => Ok(SilenceVerdict::Heard),
            Drained::Nothing => Ok(SilenceVerdict::Over(DriveEnd::Silent(silent))),
            Drained::All | Drained::More => {
                let arrival = self.tracker.take_arrival();
                Ok(arrival.map_or(SilenceVerdict::Heard, |arrival| {
                    SilenceVerdict::Over(DriveEnd::Arrived(arrival))
                }))
            }
            Drained::HungUp => Ok(SilenceVerdict::Over(DriveEnd::HungUp)),
        }
    }

    /// Which program has been silent for long enough, if any.
    fn silent(
        &self,
        activity: Activity,
        silence: Duration,
        until: DriveLimits<'_>,
    ) -> io::Result<Option<SilentParty>> {
        let idle = silence >= until.idle;
        let enough = match activity {
            Activity::Reading => true,
            Activity::Waiting => idle,
            Activity::Working => silence >= until.patience,
        };
        if !enough {
            return Ok(None);
        }
        if !self.is_at_line_editor()? {
            let hidden = activity == Activity::Waiting && self.may_be_at_hidden_editor()?;
            return Ok(Some(if hidden { SilentParty::HiddenEditor } else { SilentParty::Program }));
        }
        // The line editor also sleeps in reading the terminal, between two keys. Only the idle time tells; and if not
        // even an echo came back, only the patience: on a loaded machine the kernel may not have delivered the input
        // yet.
        let heard = self.tracker.phase != Phase::Echo || self.tracker.echoed;
        let enough = if heard { idle } else { silence >= until.patience };
        Ok(enough.then_some(SilentParty::LineEditor))
    }

    /// Whether the shell reads a line, with or without marks on its prompt.
    pub(super) fn is_at_line_editor(&self) -> io::Result<bool> {
        Ok(self.tracker.paste_on
            && self.pty.foreground_group() == self.tracker.shell
            && !self.pty.line_mode()?.canonical
            && self.is_same_shell())
    }

    /// Whether the shell may be reading a line while nothing is drawn on the terminal. Unlike the shell's `read -n`,
    /// carriage returns are read as typed; unlike `read` on a raw terminal, it polls.
    fn may_be_at_hidden_editor(&self) -> io::Result<bool> {
        let Some(shell) = self.tracker.shell else { return Ok(false) };
        let mode = self.pty.line_mode()?;
        Ok(!self.tracker.paste_on
            && !mode.canonical
            && !mode.echo
            && !mode.maps_returns
            && self.pty.foreground_group() == Some(shell)
            && self.is_same_shell()
            && writes_elsewhere(shell))
    }

    /// Remembers the shell's program at its first prompt.
    pub(super) fn know_shell(&mut self) {
        self.shell_program = self.tracker.shell.and_then(program_name);
        self.shell_arguments = self.tracker.shell.and_then(program_arguments);
    }

    /// Whether the shell's process still runs its first program.
    fn is_same_shell(&self) -> bool {
        self.tracker.shell.and_then(program_name) == self.shell_program
    }

    /// Whether another shell of the same program, which has read nothing yet, replaced ours by `exec`.
    pub(super) fn is_at_first_line_of_another(&self) -> bool {
        let arguments = self.tracker.shell.and_then(program_arguments);
        arguments.is_some()
            && arguments != self.shell_arguments
            && self.is_same_shell()
            && self.tracker.lines_begun == self.tracker.lines_at_prompt + 1
    }
}

/// The silence after which to judge again: the idle time, then intervals that double, up to the patience.
fn next_threshold(silence: Duration, until: DriveLimits<'_>) -> Duration {
    if silence < until.idle {
        until.idle
    } else if silence < until.patience {
        (silence * 2).min(until.patience)
    } else {
        silence + until.idle
    }
}

fn send_some(pty: &Pty, outgoing: &mut Vec<u8>) -> io::Result<usize> {
    if outgoing.is_empty() {
        return Ok(0);
    }
    let sent = pty.try_write(outgoing)?;
    if sent == outgoing.len() {
        outgoing.clear();
    } else {
        outgoing.drain(..sent);
    }
    Ok(sent)
}

fn read_some(pty: &Pty, tracker: &mut OutputTracker, buffer: &mut [u8]) -> io::Result<Drained> {
    for reads in 0..READS_IN_A_ROW {
        match pty.try_read(buffer)? {
            PtyRead::Bytes(count) => {
                tracker.feed(Instant::now(), &buffer[..count], || {
                    // The mode first: a line editor that has the terminal does not give the foreground away.
                    let mode = pty.line_mode().ok()?;
                    Some(Foreground { group: pty.foreground_group(), mode })
                });
            }
            PtyRead::Empty if reads == 0 => return Ok(Drained::Nothing),
            PtyRead::Empty => return Ok(Drained::All),
            PtyRead::HungUp => return Ok(Drained::HungUp),
        }
    }
    Ok(Drained::More)
}

fn program_arguments(pid: Pid) -> Option<Vec<u8>> {
    std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()
}

fn program_name(pid: Pid) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).ok()
}
