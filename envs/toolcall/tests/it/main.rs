//! The tool-call environment: tools in this process, and real interpreters and commands in real sandboxes.

#![allow(clippy::unwrap_used)]

mod bfcl;
mod commands;
mod conformance;
mod grading;
mod heavy;
mod http;
mod in_process;
mod listener;
mod mcp;
mod mcp_http;
mod python;
mod python_lost;
mod real_servers;
mod rubrics;
mod support;
