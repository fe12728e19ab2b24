//! Sandboxes in containers that this process cannot enter: on another machine, or on this one without root.
//!
//! Our program `clawrl-node` runs beside the container engine and does there what the harness does where it can enter
//! containers itself ([`clawrl_sandbox::enter`]): the same shell, the same additional programs, the same cleanup. A
//! [`Node`] sends it requests over one connection and presents the result as an ordinary [`clawrl_sandbox::Sandbox`].
//!
//! N1. When the one connection is lost, everything is lost: the node ends all that it started, and waiting callers get
//! a transient env [`Fault`](clawrl_core::Fault).
//! N2. Cancelling a request here cancels it there.
//! N3. Data from the node is a copy: a workspace is transferred whole, within limits, and inspected here.
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
