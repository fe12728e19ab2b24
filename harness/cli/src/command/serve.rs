//! `clawrl serve`: chat with a policy, over OpenAI's interface.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::results::ResultsArguments;

/// Serves a policy to chat clients, over OpenAI's interface, records what is said, and learns from it.
///
/// Ctrl-C lets answers that have begun come to their end; a second one cuts them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  clawrl serve results/runs/RUN/checkpoints/000050/model\n  clawrl serve results/runs/RUN/checkpoints/000050/model --learn chat.yaml\n  clawrl serve policy.yaml\n  \
                        curl -N http://127.0.0.1:30000/v1/chat/completions -H \"Authorization: Bearer $KEY\" \\\n    \
                        -d '{\"stream\": true, \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}'"
)]
pub(crate) struct Arguments {
    /// The folder of a model or of an adapter, in the format of Hugging Face; or a policy file (.yaml), whose server is asked.
    #[arg(value_name = "FOLDER_OR_FILE")]
    pub(crate) policy: PathBuf,
    /// Where to listen; port 0 takes any that is free.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:30000")]
    pub(crate) listen: SocketAddr,
    /// The name by which clients ask for the policy.
    #[arg(long, value_name = "NAME", default_value = "clawrl")]
    pub(crate) name: String,
    /// Folder of the keys and of what is recorded [default: chat/ in the results folder].
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// A name of this server beside 127.0.0.1 and localhost, as clients write it: HOST, or HOST:PORT.
    #[arg(long = "allow-host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// A chat file (.yaml) that says how chat is learned from, or `off` [default: combined, by what people say and by rules].
    #[arg(long, value_name = "FILE|off")]
    pub(crate) learn: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) results: ResultsArguments,
    /// Print where it listens as JSON, and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Does it.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    crate::chat::serve(arguments, log)
}
