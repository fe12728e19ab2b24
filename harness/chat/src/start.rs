//! From arguments to a conversation: everything that can be known to be wrong before a word is said.

use std::io::IsTerminal;

use clawrl_core::check_base_url;
use clawrl_remote::{ApiClient, ApiError, RemoteError, Secret};
use tokio::runtime::Builder;

use super::commands::listed;
use super::conversation::Conversation;
use super::key::{key, usual_file};
use super::lines::Lines;
use super::screen::{Manner, Screen};
use super::server::{Models, Server};
use super::signals::Signals;
use super::talk::Talk;
use super::trouble::{KEY_HELP, START_HELP, is_missing};
use crate::command::chat::Arguments;
use crate::environment::Variable;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;

/// Talks.
///
/// # Errors
/// What keeps the conversation from beginning, or replies from being written.
pub(crate) fn talk(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    check(arguments)?;
    let key = key(arguments)?;
    let api = ApiClient::new(&arguments.base_url, key.clone()).map_err(|error| match error {
        RemoteError::Certificates(_) => Failure::new(Exit::Environment, error.to_string()),
        RemoteError::Settings(_) => Failure::new(Exit::Refused, error.to_string()),
    })?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| unprepared(&error))?;
    let ended = runtime.block_on(begin(arguments, log, api, key));
    // A name that is still being looked up is waited for by nobody.
    runtime.shutdown_background();
    ended
}

async fn begin(
    arguments: &Arguments,
    log: &Log,
    api: ApiClient,
    key: Option<Secret>,
) -> Result<Exit, Failure> {
    let mut signals = Signals::register().map_err(|error| unprepared(&error))?;
    let server = Server::new(api);
    let has_key = key.is_some();
    let Ok(models) = signals.unless_heard(server.models()).await else { return Ok(Exit::Interrupted) };
    let models = match models {
        Ok(models) => models,
        // Whoever names the model can do without the list.
        Err(error) if arguments.model.is_some() && may_do_without_list(&error) => {
            Models { is_foreign: is_missing(&error), ..Models::default() }
        }
        Err(error) => return Err(no_server(arguments, &error, has_key)),
    };
    let model = model(arguments, &models)?;
    let session = match &arguments.session {
        Some(name) => name.clone(),
        None => fresh_session()?,
    };
    let is_interactive = arguments.message.is_none() && std::io::stdin().is_terminal();
    let is_seen = std::io::stdout().is_terminal();
    let manner = Manner {
        has_prompts: is_interactive && log.is_terminal(),
        is_json: arguments.json,
        shows_reasoning: is_seen,
        has_colours: is_seen && Variable::NoColor.value().is_none(),
    };
    let screen = Screen::new(log.clone(), manner, key);
    if is_interactive {
        let url = &arguments.base_url;
        screen.note(&format!("`{model}` at {url}, session {session}\n/help lists the commands, Ctrl-D ends"));
    }
    let mut version = None;
    if is_interactive && !models.is_foreign {
        let Ok(standing) = signals.unless_heard(server.standing()).await else {
            return Ok(Exit::Interrupted);
        };
        // A server that does not say it may answer all the same.
        let standing = standing.unwrap_or_default();
        version = standing.version;
        if let Some(trouble) = standing.trouble {
            screen.note(&trouble);
        }
    }
    let conversation = Conversation::new(session, arguments.system.clone());
    let talk = Talk {
        server,
        models,
        model,
        base_url: arguments.base_url.clone(),
        version,
        conversation,
        screen,
        signals,
        is_interactive,
        has_failed: false,
        pasted: Vec::new(),
        answered: None,
    };
    match &arguments.message {
        Some(message) => talk.once(message.clone()).await,
        None => talk.lines(Lines::begin().map_err(|error| unprepared(&error))?).await,
    }
}

/// A name that no other session has.
///
/// # Errors
/// The system gives no random numbers.
pub(super) fn fresh_session() -> Result<String, Failure> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::new(Exit::Environment, format!("the system gives no random numbers: {error}"))
    })?;
    Ok(format!("chat-{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

fn check(arguments: &Arguments) -> Result<(), Failure> {
    check_base_url(&arguments.base_url)
        .map_err(|bad| Failure::with_help(Exit::Refused, format!("--base-url: {bad}"), bad.help))?;
    let refused = |message: &str, help: &str| Err(Failure::with_help(Exit::Refused, message, help));
    let is_blank = |text: &Option<String>| text.as_ref().is_some_and(|text| text.trim().is_empty());
    if is_blank(&arguments.message) {
        return refused("`--message` is empty", "leave it out to be asked for messages");
    }
    if is_blank(&arguments.model) {
        return refused("`--model` is empty", "leave it out for the first model that the server lists");
    }
    // It goes into a header, around which white space does not count.
    let fits = |name: &String| {
        name.trim() == name && !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() || c == ' ')
    };
    if arguments.session.as_ref().is_some_and(|name| !fits(name)) {
        let help = "name it with letters, digits and signs of ASCII, as in `--session taxes-2026`";
        return refused("`--session` is no name that a header can carry", help);
    }
    Ok(())
}

/// Who is asked.
fn model(arguments: &Arguments, models: &Models) -> Result<String, Failure> {
    match (&arguments.model, models.names.first()) {
        (Some(name), Some(_)) if !models.is_foreign && !models.names.contains(name) => {
            let message = format!("there is no model `{name}`");
            Err(Failure::with_help(Exit::Refused, message, format!("there is {}", listed(&models.names))))
        }
        (Some(name), _) | (None, Some(name)) => Ok(name.clone()),
        (None, None) => {
            let help = "name the one to ask with `--model NAME`";
            Err(Failure::with_help(Exit::Refused, "the server lists no model", help))
        }
    }
}

fn may_do_without_list(error: &ApiError) -> bool {
    match error {
        ApiError::Refused { status, .. } => !matches!(status, 401 | 403),
        ApiError::Ended(_) => true,
        ApiError::Trouble { code, .. } => *code == "url-wrong",
    }
}

/// Why there is no conversation.
fn no_server(arguments: &Arguments, error: &ApiError, has_key: bool) -> Failure {
    let url = &arguments.base_url;
    match error {
        ApiError::Refused { status: 401, message, .. } if has_key => Failure::with_help(
            Exit::Refused,
            format!("the server at {url} refuses the key ({message})"),
            KEY_HELP,
        ),
        ApiError::Refused { status: 401, message, .. } => {
            let help = format!("none was found in {}: {KEY_HELP}", usual_file(arguments).display());
            let message = format!("the server at {url} wants a key, and none was sent ({message})");
            Failure::with_help(Exit::Refused, message, help)
        }
        _ if is_missing(error) => {
            let help = "the base URL usually ends with `/v1`; for a server without a list of models, name one with `--model NAME`";
            Failure::with_help(Exit::Refused, format!("there is no list of models at {url}: {error}"), help)
        }
        ApiError::Trouble { code: "server-unreachable", message } => {
            let message = message.split("; ").next().unwrap_or(message);
            Failure::with_help(Exit::Environment, format!("no server at {url}: {message}"), START_HELP)
        }
        ApiError::Refused { status: 403, message, .. } => {
            Failure::new(Exit::Refused, format!("the server at {url} refuses the request: {message}"))
        }
        _ => Failure::new(Exit::Environment, format!("the server at {url} cannot be talked to: {error}")),
    }
}

fn unprepared(error: &std::io::Error) -> Failure {
    Failure::with_help(
        Exit::Environment,
        format!("the conversation cannot begin: {error}"),
        "raise `ulimit -u` and `ulimit -n`",
    )
}
