//! An environment that is a server of OpenEnv.

mod action;
mod session;
mod socket;
mod text;

pub(crate) use session::OpenenvSession;
