//! The dashboard: pages about a user's chats, for a browser. Described in `harness/docs/guides/chat-dashboard.md`.

mod actions;
mod conversation;
mod curves;
mod document;
mod events;
mod form;
mod html;
mod login;
mod overview;
mod policy;
mod routes;
mod session;
mod training;
mod turn;
mod versions;

pub(super) use login::Logins;
pub(super) use routes::router;
#[cfg(test)]
pub(super) use routes::{is_open, routes};
