//! Reports about a chat server, at its start and while it runs.
//!
//! I1. With `--json`, only the address goes to standard output, and only warnings to standard error. I2. Every printed
//! command can be copied unchanged.

use std::io;
use std::path::Path;

use clawrl_chat::wrapped;
use clawrl_remote::Listed;
use clawrl_runtime::quoted;
use clawrl_serve::{Listening, MIN_CONTEXT, ServeError, ServeEvents, SetUp, UpstreamServer, UpstreamState};
use serde_json::json;

use super::serve::Arguments;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::print_json_line;

/// Default base URL of `clawrl chat`.
const USUAL_BASE_URL: &str = "http://127.0.0.1:30000/v1";

/// Reports a server on standard error, or, with `--json`, on standard output.
#[derive(Debug)]
pub(super) struct ServeReport {
    log: Log,
    is_json: bool,
    /// Model name that clients request.
    name: String,
    /// Whether the user chose the folder of the keys.
    has_own_data: bool,
    /// Options with which another command finds the results folder.
    repeated: String,
}

impl ServeReport {
    pub(super) fn new(arguments: &Arguments, log: Log) -> Self {
        Self {
            log,
            is_json: arguments.json,
            name: arguments.name.clone(),
            has_own_data: arguments.data.is_some(),
            repeated: arguments.results.repeated(),
        }
    }

    fn note(&self, text: &str) {
        if !self.is_json {
            self.log.note(format_args!("{text}"));
        }
    }

    /// Prints wrapped sentences. Lines that begin with blanks are commands and stay unchanged (I2).
    fn prose(&self, text: &str) {
        let laid = |line: &str| match line.starts_with("  ") {
            true => line.to_owned(),
            false => wrapped(line, self.log.columns(), 2),
        };
        self.note(&text.lines().map(laid).collect::<Vec<_>>().join("\n"));
    }

    fn warn(&self, text: &str) {
        let text = wrapped(&format!("warning: {text}"), self.log.columns(), 2);
        self.log.note(format_args!("{text}"));
    }

    /// The client command that finds this server and its keys.
    fn client(&self, listening: &Listening<'_>) -> String {
        let Listening { base_url, data, .. } = listening;
        let address =
            if *base_url == USUAL_BASE_URL { String::new() } else { format!(" --base-url {base_url}") };
        let data = if self.has_own_data { format!(" --data {}", quoted(data)) } else { String::new() };
        format!("clawrl chat{address}{}{data}", self.repeated)
    }
}

impl ServeEvents for ServeReport {
    fn listens(&self, listening: &Listening<'_>) -> io::Result<()> {
        let Listening { base_url, data, key, is_new_key, learning, upstream } = listening;
        let key_file = data.join("keys");
        if self.is_json {
            print_json_line(&json!({
                "base_url": base_url, "model": self.name, "key_file": key_file, "pid": std::process::id(),
                "learning": learning.is_ok(),
            }))?;
            return Ok(());
        }
        self.note(&format!("{base_url} serves the model `{}`", self.name));
        if let Some(UpstreamServer { base_url, model }) = upstream {
            self.note(&format!("answers come from the model `{model}` at {base_url}"));
        }
        if *is_new_key {
            self.note(&format!("key, which is told once and kept in {}: {key}", key_file.display()));
        } else {
            self.note(&format!("keys are in {}", key_file.display()));
        }
        self.note(&format!("what is said is recorded in {}", data.join("ledger.sqlite").display()));
        match learning {
            Ok(plan) => self.prose(&format!(
                "learning: objective {}, an update with {} samples or after {} s",
                plan.objective.name(),
                plan.train_every_turns,
                plan.train_every_secs
            )),
            Err(why) => self.prose(&format!("nothing is learned from it: {why}")),
        }
        self.note(&format!("talk to it in a terminal: {}", self.client(listening)));
        Ok(())
    }

    fn openclaw(&self, set_up: &SetUp, is_upstream: bool) {
        self.prose(&openclaw(set_up, is_upstream));
    }

    fn upstream_state(
        &self,
        UpstreamServer { base_url: place, .. }: UpstreamServer<'_>,
        state: &UpstreamState,
    ) {
        match state {
            // A server may have no list of models.
            UpstreamState::Trouble(trouble) if trouble.is_without_list() => self.warn(&format!(
                "the server at {place} has no list of models: {}; if it answers chat all the same, nothing is amiss",
                trouble.message
            )),
            UpstreamState::Trouble(trouble) => self.warn(&format!(
                "the model's server at {place} does not answer: {}; requests end with status 503 until it does; it is asked again by itself",
                trouble.message
            )),
            UpstreamState::Answers => self.note(&format!("the model's server at {place} answers now")),
            UpstreamState::Unknown => self.note(&format!("the model's server at {place} has not answered yet")),
        }
    }

    fn upstream_models(&self, UpstreamServer { base_url, model }: UpstreamServer<'_>, listed: &Listed) {
        if !listed.others.is_empty() {
            self.warn(&format!(
                "the server at {base_url} does not list the model `{model}`, and may refuse it; it lists {}",
                listed.others.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ));
        }
    }

    fn learned(&self, line: &str) {
        self.note(line);
    }

    fn failed(&self, error: ServeError) {
        self.log.failure(&Failure::from(error));
    }

    fn ends(&self) {
        self.note("answers that have begun come to their end; Ctrl-C again cuts them");
    }
}

/// Instructions for OpenClaw.
fn openclaw(set_up: &SetUp, is_upstream: bool) -> String {
    match set_up {
        SetUp::Written { config, extension, assumed } => {
            let assumed = assumed.map(|tokens| {
                format!(
                    "\nnobody says how much the model reads: if it is less than {tokens} tokens, change contextWindow in {}",
                    config.display()
                )
            });
            format!(
                "OpenClaw is set up by these two commands; start its gateway again, if it runs:\n  {}\n  {}{}",
                install(extension),
                patch(config),
                assumed.unwrap_or_default()
            )
        }
        SetUp::TooShort(context) => {
            let cure = if is_upstream {
                "give it more where it is served (llama.cpp: -c 32768; vLLM: --max-model-len 32768; Ollama: OLLAMA_CONTEXT_LENGTH=32768), \
                 then start this again"
            } else {
                "`clawrl policy init --positions 65536` makes one that reads more"
            };
            format!(
                "OpenClaw is not set up: it needs a model that reads {MIN_CONTEXT} tokens, and this one reads {context}; {cure}"
            )
        }
    }
}

fn install(extension: &Path) -> String {
    format!("openclaw plugins install --link {} --force --accept-capabilities", quoted(extension))
}

fn patch(config: &Path) -> String {
    format!("openclaw config patch --file {}", quoted(config))
}
