//! Shows replies on standard output and everything else on standard error.
//!
//! I1. The key is never shown, even if a server sends it in pieces. I2. After a reply that stops within a line, the
//! next text starts a new line.

use std::sync::Arc;

use clawrl_core::printable;
use clawrl_remote::{PartialCall, Secret, Strainer};
use serde_json::{Value, json};

use super::answer::{Answer, Part, call_json};
use super::error::ChatError;
use super::layout::{table, wrapped};
use super::terminal::Terminal;
use super::words::Words;

/// Prompt before a message.
const PROMPT: &str = "> ";

/// Prefix of reasoning that is not dimmed.
const REASONING: &str = "[reasoning] ";

/// Settings of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Manner {
    /// Whether to show prompts to a person.
    pub(super) has_prompts: bool,
    /// Whether replies are lines of JSON.
    pub(super) is_json: bool,
    /// Whether to show reasoning.
    pub(super) shows_reasoning: bool,
    /// Whether the terminal may be dimmed.
    pub(super) has_colours: bool,
}

/// The client's output.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: Arc<dyn Terminal>,
    manner: Manner,
    key: Option<Secret>,
    reply: Shown,
    /// Whether a reply was shown since the last prompt.
    has_replied: bool,
    has_reader: bool,
}

/// State of a shown reply.
#[derive(Debug, Default)]
struct Shown {
    reasoning: Strainer,
    text: Strainer,
    reasoning_words: Words,
    words: Words,
    has_reasoning: bool,
    is_within_line: bool,
}

impl Screen {
    pub(super) fn new(terminal: Arc<dyn Terminal>, manner: Manner, key: Option<Secret>) -> Self {
        Self { terminal, manner, key, reply: Shown::default(), has_replied: false, has_reader: true }
    }

    /// Whether standard output still has a reader.
    pub(super) fn has_reader(&self) -> bool {
        self.has_reader
    }

    /// Shows the prompt.
    pub(super) fn prompt(&mut self) {
        if self.manner.has_prompts {
            let gap = if std::mem::take(&mut self.has_replied) { "\n" } else { "" };
            self.terminal.write(&format!("{gap}{PROMPT}"));
        }
    }

    /// Ends the line of an unused prompt.
    pub(super) fn end_prompt(&self) {
        if self.manner.has_prompts {
            self.terminal.write("\n");
        }
    }

    /// Shows a note.
    pub(super) fn note(&self, text: &str) {
        self.terminal.note(&wrapped(&self.struck(text), self.terminal.note_columns(), 2));
    }

    /// Shows a table of names and texts.
    pub(super) fn table(&self, rows: &[(&str, String)]) {
        self.terminal.note(&self.struck(&table(rows, self.terminal.note_columns())));
    }

    /// Starts a reply.
    pub(super) fn begin(&mut self) {
        let strainer = || Strainer::new(self.key.clone());
        let columns = self.terminal.columns();
        let words = || Words::new(columns);
        self.reply = Shown {
            reasoning: strainer(),
            text: strainer(),
            reasoning_words: words(),
            words: words(),
            ..Shown::default()
        };
    }

    /// Shows a part of the reply.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn part(&mut self, part: &Part) -> Result<(), ChatError> {
        match part {
            _ if self.manner.is_json => Ok(()),
            Part::Reasoning(_) if !self.manner.shows_reasoning => Ok(()),
            Part::Reasoning(piece) => {
                let piece = self.reply.reasoning.push(piece);
                self.reasoning(&piece)
            }
            Part::Text(piece) => {
                self.end_reasoning()?;
                let piece = self.reply.text.push(piece);
                self.say(&piece)
            }
        }
    }

    /// Ends the reply.
    ///
    /// # Errors
    /// As for [`Self::part`].
    pub(super) fn end(&mut self, answer: &Answer) -> Result<(), ChatError> {
        self.end_reasoning()?;
        let rest = self.reply.text.end();
        self.say(&rest)?;
        self.end_line()?;
        if !self.manner.is_json {
            for PartialCall { name, arguments, .. } in answer.calls() {
                self.print(&self.struck(&format!("[call] {name} {arguments}\n")))?;
            }
        }
        self.has_replied = true;
        Ok(())
    }

    /// Writes the reply as a line of JSON if the settings say so.
    ///
    /// # Errors
    /// As for [`Self::part`].
    pub(super) fn json(&mut self, answer: &Answer, session: &str) -> Result<(), ChatError> {
        let mut line = json!({
            "id": answer.id, "model": answer.model, "session": session, "text": self.struck(&answer.text),
            "finish_reason": answer.finish, "usage": answer.usage,
        });
        if !answer.reasoning.is_empty() {
            line["reasoning"] = self.struck(&answer.reasoning).into();
        }
        let calls: Vec<Value> = answer
            .calls()
            .into_iter()
            .map(|call| {
                let (name, arguments) = (self.struck(&call.name), self.struck(&call.arguments));
                call_json(&PartialCall { name, arguments, ..call })
            })
            .collect();
        if !calls.is_empty() {
            line["tool_calls"] = calls.into();
        }
        self.line(&line)
    }

    /// Writes the reason for a missing reply as a line of JSON if the settings say so.
    ///
    /// # Errors
    /// As for [`Self::part`].
    pub(super) fn json_error(&mut self, why: &str, answer: &Answer, session: &str) -> Result<(), ChatError> {
        let why = self.struck(why);
        self.line(&json!({"id": answer.id, "session": session, "error": {"message": why}}))
    }

    /// The text with the key redacted.
    pub(super) fn struck(&self, text: &str) -> String {
        self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.redact(text).into_owned())
    }

    fn line(&mut self, line: &Value) -> Result<(), ChatError> {
        if self.manner.is_json {
            self.has_reader &= self.terminal.print_json_line(line)?;
        }
        Ok(())
    }

    fn reasoning(&mut self, piece: &str) -> Result<(), ChatError> {
        if piece.is_empty() {
            return Ok(());
        }
        let is_first = !std::mem::replace(&mut self.reply.has_reasoning, true);
        let before = if is_first && !self.manner.has_colours { REASONING } else { "" };
        let laid = self.reply.reasoning_words.push(&format!("{before}{piece}"));
        self.lay(&laid, !piece.ends_with('\n'), self.manner.has_colours)
    }

    fn say(&mut self, piece: &str) -> Result<(), ChatError> {
        let laid = self.reply.words.push(piece);
        if laid.is_empty() { Ok(()) } else { self.lay(&laid, !piece.ends_with('\n'), false) }
    }

    /// Writes laid-out text.
    fn lay(&mut self, laid: &str, is_within_line: bool, is_dim: bool) -> Result<(), ChatError> {
        self.has_reader &= self.terminal.print(laid, is_dim)?;
        self.reply.is_within_line = is_within_line;
        Ok(())
    }

    /// Writes an empty line between reasoning and reply.
    fn end_reasoning(&mut self) -> Result<(), ChatError> {
        let rest = self.reply.reasoning.end();
        self.reasoning(&rest)?;
        if std::mem::take(&mut self.reply.has_reasoning) {
            self.end_line()?;
            self.print("\n")?;
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), ChatError> {
        if self.reply.is_within_line { self.print("\n") } else { Ok(()) }
    }

    fn print(&mut self, text: &str) -> Result<(), ChatError> {
        self.lay(&printable(text), !text.ends_with('\n'), false)
    }
}
