//! Standard error: notes, warnings and diagnostics, in lines that a progress display does not garble.
//!
//! I1. Output during a progress display appears above it. I2. Write errors are ignored, since they cannot be reported.
//! I3. Text of agents, environments, models and files cannot control the terminal.

use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use clawrl_chat::Terminal;
use clawrl_config::Problem;
use clawrl_core::{BoxFuture, printable};
use clawrl_runtime::environment::Variable;
use clawrl_runtime::training::UpdateProgress;
use clawrl_runtime::{Progress, RunningRun};
use indicatif::ProgressBar;
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, Severity};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::failure::Failure;
use crate::output;
use crate::progress::{Display, skipped_line, update_line};

/// A handle to standard error; clones share the display.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    bar: Arc<Mutex<Option<ProgressBar>>>,
    terminal: bool,
    quiet: bool,
}

impl Log {
    /// Inspects standard error once.
    pub(crate) fn new() -> Self {
        Self { bar: Arc::default(), terminal: std::io::stderr().is_terminal(), quiet: false }
    }

    /// The same log without progress if `quiet` is set.
    pub(crate) fn quieted(&self, quiet: bool) -> Self {
        Self { quiet, ..self.clone() }
    }

    /// Whether standard error is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Width of the terminal, if known.
    pub(crate) fn columns(&self) -> Option<usize> {
        let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok().filter(|_| self.terminal)?;
        // A reported width near 0 means unknown.
        (size.ws_col >= 20).then(|| size.ws_col.into())
    }

    /// Shows log messages of libraries, filtered by `CLAWRL_LOG`.
    pub(crate) fn install_tracing(&self) {
        let filter = Variable::Log.value().unwrap_or_else(|| "warn".to_owned());
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(filter))
            .with_ansi(false)
            .with_target(false)
            .without_time()
            .with_writer(self.clone())
            .finish();
        // Fails only if a subscriber is already set, which then remains.
        let _ = tracing::subscriber::set_global_default(subscriber);
    }

    /// Writes one line.
    pub(crate) fn note(&self, line: Arguments<'_>) {
        self.write(&format!("{line}\n"));
    }

    /// Writes a warning.
    pub(crate) fn warn(&self, line: Arguments<'_>) {
        self.write(&format!("warning: {line}\n"));
    }

    /// Writes the error of a failed command.
    pub(crate) fn failure(&self, failure: &Failure) {
        self.diagnostic(failure.diagnostic());
    }

    /// Writes a diagnostic: with colours and frames on a terminal, plain otherwise.
    pub(crate) fn diagnostic(&self, diagnostic: &dyn Diagnostic) {
        let coloured = self.terminal && Variable::NoColor.value().is_none();
        let theme = if coloured { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let text = rendered(diagnostic, theme, self.terminal);
        self.emit(&(text.trim_end().to_owned() + "\n"));
    }

    /// Sets the display that stays below all output, or removes it.
    pub(crate) fn show(&self, bar: Option<ProgressBar>) {
        *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = bar;
    }

    /// Writes whole lines with control characters escaped.
    pub(crate) fn write(&self, text: &str) {
        self.emit(&printable(text));
    }

    /// Writes text; never waits for a display that a panicking thread holds.
    fn emit(&self, text: &str) {
        let emit = || {
            let _ = std::io::stderr().lock().write_all(text.as_bytes());
        };
        match self.bar.try_lock() {
            Ok(bar) => match &*bar {
                Some(bar) => bar.suspend(emit),
                None => emit(),
            },
            Err(TryLockError::Poisoned(_) | TryLockError::WouldBlock) => emit(),
        }
    }
}

impl Progress for Log {
    fn step(&self, line: Arguments<'_>) {
        if !self.quiet {
            Self::note(self, line);
        }
    }

    fn note(&self, line: Arguments<'_>) {
        Self::note(self, line);
    }

    fn warn(&self, line: Arguments<'_>) {
        Self::warn(self, line);
    }

    fn file_warning(&self, problem: &Problem) {
        self.diagnostic(problem);
    }

    fn show_run(&self, run: RunningRun, ended: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        Display::suited(self, self.quiet).show(run, self, ended)
    }

    fn update(&self, update: &UpdateProgress) {
        if !self.quiet {
            Self::note(self, format_args!("{}", update_line(update)));
            if update.skipped_steps > 0 {
                Self::warn(self, format_args!("{}", skipped_line(update)));
            }
        }
    }
}

impl Terminal for Log {
    fn note(&self, line: &str) {
        Self::note(self, format_args!("{line}"));
    }

    fn write(&self, text: &str) {
        Self::write(self, text);
    }

    fn note_columns(&self) -> Option<usize> {
        self.columns()
    }

    fn has_notes_on_terminal(&self) -> bool {
        self.terminal
    }

    fn has_colours(&self) -> bool {
        Variable::NoColor.value().is_none()
    }

    fn columns(&self) -> Option<usize> {
        output::columns()
    }

    fn print(&self, text: &str, is_dim: bool) -> std::io::Result<bool> {
        output::print_laid_out(text, is_dim)
    }

    fn print_json_line(&self, line: &serde_json::Value) -> std::io::Result<bool> {
        output::print_json_line(line)
    }
}

/// Rendered in colour, unless the text itself contains control sequences, which would be indistinguishable from ours
/// (I3).
fn rendered(diagnostic: &dyn Diagnostic, theme: GraphicalTheme, is_terminal: bool) -> String {
    let by = |theme: GraphicalTheme| {
        // Without a terminal, text that users copy or search for stays on one line.
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_links(false)
            .with_width(width().max(commands_of(diagnostic)))
            .with_wrap_lines(is_terminal);
        let mut text = String::new();
        if handler.render_report(&mut text, diagnostic).is_err() {
            text = diagnostic.to_string();
        }
        text
    };
    if !is_terminal {
        return printable(&named(&by(GraphicalTheme::none()), diagnostic.severity())).into_owned();
    }
    match printable(&by(GraphicalTheme::unicode_nocolor())) {
        Cow::Borrowed(_) => by(theme),
        Cow::Owned(plain) => plain,
    }
}

/// Width of the longest command in a diagnostic's help, including `  help: `. A command is a line that begins with two
/// blanks; it is never wrapped, so that it can be copied.
fn commands_of(diagnostic: &dyn Diagnostic) -> usize {
    let help = diagnostic.help().map(|help| help.to_string()).unwrap_or_default();
    let commands = help.lines().filter(|line| line.starts_with("  "));
    commands.map(|line| line.chars().count() + 10).max().unwrap_or_default()
}

/// Width of the terminal, or the usual one.
fn width() -> usize {
    let columns = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| size.ws_col);
    if columns < 40 { 100 } else { columns.into() }
}

/// A plain report that starts with a searchable word.
fn named(report: &str, severity: Option<Severity>) -> String {
    let (sign, word) = match severity {
        Some(Severity::Warning) => ("  ! ", "warning: "),
        Some(Severity::Advice) => ("  > ", "advice: "),
        Some(Severity::Error) | None => ("  x ", "error: "),
    };
    report.strip_prefix(sign).map_or_else(|| report.to_owned(), |rest| format!("{word}{rest}"))
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Record;

    fn make_writer(&'a self) -> Record {
        Record { log: self.clone(), text: Vec::new() }
    }
}

/// A buffer for one message of a library.
#[derive(Debug)]
pub(crate) struct Record {
    log: Log,
    text: Vec<u8>,
}

impl Write for Record {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.log.write(&String::from_utf8_lossy(&self.text));
    }
}

#[cfg(test)]
mod tests {
    use miette::MietteDiagnostic;

    use super::*;

    fn check(message: &str, is_terminal: bool, expected: &str) {
        let text =
            rendered(&MietteDiagnostic::new(message.to_owned()), GraphicalTheme::unicode(), is_terminal);
        assert_eq!(text.trim_end(), expected);
    }

    #[test]
    fn a_command_in_the_help_is_on_one_line_of_any_terminal() {
        let command = format!("  clawrl serve {}", "word ".repeat(40).trim_end());
        let diagnostic = MietteDiagnostic::new("no").with_help(format!("this serves it:\n{command}"));
        let text = rendered(&diagnostic, GraphicalTheme::unicode_nocolor(), true);
        assert!(text.contains(&command), "{text}");
    }

    #[test]
    fn i3_diagnostics_have_no_control_characters_but_our_own() {
        check("no run", false, "error: no run");
        check("no \u{1b}[2J\r\0\u{202e}run", false, r"error: no \u{1b}[2J\r\0\u{202e}run");
        check("no \u{1b}[2J\u{202e}run", true, r"  × no \u{1b}[2J\u{202e}run");
        let coloured = rendered(&MietteDiagnostic::new("no run"), GraphicalTheme::unicode(), true);
        assert!(coloured.contains("\u{1b}["), "{coloured:?}");
    }
}
