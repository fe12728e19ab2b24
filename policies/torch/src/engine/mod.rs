//! The serving engine: continuous batching on one thread of its own.
//!
//! Every step computes one new row of each running sequence and a chunk of the prompts that are not finished, as one
//! matrix, and draws a token for every sequence whose rows are complete. Between two steps requests come and go and
//! new weights take their place.
//!
//! I1. With [`EngineConfig::reproducible`] a reply is a function of the request and the weights, to the last bit,
//! whatever else runs. I2. A request is answered, refused by name or cancelled by its caller; memory makes it wait,
//! never fail, and the end of the engine answers all. I3. A token is tagged with the version of the weights, or of the adapter, that gave
//! its logits; a swap neither stops nor restarts a sequence. I4. Keys and values computed by one version serve new
//! requests of that version only, and those computed with an adapter, requests for that adapter only. I5. Several adapters are
//! resident at once, each request chooses one or none, and none is ever merged into the model. I6. Tokens that are there are scored
//! between steps, in chunks that hold up none by more than a chunk of a prompt would.
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
