//! Integration tests of the crate, one binary.

mod agents;
mod chats;
mod diagnostics;
mod files;
mod gates;
mod plans;
mod policies;
mod schema;
mod starters;
mod toolcall;
mod training;
