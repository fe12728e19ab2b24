//! The policy: sends a turn as a request and retries it if that can help.
//!
//! I1. A reply is used once; the read part of a broken response is discarded. I2. A place is held while a request is in
//! flight, and never during the wait before a retry.

use std::time::Duration;

use clawrl_core::{
    Action, ActionFormat, Boundary, BoxFuture, Fault, Policy, PolicyRequest, RemoteDialect, RemoteSpec,
    ToolCall, ToolUse,
};
use hyper::body::Bytes;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use crate::anthropic_request;
use crate::backoff;
use crate::client::HttpClient;
use crate::endpoint::Endpoint;
use crate::exchange::{ReplyReader, Server, Until};
use crate::images::Images;
use crate::openai_request::{self, Asked, ImageInside};
use crate::pace::Pace;
use crate::reply::Reply;
use crate::secret::Secret;
use crate::system_text::Told;
use crate::trouble::Trouble;
use crate::usage::{Known, settle};

/// Time before the deadline at which a reply that has not begun is given up, so that the reason can still be reported.
const MARGIN: Duration = Duration::from_millis(250);

/// Error of the settings.
#[derive(Debug, Error)]
pub enum RemoteError {
    /// The system's certificates cannot be read.
    #[error("the certificates of this machine cannot be read: {0}")]
    Certificates(std::io::Error),
    /// The base URL, or a header.
    #[error("{0}")]
    Settings(&'static str),
}

/// A policy that acts by requests to a server. Shared by all attempts of a run.
#[derive(Debug)]
pub struct RemotePolicy {
    settings: RemoteSpec,
    server: Server,
    pace: Pace,
    key: Option<Secret>,
}

impl RemotePolicy {
    /// Creates a policy; sends no request.
    ///
    /// # Errors
    /// [`RemoteError`] if no request can be built from the settings.
    pub fn new(settings: RemoteSpec, key: Option<Secret>) -> Result<Self, RemoteError> {
        let server = server_of(&settings, key.clone())?;
        let pace = Pace::new(settings.concurrency);
        Ok(Self { settings, server, pace, key })
    }

    pub(crate) fn settings(&self) -> &RemoteSpec {
        &self.settings
    }

    pub(crate) fn key(&self) -> Option<&Secret> {
        self.key.as_ref()
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    async fn reply(&self, request: PolicyRequest<'_>) -> Result<Action, Fault> {
        let images = Images::of(request.conversation, request.blobs).await?;
        let body = self.body(&request, &images)?;
        let until = Until { give_up: give_up(request.deadline) };
        let mut tries = 0;
        loop {
            let trouble = match self.try_once(&body, &request, tries, until).await {
                Ok(reply) => return Ok(self.action(reply, body.len(), &images, tries)),
                Err(trouble) => trouble,
            };
            tries += 1;
            tracing::debug!(attempt = %request.attempt, turn = request.turn, tries, code = trouble.code, "no reply");
            // The pause applies to all requests of the policy.
            trouble.retry_after.inspect(|wait| self.pace.hold(*wait));
            if tries >= trouble.tries(self.settings.tries) {
                return Err(trouble.fault(tries));
            }
            let wait = match trouble.retry_after {
                Some(_) => Duration::ZERO,
                None => backoff::wait(request.seed, tries),
            };
            if Instant::now() + wait >= until.give_up {
                return Err(trouble.fault(tries));
            }
            sleep(wait).await; // timer: a pause between requests is what back-off is
        }
    }

    async fn try_once(
        &self,
        body: &Bytes,
        request: &PolicyRequest<'_>,
        tries: u32,
        until: Until,
    ) -> Result<Reply, Trouble> {
        let spread = backoff::spread(request.seed, tries);
        let _place = self.pace.enter(until.give_up, spread).await?;
        self.server.ask(body.clone(), ReplyReader::new(&self.settings), request.turn, until).await
    }

    fn body(&self, request: &PolicyRequest<'_>, images: &Images) -> Result<Bytes, Fault> {
        let format = request.task.action_format;
        if self.settings.tools == ToolUse::Text && format == ActionFormat::ToolCalls {
            let message = "the actions of this task are tool calls, and the policy has `tools: text`; write `tools: auto`";
            return Err(Fault::permanent(Boundary::Policy, "action-format-unsupported", message));
        }
        let Told { system, tools } = Told::of(&self.settings, format, request.tools);
        let asked = Asked { system, messages: request.conversation, tools, seed: request.seed, images };
        body_of(&self.settings, &asked).map_err(|ImageInside| {
            let message =
                "the conversation has an image outside of what was observed, where no server takes one";
            Fault::permanent(Boundary::Policy, "image-unsupported", message)
        })
    }

    fn action(&self, mut reply: Reply, request_bytes: usize, images: &Images, retries: u32) -> Action {
        if self.redact(&mut reply) {
            // Tokens would spell out the key.
            reply.tokens = None;
            reply.notes.push("key-struck-out");
        }
        let known = Known {
            text_bytes: request_bytes.saturating_sub(images.bytes),
            images: images.count,
            written_bytes: reply.written_bytes,
            max_tokens: self.settings.sampling.max_tokens,
            exact_output: reply.tokens.as_ref().map(|tokens| tokens.ids.len() as u64),
        };
        let mut usage = settle(&reply.reported, &known, self.settings.prices.as_ref(), &reply.notes);
        usage.retries = retries;
        let Reply { text, calls, finish, tokens, .. } = reply;
        Action { text, tool_calls: calls, finish, tokens, usage: Some(usage) }
    }

    /// Removes the key from the reply; true if it was there.
    fn redact(&self, reply: &mut Reply) -> bool {
        let Some(key) = &self.key else { return false };
        let mut found = false;
        let mut redact = |text: &mut String| {
            if let std::borrow::Cow::Owned(without) = key.redact(text) {
                *text = without;
                found = true;
            }
        };
        redact(&mut reply.text);
        for ToolCall { id, name, arguments } in &mut reply.calls {
            redact(id);
            redact(name);
            let mut text = arguments.to_string();
            redact(&mut text);
            // Redacted JSON is still JSON: keys are graphic ASCII and do not span a quote.
            *arguments = serde_json::from_str(&text).unwrap_or_default();
        }
        found
    }
}

/// The body of a request in the dialect of the settings.
pub(crate) fn body_of(settings: &RemoteSpec, asked: &Asked<'_>) -> Result<Bytes, ImageInside> {
    let body = match settings.dialect {
        RemoteDialect::Openai => openai_request::body(settings, asked)?,
        RemoteDialect::Anthropic => anthropic_request::body(settings, asked)?,
    };
    Ok(serde_json::Value::Object(body).to_string().into())
}

/// The server of these settings.
///
/// # Errors
/// [`RemoteError`] if no request can be built from the settings.
pub(crate) fn server_of(settings: &RemoteSpec, key: Option<Secret>) -> Result<Server, RemoteError> {
    let endpoint = Endpoint::new(&settings.base_url)
        .ok_or(RemoteError::Settings("the base URL of the policy is none"))?;
    let client =
        HttpClient::new(&settings.base_url, settings.patience.connect).map_err(RemoteError::Certificates)?;
    Server::new(settings, client, endpoint, key)
        .ok_or(RemoteError::Settings("a header of the policy is none that HTTP knows"))
}

/// Time to give up a reply that has not begun. A near deadline keeps most of its time.
fn give_up(deadline: std::time::Instant) -> Instant {
    let deadline = Instant::from_std(deadline);
    let left = deadline.saturating_duration_since(Instant::now());
    deadline.checked_sub(MARGIN.min(left / 10)).unwrap_or(deadline)
}

impl Policy for RemotePolicy {
    fn name(&self) -> &str {
        &self.settings.model
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        Box::pin(self.reply(request))
    }
}
