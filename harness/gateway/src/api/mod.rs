//! The API: OpenAI's interface over HTTP, and ours beside it.

mod answering;
mod body;
mod choice;
mod completions;
mod error;
mod gateway;
mod guard;
mod hours;
mod learning;
mod metrics;
mod openapi;
mod pages;
mod patient;
mod places;
mod random;
mod records;
mod router;
mod routes;
mod server;
mod settings;
mod shapes;
mod streamed;
mod voices;
mod wanted;

pub use server::{Drained, Server};
pub use settings::ServerSettings;
