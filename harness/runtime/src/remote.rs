//! A model behind a server as the policy or the judge of a run: its key, and a check of the server before anything starts.
//!
//! I1. The key goes from the environment into the policy and nowhere else. I2. The check has its own runtime, which ends before
//! the spawner starts.

use std::sync::Arc;

use clawrl_core::{ActionFormat, Policy, RemoteSpec, RunPlan, ToolUse};
use clawrl_remote::{PreflightError, RemoteError, RemotePolicy, RemoteScorer, Secret, Vocabulary, preflight};
use tokio::runtime::Builder;

use crate::environment;
use crate::error::RuntimeError;

/// Makes the policy after checking that its server answers, accepts the key and has the model.
///
/// # Errors
/// The check failed; the error contains a fix.
pub(crate) fn remote_policy(settings: &RemoteSpec, plan: &RunPlan) -> Result<Arc<dyn Policy>, RuntimeError> {
    refuse_tool_calls_in_text(settings, plan)?;
    remote_model(settings, "remote policy")
}

/// Makes the model after the same check. `what`: its purpose, for messages.
///
/// # Errors
/// The check failed; the error contains a fix.
pub(super) fn remote_model(settings: &RemoteSpec, what: &str) -> Result<Arc<dyn Policy>, RuntimeError> {
    let key = key_of(settings)?;
    warn_of_open_key(settings, key.is_some());
    let unusable = |error| unusable(&error, what);
    // Connections belong to the runtime that opened them, so the check has its own policy, too.
    let looking = RemotePolicy::new(settings.clone(), key.clone()).map_err(unusable)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| {
        RuntimeError::unavailable(format!("cannot start threads: {error}")).with_help("raise `ulimit -u`")
    })?;
    runtime.block_on(preflight(&looking)).map_err(|error| unfit(&error))?;
    drop(runtime);
    Ok(Arc::new(RemotePolicy::new(settings.clone(), key).map_err(unusable)?))
}

/// Makes a scorer of existing tokens, without a request to the server. `what`: its purpose, for messages.
///
/// # Errors
/// The settings do not give a valid request.
pub fn remote_scorer(
    settings: &RemoteSpec,
    key: Option<Secret>,
    vocabulary: Arc<Vocabulary>,
    what: &str,
) -> Result<RemoteScorer, RuntimeError> {
    warn_of_open_key(settings, key.is_some());
    RemoteScorer::new(settings.clone(), key, vocabulary).map_err(|error| unusable(&error, what))
}

/// The error of settings that do not give a valid request. `what`: their purpose, for the message.
pub fn unusable(error: &RemoteError, what: &str) -> RuntimeError {
    let message = format!("the {what} cannot be used: {error}");
    match error {
        RemoteError::Certificates(_) => RuntimeError::unavailable(message),
        RemoteError::Settings(_) => RuntimeError::refused(message),
    }
}

/// The key of a server, if it requires one.
///
/// # Errors
/// The variable is not set, or does not contain a key.
pub fn key_of(settings: &RemoteSpec) -> Result<Option<Secret>, RuntimeError> {
    let Some((name, required)) = settings.key_variable() else { return Ok(None) };
    let Some(value) = environment::named(name) else {
        if !required {
            return Ok(None);
        }
        let help =
            format!("export {name}=..., or name another variable; servers that ask for no key: `none`");
        return Err(RuntimeError::refused(format!("{name}, which holds the key, is not set")).with_help(help));
    };
    let secret = Secret::new(&value).ok_or_else(|| {
        let help =
            format!("set {name} to the key and nothing else: letters, digits and signs, without spaces");
        RuntimeError::refused(format!("what {name} holds is no key")).with_help(help)
    })?;
    Ok(Some(secret))
}

/// Warns of a key that is sent unencrypted to another machine.
pub fn warn_of_open_key(settings: &RemoteSpec, sent: bool) {
    let Some(rest) = settings.base_url.strip_prefix("http://") else { return };
    let host = rest.split('/').next().unwrap_or_default();
    let is_near = ["localhost", "127.", "[::1]"].iter().any(|near| host.starts_with(near));
    if sent && !is_near {
        tracing::warn!("the key goes to {host} unencrypted; use https:// if the server has it");
    }
}

fn refuse_tool_calls_in_text(settings: &RemoteSpec, plan: &RunPlan) -> Result<(), RuntimeError> {
    let wanted = plan.tasks.iter().find(|task| task.action_format == ActionFormat::ToolCalls);
    match wanted {
        Some(task) if settings.tools == ToolUse::Text => {
            let message = format!(
                "the actions of task {} are tool calls, and the policy offers tools in text",
                task.id
            );
            Err(RuntimeError::refused(message).with_help("write `tools: auto` into the policy file"))
        }
        _ => Ok(()),
    }
}

fn unfit(error: &PreflightError) -> RuntimeError {
    let (message, help) = match error.message.rsplit_once("; ") {
        Some((message, help)) => (message, help.to_owned()),
        None => {
            (error.message.as_str(), "look at the server's own log; the run can be started again".to_owned())
        }
    };
    let help = match error.models.as_slice() {
        [] => help,
        models => format!("it has: {}", models.join(", ")),
    };
    let message = format!("{message} ({})", error.code);
    let unfit = if error.may_pass { RuntimeError::unavailable } else { RuntimeError::refused };
    unfit(message).with_help(help)
}
