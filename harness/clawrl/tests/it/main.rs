//! End-to-end tests of `clawrl`: processes of the built binary, real sandboxes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod acting;
mod agents;
mod browsing;
mod cassettes;
mod chat_judging;
mod chatting;
mod comparing;
mod completing;
mod customizing;
mod driving;
mod ending;
mod examples;
mod explaining;
mod gating;
mod heavy;
mod imaging;
mod importing;
mod judging;
mod lacking;
mod listing;
mod measuring;
mod model_server;
mod normal_user;
#[cfg(feature = "torch")]
mod packaging;
mod place;
mod redacting;
mod reference;
mod refusing;
mod remote;
mod replaying;
mod reporting;
mod running;
mod served;
mod serving;
mod stopping;
mod suites;
mod terminal;
mod toolcalling;
#[cfg(feature = "torch")]
mod training;
mod tutorials;
mod validating;
mod viewing;
