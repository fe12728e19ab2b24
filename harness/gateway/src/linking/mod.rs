//! How requests make turns: a pure state machine over what happened.
//!
//! [`Lineages`] is told that a request arrived, was answered or failed, and says what follows: a turn was opened, an earlier
//! one has its next state, a session ended. It has no clock; time comes with what happened.

mod contents;
mod event;
mod lineages;
mod session;

pub use event::{Closing, EpochEnd, Event, Match, NewMessage, NewMessageKind, NextState, Unanswered};
pub use lineages::{Arrival, Lineages, LinkConfig, LinkError};
