//! Models behind servers as policies: servers with OpenAI's chat completions API (Ollama, llama.cpp, vLLM, SGLang,
//! transformers, most vendors) or Anthropic's messages API.
//!
//! A [`RemotePolicy`] is one HTTP client for all attempts of a run. Each turn is a request: a dialect builds it, it waits
//! for a free place, the reply is read as it streams, and the request is retried if that can help. A [`RemoteScorer`]
//! requests log-probabilities of given tokens. A [`RemoteModel`] forwards clients' requests and streams the responses back.
//! An [`ApiClient`] is for interactive clients.
//!
//! I1. The key is never part of a record, error, log or `Debug` text, and is redacted from everything that a server sends.
//! I2. A server error is a fault at the policy boundary; nothing is invented in its place. A reply is taken
//!     whole or not at all. I3. Every wait ends: by its own limit, or before the request's deadline, so that a server's
//!     silence is never scored as the slowness of an agent; keep-alives count as silence. I4. The data read from a server
//! is limited.
//! I5. No state is kept between turns.
//!
//! Faults. Retried: `server-unreachable`, `server-silent`, `server-error`, `rate-limited`, `stream-stalled`,
//! `stream-cut`, `reply-garbled`, `reply-too-large`, `no-place`. Permanent: `key-refused`, `model-unknown`, `url-wrong`,
//! `tls-refused`, `quota-used-up`, `context-too-long`, `request-refused`, `image-unsupported`, `image-missing`,
//! `action-format-unsupported`.
//! Cancellation: dropping the future of `act` closes the connection of its request and frees its place.

mod anthropic_reply;
mod anthropic_request;
mod api_client;
mod backoff;
mod client;
mod endpoint;
mod event_json;
mod exchange;
mod finish;
mod images;
mod listed;
mod openai_reply;
mod openai_request;
mod openai_stream;
mod pace;
mod partial_calls;
mod passed_on;
mod policy;
mod preflight;
mod reply;
mod retry_after;
mod scorer;
mod secret;
mod server_text;
mod silence;
mod sse;
mod status;
mod strainer;
mod stream;
mod system_text;
mod tokens;
mod trouble;
mod usage;

pub use api_client::{ApiAnswer, ApiClient, ApiError, ApiEvent, ApiEvents};
pub use listed::Listed;
pub use openai_stream::{RemoteEnd, RemotePiece, Said};
pub use partial_calls::{PartialCall, PartialCalls};
pub use passed_on::{Drawn, PassedOn};
pub use policy::{RemoteError, RemotePolicy};
pub use preflight::{PreflightError, preflight};
pub use scorer::{RemoteScorer, ScoreError, Vocabulary};
pub use secret::Secret;
pub use strainer::Strainer;
pub use stream::{RemoteModel, RemoteStream, StreamError};
pub use system_text::Told;
