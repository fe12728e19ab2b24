//! `--redact-env`: secrets that stay out of what a run stores.
//!
//! I1. No message shows a value, only the names of variables. I2. What has to be stored as it is, plan and lock file,
//! is looked at before anything is written: a value in it is refused. I3. A run that goes on redacts what it
//! redacted before, and what is added then is redacted from then on.

use std::sync::Arc;

use clawrl_core::{PolicySpec, RunId, RunPlan};
use clawrl_record::{LockFile, RedactionError, Redactor, Run};

use crate::environment;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::wiring::named_secrets;

/// A name of an environment variable, as an argument.
///
/// # Errors
/// A sentence for the command line.
pub(crate) fn variable_name(text: &str) -> Result<String, String> {
    let begins = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if begins && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        Ok(text.to_owned())
    } else {
        Err("give the name of an environment variable, as in --redact-env API_KEY, and never its value"
            .to_owned())
    }
}

/// What a run redacts: the variables that were asked for, those of the policy's and the judge's keys, and those
/// that tasks and agent files name. `None`:
/// nothing.
///
/// # Errors
/// A variable that was asked for and is not set, or whose value cannot be told from other text.
pub(crate) fn redactor(asked: &[String], plan: &RunPlan) -> Result<Option<Arc<Redactor>>, Failure> {
    let mut secrets: Vec<(String, String)> = Vec::new();
    for name in asked {
        let value = environment::named(name).ok_or_else(|| {
            let help = "set it to the secret that has to stay out of the record, or leave the name out";
            Failure::with_help(Exit::Refused, format!("{name}, which is to be redacted, is not set"), help)
        })?;
        if secrets.iter().all(|(known, _)| known != name) {
            secrets.push((name.clone(), value));
        }
    }
    let of_program = match &plan.policy {
        PolicySpec::Agent(agent) => agent.secrets.clone(),
        _ => Vec::new(),
    };
    for name in key_variables(plan).chain(named_secrets(plan).into_keys()).chain(of_program) {
        if secrets.iter().any(|(known, _)| known == &name) {
            continue;
        }
        let Some(value) = environment::named(&name) else { continue };
        let own = (name, value);
        // Servers without keys are given placeholders, which are words of ordinary texts.
        match Redactor::new([own.clone()]) {
            Err(RedactionError::TooShort { .. } | RedactionError::InMark { .. }) => {}
            _ => secrets.push(own),
        }
    }
    if secrets.is_empty() {
        return Ok(None);
    }
    let redactor = Redactor::new(secrets).map_err(|error| Failure::new(Exit::Refused, error.to_string()))?;
    Ok(Some(Arc::new(redactor)))
}

/// What a run redacts that goes on: what it redacted before, and what is asked for now. The lock file is read as it is
/// when this is called.
///
/// # Errors
/// As [`redactor`] and [`note`].
pub(crate) fn of_resumed(asked: &[String], found: &Run) -> Result<Option<Arc<Redactor>>, Failure> {
    let mut lock = found.lock_file()?;
    let names: Vec<String> = lock.redacted.iter().chain(asked).cloned().collect();
    let redactor = redactor(&names, found.plan())?;
    if let Some(redactor) = &redactor {
        note(redactor, found.plan(), &mut lock)?;
    }
    Ok(redactor)
}

/// Says what is struck out now and was not before: records that are there are never changed.
///
/// # Errors
/// The lock file cannot be read.
pub(crate) fn warn_of_new(redactor: &Redactor, found: &Run, log: &Log) -> Result<(), Failure> {
    let known = found.lock_file()?.redacted;
    for name in redactor.names().filter(|name| !known.iter().any(|known| known == name)) {
        let run = &found.plan().run;
        log.warn(format_args!(
            "{name} is redacted from now on; what run {run} recorded before stays as it is"
        ));
    }
    Ok(())
}

/// Refuses a plan or lock file that holds a value (I2), and notes in the lock file what is redacted.
///
/// # Errors
/// A value was found.
pub(crate) fn note(redactor: &Redactor, plan: &RunPlan, lock: &mut LockFile) -> Result<(), Failure> {
    lock.redacted = redactor.names().map(str::to_owned).collect();
    let stored = [("plan", redactor.found_in(plan)), ("lock file", redactor.found_in(lock))];
    match stored.into_iter().find_map(|(what, found)| Some((what, found?))) {
        None => Ok(()),
        Some((what, name)) => {
            let message = format!("the {what} of this run holds the value of {name}, and is stored as it is");
            let help = "take the value out of suites, fixtures and arguments, and start a new run; a command of \
                        `setup:` can make what the task needs";
            Err(Failure::with_help(Exit::Refused, message, help))
        }
    }
}

/// Refuses to replay replies that are not what they were.
///
/// # Errors
/// A mark stands in a reply.
pub(crate) fn refuse_changed(
    run: &RunId,
    lock: &LockFile,
    replies: &impl serde::Serialize,
) -> Result<(), Failure> {
    if lock.redacted.is_empty() {
        return Ok(());
    }
    // Marks have no character that JSON escapes.
    let text = serde_json::to_string(replies).unwrap_or_default();
    match lock.redacted.iter().find(|name| text.contains(&clawrl_record::redaction_mark(name))) {
        None => Ok(()),
        Some(name) => {
            let message =
                format!("run {run} cannot be replayed: the value of {name} was struck out of its replies");
            let help = "a recording without secrets in what the policy said can be replayed";
            Err(Failure::with_help(Exit::Refused, message, help))
        }
    }
}

/// The variables that hold the keys of a remote policy and of a judge.
fn key_variables(plan: &RunPlan) -> impl Iterator<Item = String> {
    let policy = match plan.policy.speaker() {
        PolicySpec::Remote(spec) => Some(spec.as_ref()),
        _ => None,
    };
    let models = policy.into_iter().chain(plan.judge.as_deref());
    models.filter_map(|spec| spec.key_variable()).map(|(name, _)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, fits: bool) {
        assert_eq!(variable_name(text).is_ok(), fits, "{text}");
    }

    #[test]
    fn replies_with_marks_are_not_played_again() {
        let check = |redacted: &[&str], reply: &str, refused: bool| {
            let lock = serde_json::json!({
                "format": 1, "program": "", "host": {}, "determinism": clawrl_core::Determinism::default(),
                "suites": {}, "limits_not_set": [], "redacted": redacted,
            });
            let lock: LockFile = serde_json::from_value(lock).expect("a lock file");
            let run = RunId::new("first").expect("a name");
            let reply = clawrl_core::Message::text(clawrl_core::Role::Assistant, reply);
            assert_eq!(refuse_changed(&run, &lock, &reply).is_err(), refused, "{redacted:?}, {reply:?}");
        };
        check(&["KEY"], "login [redacted KEY]", true);
        check(&["OTHER", "KEY"], "login [redacted KEY]", true);
        check(&["KEY"], "login", false);
        // What the policy said itself, in a run without secrets.
        check(&[], "login [redacted KEY]", false);
    }

    #[test]
    fn names_are_no_values() {
        check("API_KEY", true);
        check("_x1", true);
        check("1x", false);
        check("sk-live-42", false);
        check("", false);
    }
}
