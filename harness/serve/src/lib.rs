//! A chat server: a model, or a server that runs one, behind OpenAI's interface, with a recorder, a judge and a trainer.
//!
//! [`serve`] connects the parts and blocks until a signal ends it. It reports events to a [`ServeEvents`]; this library
//! does not print. Models that this process runs come from a [`ChatModelLoader`], so that the library does without
//! libtorch.

mod error;
mod events;
mod exchange;
mod judging;
mod key_file;
mod model;
mod one_turn;
mod openclaw;
mod serve;
mod source;
mod upstream;
mod verdict;

pub use error::ServeError;
pub use events::{Listening, ServeEvents, UpstreamServer};
pub use key_file::first_key;
pub use model::{Announce, ChatModel, ChatModelLoader};
pub use one_turn::asked_of;
pub use openclaw::{MIN_CONTEXT, SetUp};
pub use serve::{ServeEnd, ServeRequest, serve};
pub use upstream::{Trouble, UpstreamState};
pub use verdict::{TurnVotes, Worth, worth};
