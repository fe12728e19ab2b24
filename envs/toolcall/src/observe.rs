//! Converts the results of one action's calls to the policy's observation and the record's facts.
//!
//! Each result starts with its tool's name in brackets, and the call's id if it has one; results are in the order of
//! the calls. A one-line result follows the name, a longer one starts below it.

use clawrl_core::{Observation, ToolCall, fit_texts};
use serde_json::{Value, json};

use crate::result::{CallResult, Outcome};

/// Maximum characters of a call's id that are shown; the policy chose it.
const ID_CHARS: usize = 64;

/// Stands for an empty result.
const NOTHING: &str = "(no output)";

/// The observation of these results, with at most `budget` characters of them.
pub(crate) fn observation(results: &[(&ToolCall, CallResult)], budget: usize) -> Observation {
    let texts: Vec<&str> = results.iter().map(|(_, result)| shown_text(result)).collect();
    let cut = fit_texts(&texts, budget);
    let joined = |text_of: &dyn Fn(usize) -> String| {
        let lines = results.iter().enumerate().map(|(index, (call, _))| titled(call, &text_of(index)));
        lines.collect::<Vec<_>>().join("\n")
    };
    let text = joined(&|index| cut[index].clone().unwrap_or_else(|| texts[index].to_owned()));
    let is_cut = cut.iter().any(Option::is_some);
    let mut observation = Observation::from_text(text);
    observation.full_text = is_cut.then(|| joined(&|index| texts[index].to_owned()));
    if !results.is_empty() {
        let calls: Value = results.iter().map(|(call, result)| facts(call, result)).collect();
        observation.facts.insert("calls".to_owned(), calls);
    }
    observation
}

fn shown_text(result: &CallResult) -> &str {
    let text = result.text.trim_end_matches('\n');
    if text.is_empty() { NOTHING } else { text }
}

fn titled(call: &ToolCall, text: &str) -> String {
    let id: String = call.id.chars().filter(|character| !character.is_control()).take(ID_CHARS).collect();
    let space = if id.is_empty() { "" } else { " " };
    let between = if text.contains('\n') { "\n" } else { " " };
    format!("[{}{space}{id}]{between}{text}", call.name)
}

fn facts(call: &ToolCall, result: &CallResult) -> Value {
    let mut facts = json!({ "tool": call.name, "outcome": result.outcome.name() });
    if let Some(code) = result.exit_code {
        facts["exit_code"] = code.into();
    }
    if result.outcome == Outcome::Refused {
        facts["refused"] = result.text.trim_start_matches("error: ").into();
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(results: &[(&ToolCall, CallResult)], budget: usize, expected: &str, is_cut: bool) {
        let observation = observation(results, budget);
        assert_eq!(observation.joined_text(), expected);
        assert_eq!(observation.full_text.is_some(), is_cut);
    }

    #[test]
    fn results_carry_their_names_in_order() {
        let add = ToolCall::new("add", json!({}));
        let find = ToolCall { id: "call\n7".to_owned(), ..ToolCall::new("find", json!({})) };
        let results = [(&add, CallResult::done("3")), (&find, CallResult::done("one\ntwo\n"))];
        check(&results, 100, "[add] 3\n[find call7]\none\ntwo", false);
        check(&results, 5, "[add] 3\n[find call7]\none\n", true);
        check(&[], 100, "", false);
        check(&[(&add, CallResult::done(""))], 100, "[add] (no output)", false);
        check(&[(&add, CallResult::refused("no"))], 100, "[add] error: no", false);
        let facts = observation(&[(&add, CallResult::refused("no"))], 9).facts;
        assert_eq!(facts["calls"], json!([{"tool": "add", "outcome": "refused", "refused": "no"}]));
    }
}
