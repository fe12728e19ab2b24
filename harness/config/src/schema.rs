//! The JSON schemas of suites, train files, policy files, agent files, chat files and gate files, for editors. Generated from the types that read them.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::agent_file::AgentFile;
use crate::ci::CiFile;
use crate::file::SuiteFile;
use crate::policy_file::PolicyFile;
use crate::train::{ChatFile, TrainFile};

/// The schema of a suite file, draft 2020-12.
#[must_use]
pub fn json_schema() -> Value {
    schema_of::<SuiteFile>()
}

/// The schema of a train file, draft 2020-12.
#[must_use]
pub fn train_schema() -> Value {
    schema_of::<TrainFile>()
}

/// The schema of a policy file, draft 2020-12.
#[must_use]
pub fn policy_schema() -> Value {
    schema_of::<PolicyFile>()
}

/// The schema of an agent file, draft 2020-12.
#[must_use]
pub fn agent_schema() -> Value {
    schema_of::<AgentFile>()
}

/// The schema of a chat file, draft 2020-12.
#[must_use]
pub fn chat_schema() -> Value {
    schema_of::<ChatFile>()
}

/// The schema of a gate file, draft 2020-12.
#[must_use]
pub fn ci_schema() -> Value {
    schema_of::<CiFile>()
}

fn schema_of<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value()
}

/// The published schemas: path from the root of the repository, and exact text, indented with a final newline.
/// `cargo xtask generate` writes them.
#[must_use]
pub fn schema_files() -> [(&'static str, String); 6] {
    [
        ("tasks/schema/suite.schema.json", json_schema()),
        ("tasks/schema/train.schema.json", train_schema()),
        ("tasks/schema/policy.schema.json", policy_schema()),
        ("tasks/schema/agent.schema.json", agent_schema()),
        ("tasks/schema/chat.schema.json", chat_schema()),
        ("tasks/schema/ci.schema.json", ci_schema()),
    ]
    .map(|(path, schema)| (path, format!("{schema:#}\n")))
}

/// Places in which a key of suites is known, in words for authors; empty for a key that is known nowhere.
pub(crate) fn homes_of_suite_key(key: &str) -> Vec<&'static str> {
    homes(&json_schema(), key, "the suite itself", |name| match name {
        "Defaults" => Some("`defaults:`"),
        "Task" => Some("a task"),
        "Terminal" => Some("`env: terminal:`"),
        "Swe" => Some("`env: swe:`"),
        "TestNamesFrom" => Some("names of tests"),
        "Toolcall" => Some("`env: toolcall:`"),
        "Tool" => Some("a tool under `tools:`"),
        "Mcp" => Some("a server under `mcp:`"),
        "ProcessEnv" => Some("`env: process:`"),
        "HttpEnv" => Some("`env: http:`"),
        "Openenv" => Some("`env: openenv:`"),
        "InProcess" => Some("`env: in_process:`"),
        "Http" => Some("`http:` of a tool"),
        "FromEnv" => Some("a secret of the environment"),
        "Table" => Some("`table:`"),
        "Store" => Some("`store:`"),
        "Workspace" => Some("`env: toolcall: workspace:`"),
        "ImageMap" => Some("`image:`"),
        "Verifier" => Some("`verifier:`"),
        "Apart" => Some("`verifier: apart:`"),
        "ArtifactMap" => Some("an entry of `artifacts:`"),
        "Collect" => Some("an entry of `collect:`"),
        "Check" => Some("an entry of `checks:`"),
        "Reward" => Some("`reward:`"),
        "ChoiceMap" => Some("a variable of `template:`"),
        "Action" => Some("an entry of `actions:`"),
        "CallAction" => Some("`call:`"),
        "CallsMatch" => Some("`calls_match:`"),
        "ExpectedCall" => Some("an entry of `calls:`"),
        "StepReward" => Some("an entry of `step_rewards:`"),
        "Called" => Some("`called:`"),
        "Stored" => Some("`stored:`"),
        "Command" => Some("`command:`"),
        "ScriptMap" => Some("`oracle:`"),
        _ => None,
    })
}

/// The same of train files.
pub(crate) fn homes_of_train_key(key: &str) -> Vec<&'static str> {
    homes(&train_schema(), key, "the train file itself", |name| match name {
        "Policy" => Some("`policy:`"),
        "TrainSuite" => Some("an entry of `suites:`"),
        "WarmStart" => Some("`warm_start:`"),
        "Optimizer" => Some("`optimizer:`"),
        "Rl" => Some("`rl:`"),
        "Loss" => Some("`rl: loss:`"),
        "Importance" => Some("`rl: loss: importance:`"),
        "Sampling" => Some("`rl: sampling:`"),
        "Evaluation" => Some("`evaluation:`"),
        "Checkpoint" => Some("`checkpoint:`"),
        "Engine" => Some("`engine:`"),
        "Limits" => Some("`limits:`"),
        _ => None,
    })
}

/// The same of policy files.
pub(crate) fn homes_of_policy_key(key: &str) -> Vec<&'static str> {
    homes(&policy_schema(), key, "the policy file itself", |name| match name {
        "Sampling" => Some("`sampling:`"),
        "Timeouts" => Some("`timeouts:`"),
        "Prices" => Some("`prices:`"),
        _ => None,
    })
}

/// The same of agent files.
pub(crate) fn homes_of_agent_key(key: &str) -> Vec<&'static str> {
    homes(&agent_schema(), key, "the agent file itself", |name| match name {
        "AgentLimits" => Some("`limits:`"),
        _ => None,
    })
}

/// The same of chat files.
pub(crate) fn homes_of_chat_key(key: &str) -> Vec<&'static str> {
    homes(&chat_schema(), key, "the chat file itself", |name| match name {
        "Lora" => Some("`lora:`"),
        "ChatGate" => Some("`gate:`"),
        "Judging" => Some("`judging:`"),
        "TurnRule" => Some("an entry of `judging: rules:`"),
        _ => None,
    })
}

/// The same of gate files.
pub(crate) fn homes_of_ci_key(key: &str) -> Vec<&'static str> {
    homes(&ci_schema(), key, "the gate file itself", |name| match name {
        "CiSuite" => Some("an entry of `suites:`"),
        "Metric" => Some("an entry of `metrics:`"),
        "Completeness" => Some("`completeness:`"),
        "Budget" => Some("`budget:`"),
        _ => None,
    })
}

fn homes(
    schema: &Value,
    key: &str,
    root: &'static str,
    home: fn(&str) -> Option<&'static str>,
) -> Vec<&'static str> {
    let has_key = |object: &Value| object["properties"].get(key).is_some();
    let definitions = schema["$defs"].as_object().into_iter().flatten();
    let inside = definitions.filter(|(_, definition)| has_key(definition)).filter_map(|(name, _)| home(name));
    has_key(schema).then_some(root).into_iter().chain(inside).collect()
}
