//! `clawrl serve`: serves a policy through an OpenAI-compatible API.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clawrl_runtime::ServerChoice;
use clawrl_serve::{ServeEnd, ServeEvents, ServeRequest, serve};

use super::serve_report::ServeReport;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::plan_request::{base_url, key_env};
use crate::results::ResultsArguments;
use crate::training::LinkedModels;

/// Serves a policy through an OpenAI-compatible API, records conversations, and learns from feedback.
///
/// After Ctrl-C, answers in progress finish; a second Ctrl-C cuts them off.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  clawrl serve results/runs/RUN/checkpoints/000050/model\n  clawrl serve results/runs/RUN/checkpoints/000050/model --learn chat.yaml\n  clawrl serve policy.yaml\n  \
                        clawrl serve openai:MODEL --base-url http://127.0.0.1:8080/v1 --key-env none\n  \
                        curl -N http://127.0.0.1:30000/v1/chat/completions -H \"Authorization: Bearer $KEY\" \\\n    \
                        -d '{\"stream\": true, \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}'"
)]
pub(crate) struct Arguments {
    /// Folder of a model or adapter in the Hugging Face format; policy file (.yaml) of a model behind a server; or
    /// openai:MODEL, a model behind the server at --base-url.
    #[arg(value_name = "POLICY")]
    pub(crate) policy: PathBuf,
    /// With openai:MODEL: URL of the server, including /v1, such as http://localhost:11434/v1 [default: OpenAI's].
    #[arg(long, value_name = "URL", value_parser = base_url)]
    pub(crate) base_url: Option<String>,
    /// With openai:MODEL: environment variable with the key, or `none` [default: OPENAI_API_KEY, if set].
    #[arg(long, value_name = "NAME", value_parser = key_env)]
    pub(crate) key_env: Option<String>,
    /// Address to listen on: an address with a port, or a port of 127.0.0.1; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:30000", value_parser = listen)]
    pub(crate) listen: SocketAddr,
    /// Model name that clients request.
    #[arg(long, value_name = "NAME", default_value = "clawrl")]
    pub(crate) name: String,
    /// Folder of keys and records [default: chat/ in the results folder].
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Another host name that clients may use besides 127.0.0.1 and localhost: HOST or HOST:PORT.
    #[arg(long = "allow-host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// Chat file (.yaml) with the settings of learning, or `off` [default: objective `combined`, from user feedback and
    /// rules].
    #[arg(long, value_name = "FILE|off")]
    pub(crate) learn: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) results: ResultsArguments,
    /// Print only the address, as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Serves until a signal ends it.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    let request = ServeRequest {
        policy: arguments.policy.clone(),
        server: ServerChoice { base_url: arguments.base_url.clone(), key_env: arguments.key_env.clone() },
        listen: arguments.listen,
        name: arguments.name.clone(),
        data: arguments.data.clone(),
        hosts: arguments.hosts.clone(),
        learn: arguments.learn.clone(),
        results: arguments.results.dir(),
    };
    let report: Arc<dyn ServeEvents> = Arc::new(ServeReport::new(arguments, log.clone()));
    match serve(&request, &LinkedModels, &report)? {
        ServeEnd::Drained => Ok(Exit::Success),
        ServeEnd::Cut => Ok(Exit::Interrupted),
    }
}

/// Parses the address to listen on.
fn listen(text: &str) -> Result<SocketAddr, String> {
    let text = text.strip_prefix("http://").unwrap_or(text);
    let named = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
    if !named.is_empty() && named.bytes().all(|byte| byte.is_ascii_digit()) {
        let port = named.parse().map_err(|_| format!("{named} is no port: ports are from 0 to 65535"))?;
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    text.parse().map_err(|_| match text.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_err() => {
            format!("`{port}` is no port: ports are from 0 to 65535, as in 127.0.0.1:30000")
        }
        Some(_) => "write the address in numbers, as in 127.0.0.1:30000 or [::1]:30000".to_owned(),
        None => "write an address with a port, as in 127.0.0.1:30000, or a port, as in 30000".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let check = |text: &str, expected: Result<&str, &str>| match (listen(text), expected) {
            (Ok(address), Ok(expected)) => assert_eq!(address.to_string(), expected, "{text}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
            (got, expected) => panic!("{text}: {got:?}, not {expected:?}"),
        };
        check("127.0.0.1:30000", Ok("127.0.0.1:30000"));
        check("[::1]:30000", Ok("[::1]:30000"));
        check("30001", Ok("127.0.0.1:30001"));
        check(":0", Ok("127.0.0.1:0"));
        check("localhost:30001", Ok("127.0.0.1:30001"));
        check("http://127.0.0.1:30001", Ok("127.0.0.1:30001"));
        check("99999", Err("99999 is no port"));
        check("127.0.0.1:99999", Err("`99999` is no port"));
        check("my-host:30000", Err("in numbers"));
        check("127.0.0.1", Err("with a port"));
        check("", Err("with a port"));
    }
}
