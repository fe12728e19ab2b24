//! `clawrl chat`, with a real server of chat in front of a policy whose words are set down, and with servers of others.

mod asking;
mod commands;
mod foreign;
mod house;
mod person;
mod policy;
mod starting;
mod terminal;
mod troubles;
