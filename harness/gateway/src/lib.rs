//! Personal chat, as far as it needs no server: what a chat client's request says, and how requests make turns with
//! their next states.
//!
//! [`Lineages`] is told what happened (a request arrived, it was answered, it failed) and says what follows from it,
//! as [`Event`]s. No I/O, no clock, no thread: whoever owns it gives it time and keeps what it says. How turns are
//! linked, and by what evidence, is described in `harness/docs/gateway/turns.md`.

mod answer;
mod claim;
mod digest;
mod headers;
mod ids;
mod keys;
mod kind;
mod linking;
mod message;
mod openclaw;
mod reaction;
mod reply;
mod request;

pub use answer::{AnswerParser, AnswerPart, Reads, StopScanner, Utf8Assembly};
pub use claim::Evidence;
pub use digest::Digest;
pub use headers::{EPOCH_HEADER, Headers, SESSION_END_HEADER, SESSION_HEADER, TRIGGER_HEADER, TURN_HEADER};
pub use ids::{RequestId, SessionId, TurnId, UserId};
pub use keys::{KeyError, Keys};
pub use kind::{Doubt, SideMark, TurnKind};
pub use linking::{
    Arrival, Closing, EpochEnd, Event, Lineages, LinkConfig, LinkError, Match, NewMessage, NewMessageKind,
    NextState, Unanswered,
};
pub use message::{Message, Role, Standing};
pub use reaction::{Change, Reaction, Thumb};
pub use reply::{Reply, ReplyCall};
pub use request::{ChatRequest, MessageFlaw, RequestError};
