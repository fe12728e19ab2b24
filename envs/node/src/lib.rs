//! Sandboxes in containers of an engine that is not ours to enter: on another machine, or on this one without root.
//!
//! A program of ours, `clawrl-node`, runs beside the engine and does there what the harness does where it can enter
//! containers itself ([`clawrl_sandbox::enter`]): the same shell, the same programs beside it, the same end. Here a
//! [`Node`] asks it over one connection, and what it makes is a [`clawrl_sandbox::Sandbox`] like any other.
//!
//! N1. One connection, and whoever loses it loses everything: the node ends all that it started, and whoever waits here
//! gets a transient env [`Fault`](clawrl_core::Fault). N2. A question that is given up is given up there, too. N3. What
//! is brought from there is a copy: a workspace is fetched whole, within bounds, and looked at here.
//!
//! Cancellation: every future here may be dropped, within N2.

mod body;
mod client;
mod program;
mod sandbox;
mod server;
mod shell;
mod tree;
mod wire;

pub use client::{Connection, Node};
pub use server::serve;
