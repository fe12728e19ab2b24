//! `clawrl train` and `clawrl policy init`: real environments, real weights, at a scale of seconds.

mod adapting;
mod chatting;
mod choosing;
mod failing;
mod faulting;
mod gating;
mod ground;
mod imitating;
mod judging;
mod keeping;
mod killing;
mod learning_from_chat;
mod personal;
mod planning;
mod poisoning;
mod policy_init;
mod refusing;
mod remote_teaching;
mod repeating;
mod seeds;
mod streaming;
mod teacher_server;
mod teaching;
mod toolcalls;
mod versions;
