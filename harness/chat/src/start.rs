//! Starts a conversation after all checks that are possible before the first message.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use clawrl_core::check_base_url;
use clawrl_remote::{ApiClient, ApiError, RemoteError, Secret};
use tokio::runtime::Builder;

use super::commands::listed;
use super::conversation::Conversation;
use super::error::ChatError;
use super::lines::Lines;
use super::screen::{Manner, Screen};
use super::server::{Models, Server};
use super::session::{ChatEnd, ChatSession};
use super::signals::Signals;
use super::terminal::Terminal;
use super::trouble::{KEY_HELP, START_HELP, is_missing};

/// Request for a conversation.
#[derive(Debug)]
pub struct ChatRequest {
    /// Base URL of the server's API.
    pub base_url: String,
    /// The model to ask. `None`: the first one that the server lists.
    pub model: Option<String>,
    /// Name of the session in the server's record. `None`: a new one.
    pub session: Option<String>,
    /// The system prompt.
    pub system: Option<String>,
    /// The only message. `None`: lines of standard input.
    pub message: Option<String>,
    /// Whether replies are written as lines of JSON.
    pub is_json: bool,
    /// Default key file, named in advice.
    pub usual_key_file: PathBuf,
}

impl ChatRequest {
    /// Checks what can be checked without the server.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn check(&self) -> Result<(), ChatError> {
        check(self)
    }
}

/// Runs a conversation over standard input until the input or a signal ends it. Blocks.
///
/// # Errors
/// The conversation cannot start, or replies cannot be written.
pub fn talk(
    request: &ChatRequest,
    key: Option<Secret>,
    terminal: Arc<dyn Terminal>,
) -> Result<ChatEnd, ChatError> {
    check(request)?;
    let api = ApiClient::new(&request.base_url, key.clone()).map_err(|error| match error {
        RemoteError::Certificates(_) => ChatError::unavailable(error.to_string()),
        RemoteError::Settings(_) => ChatError::refused(error.to_string()),
    })?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| unprepared(&error))?;
    let ended = runtime.block_on(begin(request, terminal, api, key));
    // Name lookups that are still running are abandoned.
    runtime.shutdown_background();
    ended
}

async fn begin(
    request: &ChatRequest,
    terminal: Arc<dyn Terminal>,
    api: ApiClient,
    key: Option<Secret>,
) -> Result<ChatEnd, ChatError> {
    let mut signals = Signals::register().map_err(|error| unprepared(&error))?;
    let server = Server::new(api);
    let has_key = key.is_some();
    let Ok(models) = signals.unless_heard(server.models()).await else { return Ok(ChatEnd::Interrupted) };
    let models = match models {
        Ok(models) => models,
        // With a named model the list is not needed.
        Err(error) if request.model.is_some() && may_do_without_list(&error) => {
            Models { is_foreign: is_missing(&error), ..Models::default() }
        }
        Err(error) => return Err(no_server(request, &error, has_key)),
    };
    let model = model(request, &models)?;
    let session = match &request.session {
        Some(name) => name.clone(),
        None => fresh_session()?,
    };
    let is_interactive = request.message.is_none() && std::io::stdin().is_terminal();
    let is_seen = std::io::stdout().is_terminal();
    let manner = Manner {
        has_prompts: is_interactive && terminal.has_notes_on_terminal(),
        is_json: request.is_json,
        shows_reasoning: is_seen,
        has_colours: is_seen && terminal.has_colours(),
    };
    let screen = Screen::new(terminal, manner, key);
    if is_interactive {
        let url = &request.base_url;
        screen.note(&format!("`{model}` at {url}, session {session}\n/help lists the commands, Ctrl-D ends"));
    }
    let mut version = None;
    if is_interactive && !models.is_foreign {
        let Ok(standing) = signals.unless_heard(server.standing()).await else {
            return Ok(ChatEnd::Interrupted);
        };
        // A server without this report may still answer.
        let standing = standing.unwrap_or_default();
        version = standing.version;
        if let Some(trouble) = standing.trouble {
            screen.note(&trouble);
        }
    }
    let conversation = Conversation::new(session, request.system.clone());
    let talk = ChatSession {
        server,
        models,
        model,
        base_url: request.base_url.clone(),
        version,
        conversation,
        screen,
        signals,
        is_interactive,
        has_failed: false,
        pasted: Vec::new(),
        answered: None,
    };
    match &request.message {
        Some(message) => talk.once(message.clone()).await,
        None => talk.lines(Lines::begin().map_err(|error| unprepared(&error))?).await,
    }
}

/// A unique session name.
///
/// # Errors
/// The system has no random numbers.
pub(super) fn fresh_session() -> Result<String, ChatError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| ChatError::unavailable(format!("the system gives no random numbers: {error}")))?;
    Ok(format!("chat-{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

fn check(request: &ChatRequest) -> Result<(), ChatError> {
    check_base_url(&request.base_url)
        .map_err(|bad| ChatError::refused(format!("--base-url: {bad}")).with_help(bad.help))?;
    let refused = |message: &str, help: &str| Err(ChatError::refused(message).with_help(help));
    let is_blank = |text: &Option<String>| text.as_ref().is_some_and(|text| text.trim().is_empty());
    if is_blank(&request.message) {
        return refused("`--message` is empty", "leave it out to be asked for messages");
    }
    if is_blank(&request.model) {
        return refused("`--model` is empty", "leave it out for the first model that the server lists");
    }
    // The name goes into a header, which loses surrounding white space.
    let fits = |name: &String| {
        name.trim() == name && !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() || c == ' ')
    };
    if request.session.as_ref().is_some_and(|name| !fits(name)) {
        let help = "name it with letters, digits and signs of ASCII, as in `--session taxes-2026`";
        return refused("`--session` is no name that a header can carry", help);
    }
    Ok(())
}

/// Chooses the model.
fn model(request: &ChatRequest, models: &Models) -> Result<String, ChatError> {
    match (&request.model, models.names.first()) {
        (Some(name), Some(_)) if !models.is_foreign && !models.names.contains(name) => {
            let message = format!("there is no model `{name}`");
            Err(ChatError::refused(message).with_help(format!("there is {}", listed(&models.names))))
        }
        (Some(name), _) | (None, Some(name)) => Ok(name.clone()),
        (None, None) => {
            let help = "name the one to ask with `--model NAME`";
            Err(ChatError::refused("the server lists no model").with_help(help))
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

/// The error for an unreachable server.
fn no_server(request: &ChatRequest, error: &ApiError, has_key: bool) -> ChatError {
    let url = &request.base_url;
    match error {
        ApiError::Refused { status: 401, message, .. } if has_key => {
            ChatError::refused(format!("the server at {url} refuses the key ({message})")).with_help(KEY_HELP)
        }
        ApiError::Refused { status: 401, message, .. } => {
            let help = format!("none was found in {}: {KEY_HELP}", request.usual_key_file.display());
            let message = format!("the server at {url} wants a key, and none was sent ({message})");
            ChatError::refused(message).with_help(help)
        }
        _ if is_missing(error) => {
            let help = "the base URL usually ends with `/v1`; for a server without a list of models, name one with `--model NAME`";
            ChatError::refused(format!("there is no list of models at {url}: {error}")).with_help(help)
        }
        ApiError::Trouble { code: "server-unreachable", message } => {
            let message = message.split("; ").next().unwrap_or(message);
            ChatError::unavailable(format!("no server at {url}: {message}")).with_help(START_HELP)
        }
        ApiError::Refused { status: 403, message, .. } => {
            ChatError::refused(format!("the server at {url} refuses the request: {message}"))
        }
        _ => ChatError::unavailable(format!("the server at {url} cannot be talked to: {error}")),
    }
}

fn unprepared(error: &std::io::Error) -> ChatError {
    ChatError::unavailable(format!("the conversation cannot begin: {error}"))
        .with_help("raise `ulimit -u` and `ulimit -n`")
}
