//! Cassettes of policies: the request that each policy makes, and playing and writing of cassettes.
//!
//! I1. Compared and stored requests do not contain the run's secrets. I2. A file that differs from the plan's is refused before
//! anything starts.

use std::path::Path;
use std::sync::Arc;

use clawrl_cassette::{
    Cassette, CassetteError, CassettePolicy, ModelRequest, Origin, RecordingPolicy, Reply, Show,
};
use clawrl_core::{
    Action, ActionFormat, AttemptRecord, Message, Policy, PolicySpec, RemoteSpec, RunId, RunPlan, ToolSpec,
};
use clawrl_remote::Told;
use clawrl_scheduler::{context, reply_seed};
use clawrl_scripted::recorded_action;
use serde_json::{Map, Value, json};

use super::policy::PolicyResources;
use crate::error::RuntimeError;
use crate::host::facts;

/// Settings of a remote policy that a model's reply may depend on. The server's address, timeouts and prices are not among them.
const DECISIVE: [&str; 6] = ["dialect", "model", "sampling", "tools", "headers", "body"];

impl PolicyResources {
    /// Wraps a policy so that its replies are recorded, if there is a recorder.
    pub(super) fn recording(&self, policy: Arc<dyn Policy>, spec: &PolicySpec) -> Arc<dyn Policy> {
        match &self.recorder {
            None => policy,
            Some(recorder) => Arc::new(RecordingPolicy::new(policy, self.show(spec), Arc::clone(recorder))),
        }
    }

    /// The function from a request to what this policy shows its model, without secrets (I1).
    fn show(&self, spec: &PolicySpec) -> Show {
        let (spec, redactor) = (spec.clone(), self.redactor.clone());
        Arc::new(move |request| {
            let format = request.task.action_format;
            let mut asked = asked_of(&spec, format, request.conversation.to_vec(), request.tools);
            if let Some(redactor) = &redactor {
                redactor.redact_prompt(&mut asked.messages, &mut asked.tools);
            }
            asked
        })
    }
}

/// The request that this policy makes to its model, for a task with this action format.
fn asked_of(
    spec: &PolicySpec,
    format: ActionFormat,
    mut messages: Vec<Message>,
    tools: &[ToolSpec],
) -> ModelRequest {
    match spec.speaker() {
        PolicySpec::Remote(settings) => {
            let told = Told::of(settings, format, tools);
            let system = told.system.map(|text| Message::text(clawrl_core::Role::System, text));
            messages.splice(0..0, system);
            ModelRequest { settings: decisive(settings), messages, tools: told.tools.to_vec() }
        }
        embedded @ PolicySpec::Torch { .. } => {
            // With plain-text actions, the embedded policy gets no tool descriptions.
            let described = matches!(format, ActionFormat::Hermes | ActionFormat::ToolCalls);
            let tools = if described { tools.to_vec() } else { Vec::new() };
            ModelRequest { settings: json!(embedded), messages, tools }
        }
        scripted => ModelRequest { settings: json!({ "policy": scripted }), messages, tools: tools.to_vec() },
    }
}

/// The settings that affect a reply.
fn decisive(settings: &RemoteSpec) -> Value {
    let mut all = match json!(settings) {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    all.retain(|name, _| DECISIVE.contains(&name.as_str()));
    if let Some(Value::Object(mut sampling)) = all.remove("sampling") {
        // Only the name of a request field.
        sampling.remove("max_tokens_field");
        all.extend(sampling);
    }
    Value::Object(all)
}

/// The policy that plays the cassette of a plan.
///
/// # Errors
/// The file cannot be read, is not a cassette, or has changed since the plan was made (I2).
pub(super) fn played(
    path: &Path,
    sha256: &str,
    recorded: &PolicySpec,
    resources: &PolicyResources,
) -> Result<Arc<dyn Policy>, RuntimeError> {
    let (cassette, found) = Cassette::read(path).map_err(|error| unreadable(&error))?;
    if found != sha256 {
        let message = format!("the cassette {} is not the one that the run began with", path.display());
        return Err(RuntimeError::refused(message).with_help("start a new run, or put the old file back"));
    }
    Ok(Arc::new(CassettePolicy::new(cassette, resources.show(recorded))))
}

/// The replies of an attempt with their requests: a function of the record (I4 of the architecture).
pub fn replies_of(plan: &RunPlan, record: &AttemptRecord) -> Vec<Reply> {
    let Some(slot) = plan.slots.get(record.attempt.slot.0 as usize) else { return Vec::new() };
    let task = plan.task_of(slot);
    let trajectory = &record.trajectory;
    let mut tools: &[ToolSpec] = &trajectory.reset.tools;
    let mut replies = Vec::with_capacity(trajectory.turns.len());
    for (turn, said) in (0u32..).zip(&trajectory.turns) {
        let messages = context(&trajectory.prompt, &trajectory.turns[..turn as usize]);
        let asked = asked_of(&plan.policy, task.action_format, messages, tools);
        let said_now = Action { usage: said.usage.clone(), ..recorded_action(said) };
        replies.push(Reply::new(task.id.clone(), turn, reply_seed(slot, turn), 0, asked, said_now));
        if !said.observation.tools.is_empty() {
            tools = &said.observation.tools;
        }
    }
    replies
}

/// The origin of a run's replies.
pub fn origin_of(run: RunId, spec: &PolicySpec, redacted: Vec<String>) -> Origin {
    Origin { program: facts::PROGRAM.to_owned(), run, policy: spec.speaker().clone(), redacted }
}

/// The error of a file that is not a usable cassette.
pub fn unreadable(error: &CassetteError) -> RuntimeError {
    let help = match error {
        CassetteError::Io { .. } | CassetteError::NoCassette { .. } => {
            "`clawrl cassette record RUN -o FILE` writes one"
        }
        CassetteError::Newer { .. } => "play it with the version of ClawRL that wrote it, or a later one",
        _ => "record it anew: `clawrl cassette record RUN -o FILE`",
    };
    RuntimeError::refused(error.to_string()).with_help(help)
}

/// The error of a cassette that cannot be written.
pub fn unwritable(error: &CassetteError) -> RuntimeError {
    match error {
        CassetteError::Exists { .. } => {
            RuntimeError::refused(error.to_string()).with_help("name another file, or remove this one")
        }
        _ => RuntimeError::storage(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clawrl_core::{RemoteDialect, Role};

    use super::*;

    fn tool() -> ToolSpec {
        ToolSpec {
            name: "run".to_owned(),
            description: "Runs it.".to_owned(),
            parameters: json!({ "type": "object" }),
            text_argument: Some("command".to_owned()),
        }
    }

    fn remote(change: impl Fn(&mut RemoteSpec)) -> PolicySpec {
        let mut spec = RemoteSpec::usual(RemoteDialect::Openai, "http://s/v1".to_owned(), "m".to_owned());
        change(&mut spec);
        PolicySpec::Remote(Box::new(spec))
    }

    fn shown(spec: &PolicySpec, format: ActionFormat) -> ModelRequest {
        asked_of(spec, format, vec![Message::text(Role::User, "Do it.")], &[tool()])
    }

    #[test]
    fn what_decides_a_reply_is_compared_and_nothing_else() {
        let check = |change: &dyn Fn(&mut RemoteSpec), is_decisive: bool| {
            let usual = shown(&remote(|_| {}), ActionFormat::Raw);
            let changed = shown(&remote(change), ActionFormat::Raw);
            assert_eq!(usual != changed, is_decisive, "{usual:?} {changed:?}");
        };
        check(&|spec| spec.model = "other".to_owned(), true);
        check(&|spec| spec.sampling.temperature_milli = Some(200), true);
        check(&|spec| spec.system = Some("Be brief.".to_owned()), true);
        check(&|spec| drop(spec.body.insert("top_k".to_owned(), json!(3))), true);
        check(&|spec| spec.base_url = "http://other/v1".to_owned(), false);
        check(&|spec| spec.tries = 1, false);
        check(&|spec| spec.concurrency = 1, false);
        check(&|spec| spec.stream = false, false);
    }

    #[test]
    fn tools_are_compared_where_a_model_is_told_of_them() {
        let roles =
            |asked: &ModelRequest| asked.messages.iter().map(|message| message.role).collect::<Vec<_>>();
        let in_text = shown(&remote(|_| {}), ActionFormat::Raw);
        assert_eq!((roles(&in_text), in_text.tools.len()), (vec![Role::System, Role::User], 0));
        let native = shown(&remote(|_| {}), ActionFormat::ToolCalls);
        assert_eq!((roles(&native), native.tools.len()), (vec![Role::User], 1));
        let torch = PolicySpec::Torch { path: "model".into(), temperature_milli: 0, max_new_tokens: 8 };
        assert_eq!(shown(&torch, ActionFormat::Raw).tools.len(), 0);
        assert_eq!(shown(&torch, ActionFormat::Hermes).tools.len(), 1);
        // A scripted policy uses the tools to check its actions.
        assert_eq!(shown(&PolicySpec::Oracle, ActionFormat::Raw).tools.len(), 1);
    }

    #[test]
    fn a_cassette_shows_what_its_policy_showed() {
        let remote = remote(|_| {});
        let recorded = Box::new(remote.clone());
        let cassette = PolicySpec::Cassette { path: "c".into(), sha256: String::new(), recorded };
        assert_eq!(shown(&cassette, ActionFormat::Raw), shown(&remote, ActionFormat::Raw));
    }
}
