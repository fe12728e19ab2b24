//! `clawrl chat`, with a real chat server over a scripted policy, and with third-party servers.

mod asking;
mod commands;
mod foreign;
mod house;
mod person;
mod policy;
mod starting;
mod terminal;
mod troubles;
