//! How commands name policies and endings.

use std::path::Path;

use clawrl_core::{PolicySpec, RemoteSpec};
use clawrl_record::{Ending, RunEnd};

/// A policy in one word.
pub(super) fn policy_name(policy: &PolicySpec) -> &'static str {
    match policy {
        PolicySpec::Noop => "noop",
        PolicySpec::Oracle => "oracle",
        PolicySpec::Demonstrator { .. } => "demonstrator",
        PolicySpec::Replay { .. } => "replay",
        PolicySpec::Random { .. } => "random",
        PolicySpec::Torch { .. } => "torch",
        PolicySpec::Remote(_) => "remote",
        PolicySpec::Cassette { .. } => "cassette",
        PolicySpec::Agent(_) => "agent",
        _ => "another",
    }
}

/// A policy with the model behind it, in a word: its own name, not where it lies.
pub(super) fn policy_and_model(policy: &PolicySpec) -> String {
    let last = |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    match policy {
        PolicySpec::Demonstrator { .. } | PolicySpec::Replay { .. } => policy_words(policy),
        PolicySpec::Torch { path, .. } => format!("torch:{}", model_folder(path)),
        PolicySpec::Remote(remote) => format!("{}:{}", remote.dialect.name(), remote.model),
        PolicySpec::Cassette { path, .. } => format!("cassette:{}", last(path)),
        PolicySpec::Agent(agent) => match agent.model.as_deref() {
            Some(model) => format!("agent with {}", policy_and_model(model)),
            None => "agent".to_owned(),
        },
        other => policy_name(other).to_owned(),
    }
}

/// The end of a model's path that tells it from others: of a checkpoint, which is in a folder `model`, also the folder above.
fn model_folder(path: &Path) -> String {
    let mut parts = path.iter().rev().map(|part| part.to_string_lossy());
    let last = parts.next().unwrap_or_default();
    match parts.next().filter(|_| last == "model") {
        Some(above) => format!("{above}/{last}"),
        None => last.into_owned(),
    }
}

/// A policy with its setting.
pub(super) fn policy_words(policy: &PolicySpec) -> String {
    match policy {
        PolicySpec::Demonstrator { oracle_percent } => format!("demonstrator:{oracle_percent}"),
        PolicySpec::Replay { run } => format!("replay:{run}"),
        PolicySpec::Random { actions } => format!("random, {} actions", actions.len()),
        PolicySpec::Torch { path, temperature_milli: 0, .. } => format!("torch:{}, greedy", path.display()),
        PolicySpec::Torch { path, temperature_milli, .. } => {
            format!("torch:{}, temperature {}", path.display(), f64::from(*temperature_milli) / 1_000.0)
        }
        PolicySpec::Remote(remote) => remote_words(remote),
        PolicySpec::Cassette { path, recorded, .. } => {
            format!("cassette:{} of {}", path.display(), policy_words(recorded))
        }
        PolicySpec::Agent(agent) => {
            let model = agent.model.as_deref().map_or("its own".to_owned(), policy_words);
            format!("agent `{}`, model {model}", agent.command.join(" "))
        }
        other => policy_name(other).to_owned(),
    }
}

/// A model behind a server.
pub(super) fn remote_words(remote: &RemoteSpec) -> String {
    format!("{}:{} at {}", remote.dialect.name(), remote.model, remote.base_url)
}

/// Why a run ended.
pub(super) fn end_word(end: RunEnd) -> &'static str {
    match end {
        RunEnd::Completed => "completed",
        RunEnd::Sated => "completed: no more was wanted",
        RunEnd::Interrupted => "interrupted",
        RunEnd::TooManyFaults => "given up after too many faults",
        RunEnd::HarnessFault => "ended by a fault of the harness",
    }
}

/// How an attempt ended.
pub(super) fn ending_word(ending: &Ending) -> String {
    match ending {
        Ending::Finished { passed: true, .. } => "passed".to_owned(),
        Ending::Finished { score, .. } => format!("failed, score {score:.3}"),
        Ending::Faulted { boundary, code, .. } => format!("{boundary} fault `{code}`"),
        Ending::Cancelled(_) => "cancelled".to_owned(),
    }
}
