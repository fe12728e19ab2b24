//! Tracks the terminal's output: decides which marks to trust, and maintains text, screen and recording.
//!
//! N1. A mark counts only if it carries the nonce, its number fits, the shell's process group is in the foreground when
//! it is read, and the line editor has the terminal (it takes it before it shows a prompt). A prompt counts only as a
//! whole: the mark and the visible text.
//! N2. A sequence that looks like a mark and does not count is noted; the escape sequence is removed from the text, the
//! text around it stays.
//! N3. Numbers only increase, by at most one per line that was sent, so no mark counts twice.
//!
//! A prompt without the line editor (`set +o emacs`) is doubtful: it counts if nothing follows and the shell then
//! waits. The same holds for a hidden prompt, of which only the mark is written to the terminal; bash also writes it
//! for each line of a paste.
//!
//! A report that a new shell replaced the old one counts if the old one does not run any more and the number fits.
//! Prompts are then counted from the start. A shell's report about itself counts once per request.
//!
//! Remaining weakness: a program that prints a mark and has ended when the mark is read, just when the line editor
//! takes the terminal, can end a step early with a wrong exit code. The genuine prompt that follows reveals it, in this
//! step or in the next. Only the agent itself is deceived.
//!
//! Pure except for the queries to the terminal; nothing to cancel.

use std::time::Instant;

use rustix::process::Pid;

use super::activity::is_running;
use super::capture::Captured;
use super::keys::CursorKeys;
use super::mark::{Event, Mark, MarkKind, Report, Scanner};
use super::rc::{Nonce, PROMPT_TEXT_BYTES, is_prompt_text, unquote};
use super::step::ShellConfig;
use super::text::TextCleaner;
use crate::cast::CastRecorder;
use crate::pty::LineMode;
use crate::screen::LazyScreen;

/// Capacity for text that will be discarded.
const ASIDE_BYTES: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The line editor's echo of the sent input.
    Echo,
    /// The line was accepted; the rest of its line end may follow.
    Accepted,
    Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    Prompt {
        /// Exit code of the last command.
        exit_code: i32,
    },
    Continuation,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Foreground {
    pub(super) group: Option<Pid>,
    pub(super) mode: LineMode,
}

/// A prompt that is not trusted yet.
#[derive(Debug, Clone, Copy)]
struct PendingPrompt {
    number: u64,
    arrival: Arrival,
    stage: PromptStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PromptStage {
    /// Its mark came; its text is to follow.
    Marked,
    /// The current prompt, redrawn by the line editor; its text is to follow.
    Redrawn,
    /// It is complete, but not from a line editor.
    Doubtful,
    /// It consists of its mark only.
    Hidden,
}

/// A shell's report, and what the number of its last primary prompt shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShellReport {
    pub(super) report: Report,
    /// A mark could have had the number.
    pub(super) is_known: bool,
    /// The number differs from that of the last counted prompt.
    pub(super) is_new: bool,
}

#[derive(Debug)]
pub(super) struct OutputTracker {
    scanner: Scanner,
    text: TextCleaner,
    pub(super) screen: LazyScreen,
    pub(super) cast: CastRecorder,
    nonce: Nonce,
    /// Process group of the shell, learned at the first prompt.
    pub(super) shell: Option<Pid>,
    pub(super) phase: Phase,
    begun: Option<PendingPrompt>,
    prompt_text: Vec<u8>,
    arrival: Option<Arrival>,
    last_number: u64,
    last_exit_code: i32,
    /// Highest number that the lines sent so far can lead to.
    highest_number: u64,
    /// The sent input may cause more than one prompt.
    pub(super) expects_prompts: bool,
    /// The line editor is reading: it has switched bracketed paste on.
    pub(super) paste_on: bool,
    pub(super) cursor_keys: CursorKeys,
    /// The terminal's settings at the last prompt.
    pub(super) prompt_mode: Option<LineMode>,
    /// Something was drawn during [`Phase::Echo`].
    pub(super) echoed: bool,
    pub(super) forged: bool,
    /// The last prompt was drawn somewhere other than the terminal.
    pub(super) hidden: bool,
    /// How often the line editor was seen to start reading a line.
    pub(super) lines_begun: u64,
    /// The same at the last counted prompt.
    pub(super) lines_at_prompt: u64,
    /// The shell was asked to report, and has not yet.
    asked: bool,
    reported: Option<ShellReport>,
    /// Exit code of a shell that has ended, since the last query.
    replaced: Option<i32>,
    replacements: u64,
    folder_quoted: Vec<u8>,
    begun_folder: Vec<u8>,
    folder: Option<String>,
}

impl OutputTracker {
    pub(super) fn new(config: &ShellConfig, now: Instant) -> Self {
        Self {
            scanner: Scanner::default(),
            text: TextCleaner::new(config.full_text_bytes),
            screen: LazyScreen::new(config.size),
            cast: CastRecorder::new(now, config.size, config.cast.cap_bytes),
            nonce: config.nonce.clone(),
            shell: None,
            phase: Phase::Output,
            begun: None,
            prompt_text: Vec::new(),
            arrival: None,
            last_number: 0,
            last_exit_code: 0,
            highest_number: 1,
            expects_prompts: true,
            paste_on: false,
            cursor_keys: CursorKeys::Normal,
            prompt_mode: None,
            echoed: false,
            forged: false,
            hidden: false,
            lines_begun: 0,
            lines_at_prompt: 0,
            asked: false,
            reported: None,
            replaced: None,
            replacements: 0,
            folder_quoted: Vec::new(),
            begun_folder: Vec::new(),
            folder: None,
        }
    }

    /// The sent input may lead to this many prompts.
    pub(super) fn expect_numbers(&mut self, lines: u64) {
        self.highest_number = self.highest_number.saturating_add(lines);
    }

    pub(super) fn last_number(&self) -> u64 {
        self.last_number
    }

    pub(super) fn last_exit_code(&self) -> i32 {
        self.last_exit_code
    }

    pub(super) fn folder(&self) -> Option<&str> {
        self.folder.as_deref()
    }

    /// The shell may report once.
    pub(super) fn ask(&mut self) {
        self.asked = true;
        self.reported = None;
    }

    /// The report received since, if any.
    pub(super) fn take_report(&mut self) -> Option<ShellReport> {
        self.reported.take()
    }

    /// Exit code of a shell that has ended since the last call; a new one is on this terminal.
    pub(super) fn take_replaced(&mut self) -> Option<i32> {
        self.replaced.take()
    }

    /// Text since the last call, and whether bytes were replaced in it.
    pub(super) fn take_text(&mut self) -> (Captured, bool) {
        self.text.take()
    }

    /// Keeps the text so far separate from what comes next.
    pub(super) fn set_text_aside(&mut self) -> TextCleaner {
        std::mem::replace(&mut self.text, TextCleaner::new(ASIDE_BYTES))
    }

    /// Restores that text; what came in between is discarded.
    pub(super) fn restore_text(&mut self, text: TextCleaner) {
        self.text = text;
    }

    /// Where the shell has arrived, after all available output was read.
    pub(super) fn take_arrival(&mut self) -> Option<Arrival> {
        let arrival = self.arrival.take()?;
        if self.screen.is_full_screen() {
            self.screen.leave_full_screen();
        }
        self.cursor_keys = CursorKeys::Normal;
        self.phase = Phase::Output;
        Some(arrival)
    }

    pub(super) fn feed(&mut self, at: Instant, bytes: &[u8], front: impl Fn() -> Option<Foreground>) {
        self.cast.output(at, bytes);
        let mut scanner = std::mem::take(&mut self.scanner);
        let mut rest = bytes;
        while let Some(event) = scanner.next(&mut rest) {
            match event {
                Event::Output(bytes) => self.output(bytes, &front),
                Event::Mode { number, on, bytes } => self.mode(number, on, bytes),
                Event::Mark(mark) => self.mark(mark, &front),
            }
        }
        self.scanner = scanner;
    }

    fn output(&mut self, bytes: &[u8], front: &impl Fn() -> Option<Foreground>) {
        self.screen.feed(bytes);
        let mut rest = bytes;
        if let Some(begun) =
            self.begun.filter(|begun| matches!(begun.stage, PromptStage::Marked | PromptStage::Redrawn))
        {
            let missing = PROMPT_TEXT_BYTES - self.prompt_text.len();
            let (text, after) = rest.split_at(missing.min(rest.len()));
            self.prompt_text.extend_from_slice(text);
            rest = after;
            if self.prompt_text.len() == PROMPT_TEXT_BYTES {
                self.prompt_shown(begun, front);
            }
        }
        if !rest.is_empty() {
            // More output follows a doubtful prompt.
            self.disbelieve();
            self.program_output(rest);
        }
    }

    fn program_output(&mut self, bytes: &[u8]) {
        match self.phase {
            Phase::Echo => self.echoed = true,
            Phase::Accepted => {
                // With echo, the line end was drawn, and only the line editor's carriage return is left.
                let rest = match bytes.iter().position(|&byte| byte != b'\r') {
                    None => return,
                    Some(at) if bytes[at] == b'\n' && !self.echoed => at + 1,
                    Some(at) => at,
                };
                self.phase = Phase::Output;
                self.text.feed(&bytes[rest..]);
            }
            Phase::Output if self.screen.is_full_screen() => {}
            Phase::Output => self.text.feed(bytes),
        }
    }

    fn mode(&mut self, number: u16, on: bool, bytes: &[u8]) {
        match number {
            2004 => {
                self.paste_on = on;
                self.lines_begun += u64::from(on);
                if self.phase == Phase::Echo && !on {
                    self.phase = Phase::Accepted;
                }
            }
            1 => self.cursor_keys = if on { CursorKeys::Application } else { CursorKeys::Normal },
            47 | 1047 | 1049 => self.screen.set_full_screen(on),
            _ => {}
        }
        self.screen.feed(bytes);
        if self.phase == Phase::Output {
            // It is invisible, but it ends an unfinished character or sequence.
            self.text.feed(bytes);
        }
    }

    fn mark(&mut self, mark: Mark<'_>, front: &impl Fn() -> Option<Foreground>) {
        let Mark { kind, nonce, number } = mark;
        self.disbelieve();
        let believed = nonce == self.nonce.as_bytes()
            && match kind {
                MarkKind::Ended { exit_code, folder, hidden } => {
                    self.prompt_begins(number, exit_code, folder, hidden, front)
                }
                MarkKind::Continued { hidden } => self.begin(number, Arrival::Continuation, hidden, front),
                MarkKind::Reported(report) => self.reported(number, report),
                MarkKind::Replaced { exit_code } => self.shell_is_replaced(number, exit_code, front),
                MarkKind::Unreadable => false,
            };
        self.forged |= !believed;
    }

    fn prompt_begins(
        &mut self,
        number: u64,
        exit_code: i32,
        folder: &[u8],
        hidden: bool,
        front: &impl Fn() -> Option<Foreground>,
    ) -> bool {
        let arrival = Arrival::Prompt { exit_code };
        // While an arrival waits to be taken, a second prompt with its number is a rival, not a redraw.
        if number == self.last_number && self.arrival.is_none() && !hidden {
            self.begun = Some(PendingPrompt { number, arrival, stage: PromptStage::Redrawn });
            return true;
        }
        if !self.begin(number, arrival, hidden, front) {
            return false;
        }
        self.begun_folder.clear();
        self.begun_folder.extend_from_slice(folder);
        true
    }

    fn begin(
        &mut self,
        number: u64,
        arrival: Arrival,
        hidden: bool,
        front: &impl Fn() -> Option<Foreground>,
    ) -> bool {
        if number < self.last_number || number > self.highest_number {
            return false;
        }
        let mut stage = PromptStage::Marked;
        if hidden {
            let Some(front) = front().filter(|front| front.group.is_some() && front.group == self.shell)
            else {
                return false;
            };
            self.prompt_mode = Some(front.mode);
            stage = PromptStage::Hidden;
        }
        self.begun = Some(PendingPrompt { number, arrival, stage });
        true
    }

    /// Adopts the shell's own number: another process may have counted.
    fn reported(&mut self, number: u64, report: Report) -> bool {
        if !std::mem::take(&mut self.asked) {
            return false;
        }
        let is_known = self.last_number <= number && number <= self.highest_number;
        self.reported = Some(ShellReport { report, is_known, is_new: number != self.last_number });
        self.highest_number = number.saturating_add(self.highest_number.saturating_sub(self.last_number));
        self.last_number = number;
        self.last_exit_code = report.exit_code;
        self.hidden = !report.on_terminal;
        true
    }

    fn shell_is_replaced(
        &mut self,
        number: u64,
        exit_code: i32,
        front: &impl Fn() -> Option<Foreground>,
    ) -> bool {
        // A second report before the new shell's prompt: the old shell, which ended before the report was read, forged
        // the first one.
        if number == self.replacements && self.shell.is_none() && self.replaced.is_some() {
            self.replaced = Some(exit_code);
            self.forged = true;
            return true;
        }
        let Some(shell) = self.shell else { return false };
        let in_front = front().is_some_and(|front| front.group == self.shell);
        if in_front || number != self.replacements + 1 || is_running(shell) {
            return false;
        }
        self.replacements = number;
        self.replaced = Some(exit_code);
        self.shell = None;
        self.arrival = None;
        self.last_number = 0;
        self.highest_number = 1;
        self.phase = Phase::Output;
        self.paste_on = false;
        self.hidden = false;
        self.cursor_keys = CursorKeys::Normal;
        if self.screen.is_full_screen() {
            self.screen.leave_full_screen();
        }
        true
    }

    /// Mark and text of a prompt are complete.
    fn prompt_shown(&mut self, begun: PendingPrompt, front: &impl Fn() -> Option<Foreground>) {
        let PendingPrompt { number, arrival, stage } = begun;
        let continuation = arrival == Arrival::Continuation;
        let answer = front()
            .filter(|front| front.group.is_some() && (self.shell.is_none() || front.group == self.shell))
            .filter(|_| is_prompt_text(&self.prompt_text, continuation));
        let Some(Foreground { group, mode }) = answer else {
            self.disbelieve();
            return;
        };
        if stage == PromptStage::Redrawn {
            // The editor redraws the same prompt; a different exit code means that one of the two was forged.
            self.forged |= arrival != Arrival::Prompt { exit_code: self.last_exit_code };
            self.begun = None;
            self.prompt_text.clear();
            return;
        }
        self.shell = group;
        self.prompt_mode = Some(mode);
        if mode.canonical {
            self.begun = Some(PendingPrompt { stage: PromptStage::Doubtful, ..begun });
        } else {
            self.hidden = false;
            self.believe(number, arrival);
        }
    }

    /// Nothing followed a doubtful prompt, and the shell waits.
    pub(super) fn believe_doubtful(&mut self) {
        if let Some(PendingPrompt {
            number,
            arrival,
            stage: stage @ (PromptStage::Doubtful | PromptStage::Hidden),
        }) = self.begun
        {
            self.hidden = stage == PromptStage::Hidden;
            self.believe(number, arrival);
        }
    }

    fn believe(&mut self, number: u64, arrival: Arrival) {
        self.begun = None;
        self.prompt_text.clear();
        self.last_number = number;
        self.lines_at_prompt = self.lines_begun;
        if let Arrival::Prompt { exit_code } = arrival {
            self.last_exit_code = exit_code;
        }
        self.settle_folder(arrival);
        if self.phase == Phase::Echo {
            // The sent line is not accepted yet: this is an earlier prompt that came late.
            return;
        }
        if self.arrival.is_some() && !self.expects_prompts {
            // One command, two prompts: one of them did not come from the shell.
            self.forged = true;
        }
        self.arrival = Some(arrival);
    }

    /// The start of a prompt turned out to be ordinary output.
    fn disbelieve(&mut self) {
        match self.begun.take() {
            None => return,
            Some(PendingPrompt { stage: PromptStage::Hidden, .. }) => {}
            Some(_) => self.forged = true,
        }
        let text = std::mem::take(&mut self.prompt_text);
        self.program_output(&text);
    }

    fn settle_folder(&mut self, arrival: Arrival) {
        if matches!(arrival, Arrival::Prompt { .. }) && self.folder_quoted != self.begun_folder {
            std::mem::swap(&mut self.folder_quoted, &mut self.begun_folder);
            self.folder = unquote(&self.folder_quoted);
        }
    }
}
