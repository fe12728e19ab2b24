//! `--redact-env`: which secrets a run keeps out of its records.
//!
//! I1. Messages show the names of variables, never a value. I2. Plan and lock file are stored unchanged, so a plan or lock
//! file with a value in it is refused before anything is written. I3. A resumed run redacts the same variables as before,
//! and those that are added, from then on.

use std::sync::Arc;

use clawrl_core::{PolicySpec, RunId, RunPlan};
use clawrl_record::{LockFile, RedactionError, Redactor, Run};

use crate::environment;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::wiring::named_secrets;

/// Parses the name of an environment variable.
///
/// # Errors
/// A message for the command line.
pub(crate) fn variable_name(text: &str) -> Result<String, String> {
    let begins = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if begins && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        Ok(text.to_owned())
    } else {
        Err("give the name of an environment variable, as in --redact-env API_KEY, and never its value"
            .to_owned())
    }
}

/// Redacts the variables in `asked`, the keys of policy and judge, and the secrets that tasks and agent files name. `None` if
/// there are none.
///
/// # Errors
/// A variable in `asked` is not set, or its value cannot be told from other text.
pub(crate) fn redactor(asked: &[String], plan: &RunPlan) -> Result<Option<Arc<Redactor>>, Failure> {
    let mut secrets: Vec<(String, String)> = Vec::new();
    for name in asked {
        let value = environment::named(name).ok_or_else(|| {
            let help = "set it to the secret, or drop the option";
            Failure::with_help(Exit::Refused, format!("{name}, which is to be redacted, is not set"), help)
        })?;
        if secrets.iter().all(|(known, _)| known != name) {
            secrets.push((name.clone(), value));
        }
    }
    let agent_secrets = match &plan.policy {
        PolicySpec::Agent(agent) => agent.secrets.clone(),
        _ => Vec::new(),
    };
    for name in key_variables(plan).chain(named_secrets(plan).into_keys()).chain(agent_secrets) {
        if secrets.iter().any(|(known, _)| known == &name) {
            continue;
        }
        let Some(value) = environment::named(&name) else { continue };
        let secret = (name, value);
        // Keys of servers that need none are placeholders: words of ordinary texts.
        match Redactor::new([secret.clone()]) {
            Err(RedactionError::TooShort { .. } | RedactionError::InMark { .. }) => {}
            _ => secrets.push(secret),
        }
    }
    if secrets.is_empty() {
        return Ok(None);
    }
    let redactor = Redactor::new(secrets).map_err(|error| Failure::new(Exit::Refused, error.to_string()))?;
    Ok(Some(Arc::new(redactor)))
}

/// Redacts what a resumed run redacted before, and the variables in `asked`. Reads the current lock file.
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

/// Warns of variables that are redacted from now on: existing records are never changed.
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

/// Lists the redacted variables in the lock file, and refuses a plan or lock file that holds a value (I2).
///
/// # Errors
/// A value was found.
pub(crate) fn note(redactor: &Redactor, plan: &RunPlan, lock: &mut LockFile) -> Result<(), Failure> {
    lock.redacted = redactor.names().map(str::to_owned).collect();
    let stored = [("plan", redactor.found_in(plan)), ("lock file", redactor.found_in(lock))];
    match stored.into_iter().find_map(|(what, found)| Some((what, found?))) {
        None => Ok(()),
        Some((what, name)) => {
            let message =
                format!("the {what} of this run holds the value of {name}, and is stored unredacted");
            let help = "remove the value from suites, fixtures and arguments, and start a new run; a `setup:` command \
                        can create what the task needs";
            Err(Failure::with_help(Exit::Refused, message, help))
        }
    }
}

/// Refuses to replay redacted replies.
///
/// # Errors
/// A reply holds a mark.
pub(crate) fn refuse_changed(
    run: &RunId,
    lock: &LockFile,
    replies: &impl serde::Serialize,
) -> Result<(), Failure> {
    if lock.redacted.is_empty() {
        return Ok(());
    }
    // JSON escapes no character of a mark.
    let text = serde_json::to_string(replies).unwrap_or_default();
    match lock.redacted.iter().find(|name| text.contains(&clawrl_record::redaction_mark(name))) {
        None => Ok(()),
        Some(name) => {
            let message = format!(
                "run {run} cannot be replayed: its replies held the value of {name}, which was redacted"
            );
            let help = "replay a run whose replies hold no secrets";
            Err(Failure::with_help(Exit::Refused, message, help))
        }
    }
}

/// The variables with the keys of a remote policy and of a judge.
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
    fn redacted_replies_are_not_replayed() {
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
        // Without secrets, the policy wrote the mark itself.
        check(&[], "login [redacted KEY]", false);
    }

    #[test]
    fn variable_names_are_checked() {
        check("API_KEY", true);
        check("_x1", true);
        check("1x", false);
        check("sk-live-42", false);
        check("", false);
    }
}
