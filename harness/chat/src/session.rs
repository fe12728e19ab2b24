//! Runs a conversation: sends lines, shows answers.

use std::time::Duration;

use clawrl_remote::{ApiAnswer, ApiError, ApiEvent};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::answer::Answer;
use super::conversation::{Conversation, Question};
use super::error::ChatError;
use super::input::{Input, read};
use super::lines::{Line, Lines, Read};
use super::screen::Screen;
use super::server::{Models, Server};
use super::signals::{Signals, StopSignal};
use super::trouble::{is_missing, sentence};

/// Time limit for the server to close a session.
const CLOSING: Duration = Duration::from_secs(5);

/// A Ctrl-C within this time after an answer was meant to interrupt it.
const LATE: Duration = Duration::from_millis(500);

/// A running conversation.
#[derive(Debug)]
pub(super) struct ChatSession {
    pub(super) server: Server,
    pub(super) models: Models,
    /// Requested model.
    pub(super) model: String,
    /// Base URL of its server.
    pub(super) base_url: String,
    /// Version of the policy that answered last, if the server reports it.
    pub(super) version: Option<u64>,
    pub(super) conversation: Conversation,
    pub(super) screen: Screen,
    pub(super) signals: Signals,
    /// Whether a person types: errors are shown and the conversation continues.
    pub(super) is_interactive: bool,
    /// Whether a message or command failed.
    pub(super) has_failed: bool,
    /// Pasted lines that wait for the last one.
    pub(super) pasted: Vec<Line>,
    /// When the last answer was complete; `None` if it was interrupted.
    pub(super) answered: Option<Instant>,
}

/// How a conversation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatEnd {
    /// It ended normally.
    Done,
    /// Without a terminal: an answer is incomplete, or a command failed.
    Failed,
    /// A signal ended it.
    Interrupted,
}

/// How to continue after a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    End(ChatEnd),
}

/// Why an answer is incomplete.
enum Cut {
    StopSignal(StopSignal),
    Trouble(ApiError),
    /// Standard output has no reader.
    Unread,
    /// The answer cannot be written.
    Unwritten(ChatError),
}

impl From<ApiError> for Cut {
    fn from(error: ApiError) -> Self {
        Self::Trouble(error)
    }
}

impl ChatSession {
    /// Sends one message.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) async fn once(mut self, message: String) -> Result<ChatEnd, ChatError> {
        let question = self.conversation.question(message);
        let next = self.answer(question).await;
        self.close().await;
        Ok(match next? {
            Next::End(exit) => exit,
            Next::GoOn => self.exit(),
        })
    }

    /// Processes lines until the input ends.
    ///
    /// # Errors
    /// As for [`Self::once`].
    pub(super) async fn lines(mut self, mut lines: Lines) -> Result<ChatEnd, ChatError> {
        let ended = loop {
            match self.line(&mut lines).await {
                Ok(Next::GoOn) => {}
                Ok(Next::End(exit)) => break Ok(exit),
                Err(failure) => break Err(failure),
            }
        };
        self.close().await;
        ended
    }

    async fn line(&mut self, lines: &mut Lines) -> Result<Next, ChatError> {
        self.screen.prompt();
        let read_now = match self.signals.unless_heard(lines.next()).await {
            Ok(Some(line)) => line,
            Ok(None) => {
                self.screen.end_prompt();
                if !std::mem::take(&mut self.pasted).is_empty() {
                    self.wrong("what was pasted was not sent");
                }
                return Ok(Next::End(self.exit()));
            }
            Err(StopSignal::Interrupt) if !self.pasted.is_empty() => {
                self.pasted.clear();
                self.screen.end_prompt();
                self.screen.note("what was pasted is forgotten, and nothing was sent");
                return Ok(Next::GoOn);
            }
            Err(StopSignal::Interrupt) if self.is_late(Instant::now()) => {
                self.screen.end_prompt();
                self.screen.note("the answer had come to its end; Ctrl-C again ends the conversation");
                return Ok(Next::GoOn);
            }
            Err(heard) => {
                self.screen.end_prompt();
                return Ok(Next::End(self.exit_of(heard)));
            }
        };
        let line = match read_now {
            Read::Line(line) if self.pasted.is_empty() => line,
            // The unfinished last line of a paste, or an empty line.
            Read::Line(line) => {
                self.pasted.push(line);
                return self.send_pasted().await;
            }
            // A held Enter key.
            Read::Pasted(lines) if self.pasted.is_empty() && lines.iter().all(is_blank) => {
                return Ok(Next::GoOn);
            }
            Read::Pasted(lines) => {
                self.pasted.extend(lines);
                let count = self.pasted.len();
                // The terminal may show an unfinished line.
                self.screen.end_prompt();
                self.screen.note(&format!(
                    "{count} lines were pasted: Enter sends them as one message, Ctrl-C forgets them"
                ));
                return Ok(Next::GoOn);
            }
        };
        match line.map(|line| read(&line)) {
            Ok(Input::Nothing) => Ok(Next::GoOn),
            Ok(Input::Message(text)) => {
                let question = self.conversation.question(text);
                self.answer(question).await
            }
            Ok(Input::Command(command)) => self.obey(command).await,
            Ok(Input::Wrong(why)) => Ok(self.wrong(&why)),
            Err(why) => Ok(self.wrong(&format!("{why}; nothing was sent"))),
        }
    }

    /// Sends pasted lines as one message, even if they look like commands.
    async fn send_pasted(&mut self) -> Result<Next, ChatError> {
        let lines: Result<Vec<String>, &str> = std::mem::take(&mut self.pasted).into_iter().collect();
        match lines {
            Ok(lines) => {
                let question = self.conversation.question(lines.join("\n").trim_end().to_owned());
                self.answer(question).await
            }
            Err(why) => Ok(self.wrong(&format!("{why}; nothing was sent"))),
        }
    }

    /// Sends a question and shows the answer.
    ///
    /// # Errors
    /// As for [`Self::once`].
    pub(super) async fn answer(&mut self, question: Question) -> Result<Next, ChatError> {
        self.answered = None;
        let messages = self.conversation.asked(&question);
        let session = self.conversation.session();
        let mut answer = Answer::default();
        self.screen.begin();
        let tells_version = self.is_interactive && !self.models.is_foreign;
        let known = if tells_version { self.version } else { None };
        let asking =
            ask(&self.server, (session, &self.model), &messages, (&mut answer, &mut self.screen), known);
        let asked =
            self.signals.unless_heard(asking).await.unwrap_or_else(|heard| Err(Cut::StopSignal(heard)));
        self.conversation.begun(&answer);
        self.version = answer.version.or(self.version);
        self.screen.end(&answer)?;
        let why = match asked {
            Ok(()) => {
                self.conversation.answered(question, &answer);
                self.answered = Some(Instant::now());
                self.screen.json(&answer, self.conversation.session())?;
                if let Some(note) = remark(&answer) {
                    self.screen.note(note);
                }
                return Ok(self.unless_unread());
            }
            Err(Cut::Unread) => return Ok(Next::End(self.exit())),
            Err(Cut::Unwritten(failure)) => return Err(failure),
            Err(Cut::StopSignal(StopSignal::Interrupt)) if self.is_interactive => {
                self.conversation.failed(question);
                self.screen.note("cut; /retry asks again");
                return Ok(Next::GoOn);
            }
            Err(Cut::StopSignal(_)) => {
                self.screen.json_error("the answer was cut here", &answer, self.conversation.session())?;
                return Ok(Next::End(ChatEnd::Interrupted));
            }
            Err(Cut::Trouble(error)) => sentence(&error),
        };
        self.conversation.failed(question);
        self.screen.json_error(&why, &answer, self.conversation.session())?;
        self.wrong(&why);
        Ok(self.unless_unread())
    }

    /// Reports a failure.
    pub(super) fn wrong(&mut self, why: &str) -> Next {
        self.has_failed = true;
        self.screen.note(why);
        Next::GoOn
    }

    /// Closes the session at the server if the server knows it.
    pub(super) async fn close(&mut self) {
        if !self.conversation.is_known() || self.models.is_foreign {
            return;
        }
        let closing = timeout(CLOSING, self.server.close(self.conversation.session()));
        let why = match self.signals.unless_heard(closing).await {
            // A second signal ends the wait; without a recorded turn, the server has no session to close.
            Err(_) | Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(error))) if is_missing(&error) => return,
            Ok(Ok(Err(error))) => error.to_string().split("; ").next().unwrap_or_default().to_owned(),
            Ok(Err(_)) => format!("the server did not answer within {} s", CLOSING.as_secs()),
        };
        self.screen
            .note(&format!("the session was not closed, and ends by itself once it has rested: {why}"));
    }

    /// The result of a conversation that ended normally.
    pub(super) fn exit(&self) -> ChatEnd {
        if self.has_failed && !self.is_interactive { ChatEnd::Failed } else { ChatEnd::Done }
    }

    /// Handles a signal during a command.
    pub(super) fn stopped(&mut self, heard: StopSignal) -> Next {
        if heard == StopSignal::Interrupt && self.is_interactive {
            return self.wrong("not waited for any longer");
        }
        Next::End(ChatEnd::Interrupted)
    }

    /// The result for a signal; Ctrl-C at the prompt is a normal end.
    fn exit_of(&self, heard: StopSignal) -> ChatEnd {
        if heard == StopSignal::Interrupt && self.is_interactive {
            ChatEnd::Done
        } else {
            ChatEnd::Interrupted
        }
    }

    /// Whether a Ctrl-C at `now` was meant for the last answer; true at most once per answer.
    fn is_late(&mut self, now: Instant) -> bool {
        let answered = self.answered.take();
        self.is_interactive && is_late(answered, now)
    }

    fn unless_unread(&self) -> Next {
        if self.screen.has_reader() { Next::GoOn } else { Next::End(self.exit()) }
    }
}

fn is_blank(line: &Line) -> bool {
    line.as_ref().is_ok_and(|line| line.trim().is_empty())
}

/// Requests an answer and shows it as it arrives.
async fn ask(
    server: &Server,
    (session, model): (&str, &str),
    messages: &[Value],
    (answer, screen): (&mut Answer, &mut Screen),
    known: Option<u64>,
) -> Result<(), Cut> {
    let mut show = |answer: &mut Answer, chunk: &Value| {
        let is_first = answer.version.is_none();
        let parts = answer.take(chunk);
        if let (true, Some(known), Some(now)) = (is_first, known, answer.version)
            && known != now
        {
            screen.note(&format!("version {now} answers now, after version {known}; /status tells more"));
        }
        for part in parts {
            screen.part(&part).map_err(Cut::Unwritten)?;
        }
        if screen.has_reader() { Ok(()) } else { Err(Cut::Unread) }
    };
    match server.ask(session, model, messages).await? {
        ApiAnswer::Whole(value) => {
            show(answer, &value)?;
            whole_if(answer.is_whole(), "what the server answers is no answer to a chat")
        }
        ApiAnswer::Events(mut events) => {
            while let Some(event) = events.next().await? {
                match event {
                    ApiEvent::Chunk(chunk) => show(answer, &chunk)?,
                    ApiEvent::Done => {
                        events.drain().await;
                        return Ok(());
                    }
                }
            }
            // Some servers omit the final `[DONE]`.
            whole_if(answer.is_whole(), "the answer broke off in its middle")
        }
    }
}

fn whole_if(is_whole: bool, message: &str) -> Result<(), Cut> {
    let error = || ApiError::Trouble { code: "stream-cut", message: message.to_owned() };
    if is_whole { Ok(()) } else { Err(Cut::Trouble(error())) }
}

/// Whether a signal at `now` was meant for an answer that ended at `answered`.
fn is_late(answered: Option<Instant>, now: Instant) -> bool {
    answered.is_some_and(|then| now.duration_since(then) < LATE)
}

/// A remark on properties of an answer that its text does not show.
fn remark(answer: &Answer) -> Option<&'static str> {
    match answer.finish.as_deref() {
        Some("length") => Some("the answer was cut by the server's limit of tokens"),
        Some("content_filter") => Some("the answer was ended by the server's filter"),
        _ if !answer.calls().is_empty() => Some("this client has no tools: the call was not run"),
        _ if answer.text.trim().is_empty() => Some("the answer is empty"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_comes_soon_behind_an_answer_was_meant_for_it() {
        let then = Instant::now();
        let check = |answered, millis, expected| {
            assert_eq!(is_late(answered, then + Duration::from_millis(millis)), expected, "{millis}");
        };
        check(Some(then), 0, true);
        check(Some(then), 499, true);
        check(Some(then), 500, false);
        check(None, 0, false);
    }

    #[test]
    fn what_does_not_show_is_remarked() {
        let check = |message: serde_json::Value, finish: &str, expected: Option<&str>| {
            let mut answer = Answer::default();
            answer.take(&json!({"choices": [{"message": message, "finish_reason": finish}]}));
            let found = remark(&answer);
            assert_eq!(found.is_some(), expected.is_some(), "{message} {finish}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{found:?}");
        };
        check(json!({"content": "a"}), "stop", None);
        check(json!({"content": "a"}), "length", Some("limit of tokens"));
        check(json!({"content": " "}), "stop", Some("empty"));
        check(json!({"content": ""}), "content_filter", Some("filter"));
        check(json!({"tool_calls": [{"id": "a", "function": {"name": "f"}}]}), "tool_calls", Some("not run"));
    }
}
