//! The HTTP API: OpenAI's endpoints, and ClawRL's.

mod activity;
mod answer_stream;
mod body;
mod choice;
mod choice_streams;
mod completion_params;
mod completions;
mod concurrency;
mod error;
mod gateway;
mod guard;
mod learning;
mod metrics;
mod openapi;
mod pages;
mod pending_answer;
mod random;
mod records;
mod response;
mod router;
mod routes;
mod server;
mod settings;
mod write_timeout;

pub use server::{Drained, Server};
pub use settings::ServerSettings;
