//! `clawrl chat`: a conversation with a server of chat, in the terminal.

use std::path::PathBuf;
use std::sync::Arc;

use clawrl_chat::{ChatEnd, ChatRequest, talk};

use super::chat_key::{key, usual_file};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::results::ResultsArguments;

/// Talks to a server of chat, such as `clawrl serve`, and says what is good and bad about its answers.
///
/// Ctrl-C cuts an answer; at the prompt, it ends the conversation, as Ctrl-D does. `/help` lists the commands there. Where standard input
/// is no terminal, each of its lines is a message or a command, and standard output has the replies alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  clawrl chat\n  clawrl chat --message 'What is a monad?'\n  \
                        printf '%s\\n' 'Name a river.' '/bad one in Asia' | clawrl chat --json")]
pub(crate) struct Arguments {
    /// Where the server's API is.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:30000/v1")]
    pub(crate) base_url: String,
    /// File of the key, `USER KEY` or the key alone in its first line [default: $CLAWRL_KEY, or for a server of this machine the
    /// file `keys` of `--data`].
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// The model to ask for [default: the first one that the server lists].
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Name of the session in the server's record [default: a fresh one].
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// A system prompt.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Ask this, print the reply, and end.
    #[arg(long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// Folder of the server's keys [default: chat/ in the results folder].
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) results: ResultsArguments,
    /// Print a line of JSON for each reply, when it has ended.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Talks until the input or a signal ends it.
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
