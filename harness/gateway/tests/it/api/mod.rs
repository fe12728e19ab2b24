//! The API over real connections, in front of a scripted policy.

mod abuse;
mod browser_tests;
mod client;
mod completing;
mod dashboard;
mod ending;
mod learning;
mod learning_pages;
mod openapi;
mod recording;
mod scripted;
mod streaming;
mod test_server;
mod test_trainer;
