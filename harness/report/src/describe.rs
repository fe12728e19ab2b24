//! Policies, runs and endings in words, for tables and pages.

use std::path::Path;

use clawrl_core::{PolicySpec, RemoteSpec, RunId};
use clawrl_record::{Ending, Run, RunEnd, RunInfo, RunState};

use super::stats::Heading;

/// A policy in one word.
fn policy_name(policy: &PolicySpec) -> &'static str {
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
pub fn policy_and_model(policy: &PolicySpec) -> String {
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
pub fn policy_words(policy: &PolicySpec) -> String {
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
pub fn remote_words(remote: &RemoteSpec) -> String {
    format!("{}:{} at {}", remote.dialect.name(), remote.model, remote.base_url)
}

/// Why a run ended.
pub fn end_word(end: RunEnd) -> &'static str {
    match end {
        RunEnd::Completed => "completed",
        RunEnd::DemandClosed => "completed: no more was wanted",
        RunEnd::Interrupted => "interrupted",
        RunEnd::TooManyFaults => "given up after too many faults",
        RunEnd::HarnessFault => "ended by a fault of the harness",
    }
}

/// How an attempt ended.
pub fn ending_word(ending: &Ending) -> String {
    match ending {
        Ending::Finished { passed: true, .. } => "passed".to_owned(),
        Ending::Finished { score, .. } => format!("failed, score {score:.3}"),
        Ending::Faulted { boundary, code, .. } => format!("{boundary} fault `{code}`"),
        Ending::Cancelled(_) => "cancelled".to_owned(),
    }
}

/// The training of which a run is a part, if that is there.
pub fn part_of<'a>(info: &RunInfo, runs: &'a [RunInfo]) -> Option<&'a RunId> {
    let trainings = runs.iter().filter(|other| other.is_training).map(|other| &other.run);
    trainings.into_iter().find(|training| is_part_of(&info.run, training))
}

/// What a run is doing, in a word.
pub fn state_word(state: RunState) -> &'static str {
    match state {
        RunState::Running => "running",
        RunState::Finished => "finished",
        RunState::Interrupted => "interrupted",
        RunState::Damaged => "damaged",
        RunState::Unreadable => "unreadable",
    }
}

/// In minutes, in UTC.
pub fn time(ms: u64) -> String {
    let at = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.map_or("?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M").to_string())
}

/// Whether a run is one that a training of this name makes beside itself: its demonstrations, or an evaluation.
pub fn is_part_of(run: &RunId, training: &RunId) -> bool {
    let Some(part) = run.as_str().strip_prefix(training.as_str()).and_then(|rest| rest.strip_prefix('-'))
    else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match part.split_once('-') {
        None => part == "demonstrations",
        Some(("eval" | "gate", number)) => is_number(number.strip_prefix('v').unwrap_or(number)),
        Some(_) => false,
    }
}

/// Who acted in a run, and how it ended.
pub fn heading(run: &Run) -> Heading {
    let state = match (run.is_running(), run.summary().end) {
        (true, _) => "running now",
        (false, Some(end)) => end_word(end),
        (false, None) => "its process died",
    };
    let mut policy = policy_words(&run.plan().policy);
    if let Some(judge) = run.plan().judge.as_deref() {
        policy += &format!(", judge {}", remote_words(judge));
    }
    Heading { policy, state: state.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_training_are_known_by_their_names() {
        let id = |name: &str| RunId::new(name).unwrap();
        let check =
            |run: &str, expected: bool| assert_eq!(is_part_of(&id(run), &id("my")), expected, "{run}");
        for part in ["my-demonstrations", "my-eval-000050", "my-eval-v000012", "my-gate-000100"] {
            check(part, true);
        }
        for other in
            ["my", "my-eval", "my-eval-x", "my-evaluation", "my-2", "our-eval-000050", "myeval-000050"]
        {
            check(other, false);
        }
    }
}
