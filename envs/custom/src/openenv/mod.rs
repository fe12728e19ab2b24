//! An environment that is an OpenEnv server.

mod action;
mod session;
mod socket;
mod text;

pub(crate) use session::OpenenvSession;
