//! Checks before a run that the server is reachable, accepts the key and has the model.
//!
//! `GET models` answers all of this at no cost. If a server has no such list, or the model is not in it (aliases, adapters
//! and models loaded on demand are not listed), a reply of a few tokens decides.
//!
//! Errors: [`PreflightError`]. Cancellation: dropping the future closes the connection.

use std::time::Duration;

use clawrl_core::{Message, Role};
use serde_json::Value;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use crate::backoff;
use crate::exchange::{ReplyReader, Until};
use crate::images::Images;
use crate::openai_request::Asked;
use crate::policy::{RemotePolicy, body_of};
use crate::server_text::server_text;
use crate::trouble::Trouble;

/// Timeout for all checks. A server that first loads the model needs most of it.
const TIME: Duration = Duration::from_secs(120);

/// Requests of each kind. A server that is just starting gets a second; a run can be started again.
const TRIES: u32 = 3;

/// Tokens of the deciding reply: some servers refuse fewer.
const TOKENS: u32 = 16;

/// Maximum number of models to list if the requested one is missing.
const LISTED: usize = 12;

/// The first failed check.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct PreflightError {
    /// Name of the fault that attempts would end with: `server-unreachable`, `key-refused`, `model-unknown`.
    pub code: &'static str,
    /// Description of the problem.
    pub message: String,
    /// Models that the server lists, if the requested one is missing.
    pub models: Vec<String>,
    /// Whether the problem may be temporary: the server is unreachable, too busy or broken.
    pub may_pass: bool,
}

/// Runs the checks. Connections belong to the runtime that opened them, so use a separate policy if another runtime follows.
///
/// # Errors
/// [`PreflightError`] for the first thing that is wrong.
pub async fn preflight(policy: &RemotePolicy) -> Result<(), PreflightError> {
    // A server that sends a byte now and then could respond forever.
    tokio::time::timeout(TIME, looked_at(policy)).await.unwrap_or_else(|_| {
        let message = format!("the server did not answer within {} s", TIME.as_secs());
        Err(failed(Trouble::later("server-silent", message), Vec::new()))
    })
}

async fn looked_at(policy: &RemotePolicy) -> Result<(), PreflightError> {
    let until = Until { give_up: Instant::now() + TIME };
    let model = &policy.settings().model;
    let listed = match retried(|| policy.server().get("models", until)).await {
        Ok(text) => models(&text),
        // The server has no list.
        Err(trouble) if ["url-wrong", "model-unknown", "request-refused"].contains(&trouble.code) => {
            Vec::new()
        }
        Err(trouble) => return Err(failed(trouble, Vec::new())),
    };
    if listed.iter().any(|known| known == model) {
        return Ok(());
    }
    match retried(|| question(policy, until)).await {
        Ok(()) => Ok(()),
        Err(trouble) if trouble.code == "model-unknown" || trouble.code == "request-refused" => {
            let shown = listed.iter().take(LISTED).map(|id| server_text(id, policy.key()));
            Err(failed(trouble, shown.collect()))
        }
        Err(trouble) => Err(failed(trouble, Vec::new())),
    }
}

/// A reply of a few tokens.
async fn question(policy: &RemotePolicy, until: Until) -> Result<(), Trouble> {
    let mut settings = policy.settings().clone();
    settings.sampling.max_tokens = TOKENS;
    let messages = [Message::text(Role::User, "Say yes.")];
    let asked = Asked { system: None, messages: &messages, tools: &[], seed: 0, images: &Images::default() };
    let Ok(body) = body_of(&settings, &asked) else { return Ok(()) };
    policy.server().ask(body, ReplyReader::new(&settings), 0, until).await.map(|_| ())
}

async fn retried<T, F: Future<Output = Result<T, Trouble>>>(
    mut ask: impl FnMut() -> F,
) -> Result<T, Trouble> {
    let mut tries = 0;
    loop {
        let trouble = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(trouble) => trouble,
        };
        tries += 1;
        // An unreachable server is more often a wrong URL than a server that is about to start.
        if trouble.code == "server-unreachable" || tries >= trouble.tries(TRIES) {
            return Err(trouble);
        }
        sleep(trouble.retry_after.unwrap_or_else(|| backoff::wait(0, tries)).min(TIME / 10)).await; // timer: back-off
    }
}

fn failed(trouble: Trouble, models: Vec<String>) -> PreflightError {
    let may_pass = trouble.tries(2) > 1;
    PreflightError { code: trouble.code, message: trouble.message, models, may_pass }
}

/// The ids in a list of models; empty if the text is not such a list.
fn models(text: &str) -> Vec<String> {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let entries = value.get("data").and_then(Value::as_array);
    entries.into_iter().flatten().filter_map(|entry| Some(entry.get("id")?.as_str()?.to_owned())).collect()
}
