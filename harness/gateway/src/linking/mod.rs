//! Linking of requests to turns: a pure state machine.
//!
//! [`SessionTracker`] takes arrivals, answers and failures of requests, and returns what follows: a turn was opened, an earlier one has its
//! next state, a session was closed. It has no clock; its caller provides the time.

mod contents;
mod event;
mod session;
mod tracker;

pub use event::{Closing, EpochEnd, Event, Match, NewMessage, NewMessageKind, NextState, Unanswered};
pub use tracker::{Arrival, LinkConfig, LinkError, SessionTracker};
