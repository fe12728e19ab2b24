//! An upstream server as the backend of chat.
//!
//! I1. Requests are forwarded unchanged; the server itself rejects what it does not support. I2. Clients get only
//! helpful errors, which never mention the server's address or key: a client that reads about a key discards its own.
//! The log has the rest. I3. Turns have token ids if the policy file declares the server's ids exact and they are. I4.
//! The last request or probe, whichever is later, decides whether the server is available. Trouble that a probe cannot
//! detect ends only with an answer.
//!
//! Cancellation: dropping the future of `begin`, or the pieces, closes the connection to the server.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clawrl_core::{RemoteDialect, RemoteSpec, TokenSource, Usage};
use clawrl_gateway::{
    AnswerRequest, Backend, BackendError, Delta, End, Piece, Prompt, Refusal, Sampling, StartedAnswer, UserId,
};
use clawrl_remote::{Listed, PassedOn, RemoteEnd, RemoteModel, RemotePiece, Said, StreamError};
use clawrl_runtime::{key_of, unusable, warn_of_open_key};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::error::ServeError;
use super::events::UpstreamServer;

/// Field name in errors: the server reports what is wrong with a request but seldom which field.
const ANY_FIELD: &str = "body";

/// Code for a refused connection.
const UNREACHABLE: &str = "server-unreachable";

/// Pause between two probes of a server that does not answer: initial and maximum.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// A model on an upstream server, served under our own name.
#[derive(Debug)]
pub(super) struct UpstreamBackend {
    name: String,
    model: RemoteModel,
    standing: watch::Sender<UpstreamState>,
    /// Context length in tokens, prompt and answer, as reported by the server; 0 if unknown.
    context: AtomicUsize,
}

/// Known state of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum UpstreamState {
    /// Not asked yet.
    #[default]
    Unknown,
    /// It answers.
    Answers,
    /// It does not answer.
    Trouble(Trouble),
}

/// A change of the server's state.
#[derive(Debug)]
pub(super) enum News<'a> {
    UpstreamState(&'a UpstreamState),
    /// Models listed by a new probe.
    Listed(&'a Listed),
}

/// Reason why the server does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    code: &'static str,
    /// For the log of this server.
    pub message: String,
    /// For clients (I2).
    told: String,
    /// Whether a probe can detect that the trouble is over.
    is_seen: bool,
}

impl Trouble {
    /// Whether a probe found a server without a list of models.
    pub fn is_without_list(&self) -> bool {
        self.is_seen && self.code == "url-wrong"
    }
}

/// Creates the backend for a model on an upstream server. Sends no request yet.
///
/// # Errors
/// Chat cannot be forwarded to this server, or its key is missing.
pub(super) fn upstream_backend(settings: RemoteSpec, name: &str) -> Result<Arc<UpstreamBackend>, ServeError> {
    if settings.dialect != RemoteDialect::Openai {
        let dialect = settings.dialect.name();
        let message = format!("the policy has `dialect: {dialect}`, in which chat cannot be passed on");
        let help = "name a server that speaks OpenAI's chat completions: `dialect: openai`";
        return Err(ServeError::refused(message).with_help(help));
    }
    if settings.exact_tokens == Some(TokenSource::Sglang) {
        let message = "the policy has `exact_tokens: sglang`, which come in no stream";
        let help = "leave `exact_tokens` out; what is said is then recorded, and not trained";
        return Err(ServeError::refused(message).with_help(help));
    }
    let key = key_of(&settings)?;
    warn_of_open_key(&settings, key.is_some());
    let model = RemoteModel::new(settings, key).map_err(|error| unusable(&error, "policy"))?;
    let (standing, context) = (watch::Sender::default(), AtomicUsize::default());
    Ok(Arc::new(UpstreamBackend { name: name.to_owned(), model, standing, context }))
}

impl UpstreamBackend {
    /// The upstream server.
    pub(super) fn server(&self) -> UpstreamServer<'_> {
        UpstreamServer { base_url: self.model.base_url(), model: self.model.model() }
    }

    /// Asks the server for its models.
    pub(super) async fn look(&self) -> Option<Listed> {
        match self.model.look().await {
            Ok(listed) => {
                if let Some(context) = listed.context {
                    self.context.store(context, Ordering::Relaxed);
                }
                self.seen();
                Some(listed)
            }
            Err(error) => {
                let (StreamError::Refused(message) | StreamError::TooLong(message)) = &error else {
                    self.troubled(&error, true);
                    return None;
                };
                // The server answers but has no list of models.
                tracing::debug!("no list of models: {message}");
                self.seen();
                Some(Listed::default())
            }
        }
    }

    /// Reports the state unless the server is healthy, then each change, and probes until trouble is over. Runs until
    /// dropped.
    pub(super) async fn watch(&self, mut tell: impl FnMut(News<'_>)) -> Infallible {
        let mut standings = self.standing.subscribe();
        let mut told = UpstreamState::Answers;
        let mut pause = PAUSES.0;
        loop {
            let now = standings.borrow_and_update().clone();
            if now != told {
                tell(News::UpstreamState(&now));
                told = now;
                pause = PAUSES.0;
            }
            let is_looked_at = match &told {
                UpstreamState::Unknown => true,
                UpstreamState::Answers => false,
                UpstreamState::Trouble(trouble) => trouble.is_seen,
            };
            let look = async {
                if !is_looked_at {
                    std::future::pending::<()>().await;
                }
                sleep(pause).await; // timer: a pause between looks is what back-off is
                self.look().await
            };
            tokio::select! {
                // `self` owns the sender.
                Ok(()) = standings.changed() => {}
                listed = look => {
                    pause = (pause * 2).min(PAUSES.1);
                    if let Some(listed) = &listed {
                        tell(News::Listed(listed));
                    }
                }
            }
        }
    }

    /// Records a successful probe.
    fn seen(&self) {
        self.standing.send_if_modified(|standing| {
            let is_over = match standing {
                UpstreamState::Unknown => true,
                UpstreamState::Answers => false,
                UpstreamState::Trouble(trouble) => trouble.is_seen,
            };
            if is_over {
                *standing = UpstreamState::Answers;
            }
            is_over
        });
    }

    /// Records that an answer has begun.
    fn answered(&self) {
        self.standing.send_if_modified(|standing| {
            let is_new = *standing != UpstreamState::Answers;
            *standing = UpstreamState::Answers;
            is_new
        });
    }

    /// Records an error. Only errors that the next request would also get change the state.
    fn troubled(&self, error: &StreamError, by_look: bool) {
        let (code, message, is_seen) = match error {
            StreamError::Refused(_) | StreamError::TooLong(_) => return self.answered(),
            StreamError::Later { code, message, .. } if by_look || *code == UNREACHABLE => {
                (*code, message, true)
            }
            StreamError::Later { .. } => return,
            StreamError::Settings { code, message } => (*code, message, by_look),
        };
        let (message, told) = (message.clone(), told(error).to_string());
        self.standing.send_if_modified(|standing| {
            let is_known = matches!(standing, UpstreamState::Trouble(known) if known.code == code);
            if !is_known {
                *standing = UpstreamState::Trouble(Trouble { code, message, told, is_seen });
            }
            !is_known
        });
    }
}

impl Backend for UpstreamBackend {
    fn models(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    fn context(&self) -> Option<usize> {
        Some(self.context.load(Ordering::Relaxed)).filter(|tokens| *tokens > 0)
    }

    fn version(&self, _user: &UserId) -> Option<u64> {
        None
    }

    fn refusal(&self, _ask: &AnswerRequest, _demands: &[Refusal]) -> Option<Refusal> {
        None
    }

    fn effective_sampling(&self, body: &Map<String, Value>, sampling: Sampling) -> Sampling {
        let drawn = self.model.drawn(body);
        Sampling {
            temperature: drawn.temperature.unwrap_or(1.0) as f32,
            top_p: drawn.top_p.unwrap_or(1.0) as f32,
            top_k: drawn.top_k.unwrap_or_default(),
            max_tokens: Some(drawn.max_tokens),
            ..sampling
        }
    }

    fn start(&self, ask: AnswerRequest) -> BoxFuture<'_, Result<StartedAnswer, BackendError>> {
        Box::pin(async move {
            let prompt = match &ask.prompt {
                Prompt::Chat => None,
                Prompt::Text(text) => Some(json!(text)),
                Prompt::Ids(ids) => Some(json!(ids)),
            };
            let asked = PassedOn { body: &ask.body, prompt: prompt.as_ref(), seed: ask.sampling.seed };
            let begun = self.model.begin(&asked).await;
            let stream = begun.map_err(|error| {
                log(&error);
                self.troubled(&error, false);
                told(&error)
            })?;
            self.answered();
            let prompt_ids = stream.prompt_ids();
            let pieces = unfold(stream, |mut stream| async move {
                let piece = stream.next().await?;
                let piece = piece.map(piece_of).map_err(|error| {
                    log(&error);
                    told(&error)
                });
                Some((piece, stream))
            });
            Ok(StartedAnswer { prompt_ids, in_reasoning: false, adapter: None, pieces: pieces.boxed() })
        })
    }

    fn last_error(&self) -> Option<String> {
        match &*self.standing.borrow() {
            UpstreamState::Trouble(trouble) => Some(trouble.told.clone()),
            UpstreamState::Unknown | UpstreamState::Answers => None,
        }
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            self.model.ready().await.map_err(|error| {
                self.troubled(&error, true);
                told(&error).to_string()
            })
        })
    }
}

fn piece_of(piece: RemotePiece) -> Piece {
    match piece {
        RemotePiece::Said(Said { text, reasoning, calls, logprobs }) => {
            Piece::Delta(Delta { text, reasoning, calls, logprobs })
        }
        RemotePiece::Sampled(tokens) => Piece::Sampled(tokens.ids.into_iter().zip(tokens.logprobs).collect()),
        RemotePiece::End(RemoteEnd { finish, usage }) => {
            let usage = usage.map(|(prompt, completion)| Usage::reported(prompt, completion));
            Piece::End(End { finish, usage })
        }
    }
}

/// The error for a client (I2).
fn told(error: &StreamError) -> BackendError {
    let unavailable = |message: &str, retry_after: Option<Duration>| BackendError::Unavailable {
        message: message.to_owned(),
        retry_after,
    };
    match error {
        StreamError::Refused(message) => BackendError::Refused { field: ANY_FIELD, message: message.clone() },
        StreamError::TooLong(message) => BackendError::NoRoom(message.clone()),
        StreamError::Later { code: "rate-limited", retry_after, .. } => {
            unavailable("the model's server allows no more requests for now", *retry_after)
        }
        StreamError::Later { code: UNREACHABLE, retry_after, .. } => {
            unavailable("the model's server cannot be reached; it may be starting", *retry_after)
        }
        StreamError::Later { code, retry_after, .. } => {
            unavailable(&format!("the model's server gave no whole answer ({code})"), *retry_after)
        }
        StreamError::Settings { .. } => {
            unavailable("the model's server cannot be used; the log of this server says why", None)
        }
    }
}

/// Logs the details that clients do not get. [`UpstreamBackend::watch`] reports lasting trouble once.
fn log(error: &StreamError) {
    if let StreamError::Later { code, message, .. } = error
        && !["rate-limited", UNREACHABLE].contains(code)
    {
        tracing::warn!(code, "the model's server gave no whole answer: {message}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: StreamError, expected: BackendError) {
        assert_eq!(told(&error), expected);
    }

    #[test]
    fn i2_clients_hear_what_helps_them() {
        let refused = BackendError::Refused { field: "body", message: "no audio".to_owned() };
        check(StreamError::Refused("no audio".to_owned()), refused);
        check(StreamError::TooLong("8 of 4".to_owned()), BackendError::NoRoom("8 of 4".to_owned()));
        let key = StreamError::Settings { code: "key-refused", message: "http://inside: 401".to_owned() };
        let message = "the model's server cannot be used; the log of this server says why".to_owned();
        check(key, BackendError::Unavailable { message, retry_after: None });
        let wait = Some(Duration::from_secs(7));
        let limited =
            |code| StreamError::Later { code, message: "http://inside".to_owned(), retry_after: wait };
        let message = "the model's server allows no more requests for now".to_owned();
        check(limited("rate-limited"), BackendError::Unavailable { message, retry_after: wait });
        let message = "the model's server gave no whole answer (stream-cut)".to_owned();
        check(limited("stream-cut"), BackendError::Unavailable { message, retry_after: wait });
    }
    #[test]
    fn i4_trouble_is_told_once_and_ends_with_what_can_see_its_end() {
        let settings =
            RemoteSpec::usual(RemoteDialect::Openai, "http://127.0.0.1:1/v1".to_owned(), "m".to_owned());
        let settings = RemoteSpec { key: clawrl_core::KeySource::None, ..settings };
        let upstream = upstream_backend(settings, "clawrl").unwrap();
        let code = || match &*upstream.standing.borrow() {
            UpstreamState::Trouble(trouble) => Some((trouble.code, trouble.is_seen)),
            _ => None,
        };
        let later =
            |code| StreamError::Later { code, message: "http://inside".to_owned(), retry_after: None };
        let settings = |code| StreamError::Settings { code, message: "http://inside".to_owned() };
        upstream.troubled(&later("stream-cut"), false);
        assert_eq!(*upstream.standing.borrow(), UpstreamState::Unknown, "the next answer may be whole");
        upstream.troubled(&later(UNREACHABLE), false);
        assert_eq!(code(), Some((UNREACHABLE, true)));
        assert!(!upstream.last_error().unwrap().contains("inside"));
        upstream.answered();
        assert_eq!(upstream.last_error(), None);
        // A list of models does not show that the model is missing.
        upstream.troubled(&settings("model-unknown"), false);
        assert_eq!(code(), Some(("model-unknown", false)));
        upstream.troubled(&settings("key-refused"), true);
        assert_eq!(code(), Some(("key-refused", true)));
        upstream.troubled(&StreamError::Refused("no audio".to_owned()), false);
        assert_eq!(*upstream.standing.borrow(), UpstreamState::Answers, "who refuses a request is there");
    }
}
