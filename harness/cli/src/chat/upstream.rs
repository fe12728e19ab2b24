//! A server of others, as what answers chat.
//!
//! I1. Requests go on as clients made them; what the server can do is for the server to say. I2. Clients hear of the server's trouble what
//! helps them, and never of its address, its key, or that it wants one: a client that hears of a key puts its own away. The rest is
//! for the log. I3. Turns have ids where the policy file says that the server's are exact, and where they are.
//!
//! Cancellation: dropping the future of `begin`, or the pieces, closes the connection to the server.

use std::path::Path;
use std::sync::Arc;

use clawrl_core::{RemoteDialect, TokenSource};
use clawrl_gateway::{
    Ask, Backend, BackendError, Begun, Delta, End, Piece, Prompt, Refusal, Sampling, Usage, UserId,
};
use clawrl_remote::{PassedOn, RemoteEnd, RemoteModel, RemotePiece, Said, StreamError};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use serde_json::{Map, Value, json};

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::wiring::{key_of, unusable, warn_of_open_key};

/// What is wrong with a request is said by the server, which seldom says where.
const ANY_FIELD: &str = "body";

/// A model behind a server, under a name of ours.
#[derive(Debug)]
struct UpstreamBackend {
    name: String,
    model: RemoteModel,
}

/// Whether this is said to be a policy file, and not a folder.
pub(super) fn is_policy_file(path: &Path) -> bool {
    let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    is_yaml && !path.is_dir()
}

/// The model of a policy file, under a name. Nothing is asked yet.
///
/// # Errors
/// A file that is none, whose server cannot be passed chat on to, or whose key is not there.
pub(super) fn upstream_backend(file: &Path, name: &str) -> Result<Arc<dyn Backend>, Failure> {
    let settings = clawrl_config::load_policy(file)?;
    if settings.dialect != RemoteDialect::Openai {
        let dialect = settings.dialect.name();
        let message =
            format!("{} has `dialect: {dialect}`, in which chat cannot be passed on", file.display());
        let help = "name a server that speaks OpenAI's chat completions: `dialect: openai`";
        return Err(Failure::with_help(Exit::Refused, message, help));
    }
    if settings.exact_tokens == Some(TokenSource::Sglang) {
        let message = format!("{} has `exact_tokens: sglang`, which come in no stream", file.display());
        let help = "leave `exact_tokens` out; what is said is then recorded, and not trained";
        return Err(Failure::with_help(Exit::Refused, message, help));
    }
    let key = key_of(&settings)?;
    warn_of_open_key(&settings, key.is_some());
    let model = RemoteModel::new(settings, key).map_err(|error| unusable(&error, "policy file"))?;
    Ok(Arc::new(UpstreamBackend { name: name.to_owned(), model }))
}

impl Backend for UpstreamBackend {
    fn models(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    fn context(&self) -> Option<usize> {
        // Servers say it in ways of their own, if at all.
        None
    }

    fn version(&self, _user: &UserId) -> Option<u64> {
        None
    }

    fn refuses(&self, _ask: &Ask, _demands: &[Refusal]) -> Option<Refusal> {
        None
    }

    fn settles(&self, body: &Map<String, Value>, sampling: Sampling) -> Sampling {
        let drawn = self.model.drawn(body);
        Sampling {
            temperature: drawn.temperature.unwrap_or(1.0) as f32,
            top_p: drawn.top_p.unwrap_or(1.0) as f32,
            top_k: drawn.top_k.unwrap_or_default(),
            max_tokens: Some(drawn.max_tokens),
            ..sampling
        }
    }

    fn begin(&self, ask: Ask) -> BoxFuture<'_, Result<Begun, BackendError>> {
        Box::pin(async move {
            let prompt = match &ask.prompt {
                Prompt::Chat => None,
                Prompt::Text(text) => Some(json!(text)),
                Prompt::Ids(ids) => Some(json!(ids)),
            };
            let asked = PassedOn { body: &ask.body, prompt: prompt.as_ref(), seed: ask.sampling.seed };
            let stream = self.model.begin(&asked).await.map_err(told)?;
            let prompt_ids = stream.prompt_ids();
            let pieces = unfold(stream, |mut stream| async move {
                let piece = stream.next().await?;
                Some((piece.map(piece_of).map_err(told), stream))
            });
            Ok(Begun { prompt_ids, in_reasoning: false, adapter: None, pieces: pieces.boxed() })
        })
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { self.model.ready().await.map_err(|error| told(error).to_string()) })
    }
}

fn piece_of(piece: RemotePiece) -> Piece {
    match piece {
        RemotePiece::Said(Said { text, reasoning, calls, logprobs }) => {
            Piece::Delta(Delta { text, reasoning, calls, logprobs })
        }
        RemotePiece::Sampled(tokens) => Piece::Sampled(tokens.ids.into_iter().zip(tokens.logprobs).collect()),
        RemotePiece::End(RemoteEnd { finish, usage }) => {
            let usage = usage.map(|(prompt, completion)| Usage { prompt, completion });
            Piece::End(End { finish, usage })
        }
    }
}

/// What a client is told, and the log of what it is not (I2).
fn told(error: StreamError) -> BackendError {
    let unavailable = |message: String, retry_after| BackendError::Unavailable { message, retry_after };
    match error {
        StreamError::Refused(message) => BackendError::Refused { field: ANY_FIELD, message },
        StreamError::TooLong(message) => BackendError::NoRoom(message),
        StreamError::Later { code: "rate-limited", retry_after, .. } => {
            unavailable("the model's server allows no more requests for now".to_owned(), retry_after)
        }
        StreamError::Later { code, message, retry_after } => {
            tracing::warn!(code, "the model's server gave no whole answer: {message}");
            unavailable(format!("the model's server gave no whole answer ({code})"), retry_after)
        }
        StreamError::Settings { code, message } => {
            tracing::error!(code, "the model's server cannot be used: {message}");
            let told = "the model's server cannot be used; the log of this server says why";
            unavailable(told.to_owned(), None)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn check(error: StreamError, expected: BackendError) {
        assert_eq!(told(error), expected);
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
    fn files_are_known_by_their_names() {
        let check = |path: &str, expected| assert_eq!(is_policy_file(Path::new(path)), expected, "{path}");
        check("policy.yaml", true);
        check("a/policy.yml", true);
        check("model", false);
        check("model.safetensors", false);
    }
}
