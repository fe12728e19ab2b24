//! ATIF export: `ci/golden/atif.py` validates it with Harbor's own models; these tests apply the same rules more strictly.

use std::collections::BTreeMap;

use clawrl_report::Options;
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::fixture::Place;

/// Which files Harbor accepted, by the SHA-256 of their text.
const ACCEPTED: &str = include_str!("../golden/atif.json");
/// One that passed after a retry, its first attempt, which broke, and one that never began.
const SHOWN: [&str; 3] = ["s8.1", "s8.0", "s11.0"];

#[derive(Deserialize)]
struct Accepted {
    sha256: BTreeMap<String, String>,
}

/// The fields that we write, and no others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trajectory {
    schema_version: String,
    session_id: String,
    trajectory_id: String,
    agent: Agent,
    steps: Vec<Step>,
    final_metrics: FinalMetrics,
    extra: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "that they are there is what is checked")]
struct Agent {
    name: String,
    version: String,
    model_name: Option<String>,
    #[serde(default)]
    tool_definitions: Vec<Map<String, Value>>,
    extra: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "that they are there is what is checked")]
struct Step {
    step_id: usize,
    source: Source,
    message: String,
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
    observation: Option<Observation>,
    metrics: Option<Map<String, Value>>,
    llm_call_count: Option<u32>,
    extra: Option<Map<String, Value>>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Source {
    System,
    User,
    Agent,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "that they are there is what is checked")]
struct ToolCall {
    tool_call_id: String,
    function_name: String,
    arguments: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Observation {
    results: Vec<Answer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "that they are there is what is checked")]
struct Answer {
    source_call_id: Option<String>,
    content: String,
    extra: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "that they are there is what is checked")]
struct FinalMetrics {
    total_steps: usize,
    total_prompt_tokens: Option<u64>,
    total_completion_tokens: Option<u64>,
    total_cached_tokens: Option<u64>,
    total_cost_usd: Option<f64>,
}

fn exported() -> BTreeMap<String, String> {
    let place = Place::with_run();
    let folder = place.path().join("atif");
    let made = place.report_with(&Options { atif: Some(folder.clone()), ..Options::default() });
    assert_eq!(made.exported_atif, 17);
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn files_match_harbors_models() {
    let files = exported();
    let accepted: Accepted = serde_json::from_str(ACCEPTED).unwrap();
    for attempt in SHOWN {
        // Read these first when the hashes differ, then run `ci/golden/atif.py`.
        insta::assert_snapshot!(format!("atif_{attempt}"), files[attempt]);
    }
    for attempt in SHOWN {
        let sha256: String = Sha256::digest(files[attempt].trim().as_bytes())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let listed = accepted.sha256.get(&format!("atif_{attempt}"));
        assert_eq!(listed, Some(&sha256), "{attempt} is not what Harbor accepted");
    }
}

#[test]
fn every_file_keeps_the_rules_of_the_format() {
    for (attempt, text) in exported() {
        let trajectory: Trajectory =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{attempt}: {error}"));
        assert_eq!(
            (trajectory.schema_version.as_str(), trajectory.session_id.as_str()),
            ("ATIF-v1.8", "fixture")
        );
        assert_eq!(trajectory.trajectory_id, format!("fixture/{attempt}"));
        assert_eq!((trajectory.agent.name.as_str(), trajectory.agent.version.as_str()), ("clawrl", "0.1.0"));
        assert!(!trajectory.steps.is_empty() && trajectory.extra.contains_key("outcome"));
        assert_eq!(trajectory.final_metrics.total_steps, trajectory.steps.len());
        // One of the three turns has tokens; attempts that never began have no turn.
        let tokens = (trajectory.steps.len() > 1).then_some(34);
        assert_eq!(trajectory.final_metrics.total_completion_tokens, tokens, "{attempt}");
        for (at, step) in trajectory.steps.iter().enumerate() {
            assert_eq!(step.step_id, at + 1, "{attempt}");
            let ids: Vec<&str> = step.tool_calls.iter().map(|call| call.tool_call_id.as_str()).collect();
            let distinct: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
            assert_eq!(ids.len(), distinct.len(), "{attempt}: {ids:?}");
            for answer in step.observation.iter().flat_map(|observation| &observation.results) {
                assert!(
                    answer.source_call_id.as_ref().is_none_or(|id| ids.contains(&id.as_str())),
                    "{attempt}"
                );
            }
            if step.source == Source::Agent {
                assert_eq!(step.llm_call_count, step.metrics.as_ref().map(|_| 1), "{attempt}");
            } else {
                assert!(ids.is_empty() && step.metrics.is_none());
            }
        }
    }
}
