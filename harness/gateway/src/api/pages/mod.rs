//! The dashboard: a user's chats as web pages. Described in `harness/docs/gateway/dashboard.md`.

mod actions;
mod conversation;
mod curves;
mod document;
mod events;
mod form;
mod login;
mod overview;
mod policy_actions;
mod render;
mod routes;
mod session;
mod training_outcome;
mod turn;
mod versions;

pub(super) use login::Logins;
pub(super) use routes::router;
#[cfg(test)]
pub(super) use routes::{is_open, routes};
