//! Runs the commands.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::error::ChatError;
use super::input::{Command, help};
use super::server::Feedback;
use super::session::{ChatSession, Next};
use super::start::fresh_session;
use super::trouble::is_missing;

/// Prefix of a correction in the record.
const CORRECTION: &str = "The answer should have been: ";

impl ChatSession {
    /// Runs the command.
    ///
    /// # Errors
    /// Standard output cannot be written, or the system gives no random numbers.
    pub(super) async fn obey(&mut self, command: Command) -> Result<Next, ChatError> {
        match command {
            Command::Good => Ok(self.judge(Feedback { is_good: true, text: None }).await),
            Command::Bad(text) => Ok(self.judge(Feedback { is_good: false, text }).await),
            Command::Fix(text) => {
                let text = Some(format!("{CORRECTION}{text}"));
                Ok(self.judge(Feedback { is_good: false, text }).await)
            }
            Command::Retry => match self.conversation.again() {
                Some(question) => self.answer(question).await,
                None => Ok(self.wrong("there is no message yet to ask again")),
            },
            Command::New => {
                self.close().await;
                self.conversation.renew(fresh_session()?);
                self.screen.note(&format!("a new conversation, in session {}", self.conversation.session()));
                Ok(Next::GoOn)
            }
            Command::Status => Ok(self.tell_status().await),
            Command::Train => Ok(self.train().await),
            Command::RollBack(version) => Ok(self.roll_back(version).await),
            Command::Model(None) => Ok(self.tell_models().await),
            Command::Model(Some(name)) => Ok(self.take_model(name).await),
            Command::Save(file) => Ok(self.save(&file)),
            Command::Help => {
                self.screen.table(&help());
                Ok(Next::GoOn)
            }
            Command::Quit => Ok(Next::End(self.exit())),
        }
    }

    async fn judge(&mut self, feedback: Feedback) -> Next {
        let Some(answer) = self.conversation.last() else {
            return self.wrong("there is no answer yet to judge");
        };
        match self.signals.unless_heard(self.server.judge(answer, &feedback)).await {
            Ok(Ok(())) => {
                let rating = if feedback.is_good { "good" } else { "bad" };
                let words = if feedback.text.is_some() { ", with your words" } else { "" };
                self.screen.note(&format!("noted as {rating}{words}"));
                Next::GoOn
            }
            Ok(Err(error)) if is_missing(&error) && self.models.is_foreign => {
                self.wrong("this server takes no feedback: it is not `clawrl serve`")
            }
            Ok(Err(error)) => self.wrong(&format!("the feedback was not taken: {error}")),
            Err(heard) => self.stopped(heard),
        }
    }

    async fn tell_models(&mut self) -> Next {
        match self.signals.unless_heard(self.server.models()).await {
            Ok(Ok(models)) => {
                self.screen.note(&format!(
                    "`{}` answers; the server has {}",
                    self.model,
                    listed(&models.names)
                ));
                Next::GoOn
            }
            Ok(Err(error)) => {
                let told = format!("`{}` answers; the server tells no models: {error}", self.model);
                self.wrong(&told)
            }
            Err(heard) => self.stopped(heard),
        }
    }

    async fn take_model(&mut self, name: String) -> Next {
        let models = match self.signals.unless_heard(self.server.models()).await {
            Ok(models) => models.unwrap_or_default(),
            Err(heard) => return self.stopped(heard),
        };
        let is_listed = models.names.contains(&name);
        // The list of `clawrl serve` is complete; other servers omit models that they could load.
        if !is_listed && !models.is_foreign && !models.names.is_empty() {
            let why = format!("there is no model `{name}`; there is {}", listed(&models.names));
            return self.wrong(&why);
        }
        let doubt = if is_listed { "" } else { ", which the server does not list" };
        self.screen.note(&format!("`{name}` answers from now on{doubt}"));
        self.model = name;
        Next::GoOn
    }

    fn save(&mut self, file: &Path) -> Next {
        let messages = self.conversation.messages();
        let count = messages.len();
        let text = serde_json::to_string_pretty(&messages).unwrap_or_default() + "\n";
        let text = self.screen.struck(&text);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
        match made.and_then(|mut file| file.write_all(text.as_bytes())) {
            Ok(()) => {
                self.screen.note(&format!("{count} messages are in {}", file.display()));
                Next::GoOn
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.wrong(&format!("{} is there already, and stays as it is", file.display()))
            }
            Err(error) => self.wrong(&format!("{} cannot be written: {error}", file.display())),
        }
    }
}

/// Names of models, for a sentence.
pub(super) fn listed(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
