//! What is shown: replies on standard output, everything else on standard error.
//!
//! I1. The key is in nothing of it, however a server cuts it into pieces. I2. Where a reply stops within a line, what comes next begins another
//! one.

use std::sync::Arc;

use clawrl_core::printable;
use clawrl_remote::{PartialCall, Secret, Strainer};
use serde_json::{Value, json};

use super::answer::{Answer, Part, call_json};
use super::error::ChatError;
use super::layout::{table, wrapped};
use super::terminal::Terminal;
use super::words::Words;

/// Before a message.
const PROMPT: &str = "> ";

/// What stands before reasoning that is not dimmed.
const REASONING: &str = "[reasoning] ";

/// How it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Manner {
    /// A person writes, and sees that it is their turn.
    pub(super) has_prompts: bool,
    /// Replies are lines of JSON.
    pub(super) is_json: bool,
    /// A person sees what the model thinks.
    pub(super) shows_reasoning: bool,
    /// The terminal may be told how bright it is.
    pub(super) has_colours: bool,
}

/// Where things are shown.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: Arc<dyn Terminal>,
    manner: Manner,
    key: Option<Secret>,
    reply: Shown,
    /// A reply was shown since the last prompt.
    has_replied: bool,
    has_reader: bool,
}

/// What is shown of a reply.
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

    /// Whether replies have a reader.
    pub(super) fn has_reader(&self) -> bool {
        self.has_reader
    }

    /// It is a person's turn.
    pub(super) fn prompt(&mut self) {
        if self.manner.has_prompts {
            let gap = if std::mem::take(&mut self.has_replied) { "\n" } else { "" };
            self.terminal.write(&format!("{gap}{PROMPT}"));
        }
    }

    /// Nothing was written at the prompt, and nothing will be.
    pub(super) fn end_prompt(&self) {
        if self.manner.has_prompts {
            self.terminal.write("\n");
        }
    }

    /// Tells a person something.
    pub(super) fn note(&self, text: &str) {
        self.terminal.note(&wrapped(&self.struck(text), self.terminal.note_columns(), 2));
    }

    /// Tells a person several things, each with its name.
    pub(super) fn table(&self, rows: &[(&str, String)]) {
        self.terminal.note(&self.struck(&table(rows, self.terminal.note_columns())));
    }

    /// A reply begins.
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

    /// A part of it has come.
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

    /// No more of it comes.
    ///
    /// # Errors
    /// As of [`Self::part`].
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

    /// A reply, as a line of JSON, where that is wanted.
    ///
    /// # Errors
    /// As of [`Self::part`].
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

    /// Why there is none, likewise.
    ///
    /// # Errors
    /// As of [`Self::part`].
    pub(super) fn json_error(&mut self, why: &str, answer: &Answer, session: &str) -> Result<(), ChatError> {
        let why = self.struck(why);
        self.line(&json!({"id": answer.id, "session": session, "error": {"message": why}}))
    }

    /// Without the key.
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

    /// Writes what is laid out for the terminal.
    fn lay(&mut self, laid: &str, is_within_line: bool, is_dim: bool) -> Result<(), ChatError> {
        self.has_reader &= self.terminal.print(laid, is_dim)?;
        self.reply.is_within_line = is_within_line;
        Ok(())
    }

    /// An empty line between what is thought and what is said.
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
