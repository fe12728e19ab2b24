//! Agent programs as policies: real processes, real sandboxes, a model behind a server.

mod house;
mod misbehaving;
mod playing;
mod real_clients;
mod recording;
