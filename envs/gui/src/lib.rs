//! The GUI environment: a browser, pages that the harness serves, and grading of the resulting state.

mod action;
mod bidi;
mod browser;
mod browser_session;
mod checks;
mod connect;
mod element_ref;
mod env;
mod idle_pool;
mod mapper;
mod page;
mod picture;
mod programs;
mod provider;
mod proxy;
mod remote;
mod sandboxed;
mod site;
mod work_limiter;

pub use browser::BrowserKind;
pub use programs::{BrowserPrograms, find_programs};
pub use provider::{BrowserSource, GuiConfig, GuiProvider};
pub use remote::{EndpointError, EndpointStatus, Endpoints};
pub use site::folder_hash;
