//! An environment that is a server of OpenEnv.

mod action;
mod session;
mod text;

pub(crate) use session::OpenenvSession;
