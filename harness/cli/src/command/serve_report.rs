//! What a person is told of a server of chat, when it starts and while it serves.
//!
//! I1. With `--json`, where it listens is told on standard output, and besides warnings nothing else. I2. Every command that is told can be
//! copied as it stands.

use std::path::{Path, PathBuf};

use clawrl_config::ChatPlan;
use clawrl_remote::Listed;
use serde_json::json;

use super::client::wrapped;
use super::openclaw::{Filling, LEAST_CONTEXT, SetUp, set_up};
use super::upstream::{Standing, UpstreamBackend};
use crate::command::serve::Arguments;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::print_json_line;
use crate::results::quoted;

/// Where `clawrl chat` looks, where nobody says.
const USUAL_BASE_URL: &str = "http://127.0.0.1:30000/v1";

/// Who tells it.
#[derive(Debug)]
pub(super) struct Telling<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) log: &'a Log,
    /// Folder of the keys and of the record.
    pub(super) data: PathBuf,
    pub(super) base_url: String,
    pub(super) key: String,
}

impl Telling<'_> {
    fn note(&self, text: &str) {
        if !self.arguments.json {
            self.log.note(format_args!("{text}"));
        }
    }

    /// Sentences, on lines that fit the terminal. Lines that begin with blanks are commands, and stay as they are (I2).
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

    /// It listens. `learning`: how it learns, or why it does not.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn listens(
        &self,
        is_new_key: bool,
        learning: Result<&ChatPlan, &str>,
        upstream: Option<&UpstreamBackend>,
    ) -> Result<(), Failure> {
        let Self { arguments, base_url, key, .. } = self;
        let key_file = self.data.join("keys");
        if arguments.json {
            print_json_line(&json!({
                "base_url": base_url, "model": arguments.name, "key_file": key_file, "pid": std::process::id(),
                "learning": learning.is_ok(),
            }))?;
            return Ok(());
        }
        self.note(&format!("{base_url} serves the model `{}`", arguments.name));
        if let Some(upstream) = upstream {
            self.note(&format!(
                "answers come from the model `{}` at {}",
                upstream.model(),
                upstream.base_url()
            ));
        }
        if is_new_key {
            self.note(&format!("key, which is told once and kept in {}: {key}", key_file.display()));
        } else {
            self.note(&format!("keys are in {}", key_file.display()));
        }
        self.note(&format!("what is said is recorded in {}", self.data.join("ledger.sqlite").display()));
        match learning {
            Ok(plan) => self.prose(&format!(
                "learning: objective {}, an update with {} samples or after {} s",
                plan.objective.name(),
                plan.train_every_turns,
                plan.train_every_secs
            )),
            Err(why) => self.prose(&format!("nothing is learned from it: {why}")),
        }
        self.note(&format!("talk to it in a terminal: {}", self.client()));
        Ok(())
    }

    /// The command of the client that finds this server and its keys.
    fn client(&self) -> String {
        let Self { arguments, base_url, .. } = self;
        let address =
            if base_url == USUAL_BASE_URL { String::new() } else { format!(" --base-url {base_url}") };
        let data =
            arguments.data.as_ref().map(|_| format!(" --data {}", quoted(&self.data))).unwrap_or_default();
        format!("clawrl chat{address}{}{data}", arguments.results.repeated())
    }

    /// Writes what OpenClaw is set up with, and tells its commands, or why there are none.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn set_up_openclaw(&self, context: Option<usize>, is_upstream: bool) -> Result<(), Failure> {
        let Self { base_url, key, data, arguments, .. } = self;
        let filling = Filling { base_url, key, model: &arguments.name, context };
        let set_up = set_up(data, &filling).map_err(|(path, error)| {
            Failure::new(Exit::Results, format!("{} cannot be written: {error}", path.display()))
        })?;
        self.prose(&openclaw(&set_up, is_upstream));
        Ok(())
    }

    /// How it stands with the model's server.
    pub(super) fn standing(&self, upstream: &UpstreamBackend, standing: &Standing) {
        let place = upstream.base_url();
        match standing {
            // A server may do without a list.
            Standing::Trouble(trouble) if trouble.is_without_list() => self.warn(&format!(
                "the server at {place} has no list of models: {}; if it answers chat all the same, nothing is amiss",
                trouble.message
            )),
            Standing::Trouble(trouble) => self.warn(&format!(
                "the model's server at {place} does not answer: {}; requests end with status 503 until it does; it is asked again by itself",
                trouble.message
            )),
            Standing::Answers => self.note(&format!("the model's server at {place} answers now")),
            Standing::Unknown => self.note(&format!("the model's server at {place} has not answered yet")),
        }
    }

    /// It takes no more requests.
    pub(super) fn ends(&self) {
        self.note("answers that have begun come to their end; Ctrl-C again cuts them");
    }

    /// What the list of the model's server says of the model.
    pub(super) fn listed(&self, upstream: &UpstreamBackend, listed: &Listed) {
        if !listed.others.is_empty() {
            self.warn(&format!(
                "the server at {} does not list the model `{}`, and may refuse it; it lists {}",
                upstream.base_url(),
                upstream.model(),
                listed.others.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ));
        }
    }
}

/// How OpenClaw is set up.
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
                "OpenClaw is not set up: it needs a model that reads {LEAST_CONTEXT} tokens, and this one reads {context}; {cure}"
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
