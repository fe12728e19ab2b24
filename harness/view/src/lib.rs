//! Local web pages over a results folder: `site` routes requests, `listing` writes the page of all runs.
//!
//! The page of a single run is a report of `clawrl-report`.

mod listing;
mod local_server;
mod site;

pub use local_server::serve;
pub use site::Site;
