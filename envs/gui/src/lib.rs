//! The GUI environment: a browser, pages that the harness serves, and what an agent did to them.

mod action;
mod bidi;
mod browser;
mod checks;
mod connect;
mod env;
mod idle;
mod mapper;
mod naming;
mod page;
mod picture;
mod programs;
mod provider;
mod proxy;
mod remote;
mod sandboxed;
mod site;
mod stage;
mod turns;

pub use programs::{BrowserPrograms, find_programs};
pub use provider::{BrowserKind, BrowserSource, GuiConfig, GuiProvider};
pub use remote::{EndpointAnswer, EndpointError, Endpoints};
pub use site::folder_hash;
