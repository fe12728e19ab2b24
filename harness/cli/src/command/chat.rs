//! `clawrl chat`: a terminal client of chat servers.

use std::path::PathBuf;
use std::sync::Arc;

use clawrl_chat::{ChatEnd, ChatRequest, talk};

use super::chat_key::{key, usual_file};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::results::ResultsArguments;

/// Chats with a server such as `clawrl serve`, and rates its answers.
///
/// Ctrl-C interrupts an answer. At the prompt, Ctrl-C and Ctrl-D end the conversation, and `/help` lists the commands.
/// If standard input is not a terminal, each line is a message or a command, and standard output contains only the
/// replies.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  clawrl chat\n  clawrl chat --message 'What is a monad?'\n  \
                        printf '%s\\n' 'Name a river.' '/bad one in Asia' | clawrl chat --json")]
pub(crate) struct Arguments {
    /// Base URL of the server's API.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:30000/v1")]
    pub(crate) base_url: String,
    /// File with `USER KEY`, or only the key, in its first line [default: $CLAWRL_KEY, or for a local server the file
    /// `keys` in `--data`].
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Name of the model [default: the first one that the server lists].
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Name of the session in the server's record [default: a new name].
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// System prompt.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Send this message, print the reply, and exit.
    #[arg(long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// Folder of the server's keys [default: chat/ in the results folder].
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) results: ResultsArguments,
    /// Print one line of JSON for each complete reply.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs until the input ends or a signal arrives.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    let request = ChatRequest {
        base_url: arguments.base_url.clone(),
        model: arguments.model.clone(),
        session: arguments.session.clone(),
        system: arguments.system.clone(),
        message: arguments.message.clone(),
        is_json: arguments.json,
        usual_key_file: usual_file(arguments),
    };
    request.check()?;
    let key = key(arguments)?;
    Ok(match talk(&request, key, Arc::new(log.clone()))? {
        ChatEnd::Done => Exit::Success,
        ChatEnd::Failed => Exit::Faulted,
        ChatEnd::Interrupted => Exit::Interrupted,
    })
}
