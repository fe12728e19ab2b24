//! The serving engine: continuous batching on a dedicated thread.
//!
//! Every step computes one matrix: one new row of each running sequence and a chunk of the unfinished prompts. It draws a
//! token for every sequence whose rows are complete. Requests are admitted and removed, and new weights are installed,
//! between two steps.
//!
//! I1. With [`EngineConfig::reproducible`] a reply is a function of the request and the weights, to the last bit,
//! regardless of what else runs. I2. Every request is answered, refused with a reason or cancelled by its caller. A lack of
//! memory delays a request but never fails it, and the end of the engine answers all. I3. A token is tagged with the
//! version of the weights, or of the adapter, that computed its logits. New weights neither stop nor restart a sequence.
//! I4. Keys and values computed by one version serve new
//! requests of that version only, and those computed with an adapter, requests for that adapter only. I5. Several adapters are
//! resident at once, each request chooses one or none, and none is ever merged into the model. I6. Given tokens are scored
//! between steps, in chunks that delay a step no longer than a chunk of a prompt does.
//!
//! Cancellation: dropping the future of [`EngineHandle::generate`] or [`EngineHandle::score`], or a [`TokenStream`], ends the request before the next step.

mod adapters;
pub(crate) mod audited;
mod config;
mod distribution;
mod forward;
mod handle;
pub(crate) mod kernels;
mod kv;
mod philox;
mod prefix;
mod prefixes;
mod request;
mod sampling;
mod scoring;
mod sequence;
mod stats;
mod streaming;
mod weights;
mod worker;

pub use adapters::AdapterName;
pub use config::{EngineConfig, EngineObserver, EngineWork};
pub use handle::{Applied, Engine, EngineHandle};
pub use request::{EngineError, GenerateRequest, Generated, PublishError};
pub use scoring::{ScoreRequest, Scored};
pub use stats::EngineStats;
pub use streaming::{StreamedToken, TokenStream};
pub(crate) use weights::values;
