//! The executed calls of an episode.
//!
//! L1. Refused calls are not in it.
//! L2. A call is added before its result is known, so one that never returns is included.

use clawrl_core::{CallPattern, ToolCall};
use clawrl_workspace::equal_json;

use crate::toolbox::SUBMIT;

/// The calls, in order.
#[derive(Debug, Default)]
pub(crate) struct CallLog {
    calls: Vec<ToolCall>,
}

impl CallLog {
    /// All calls except `submit`.
    pub(crate) fn of_tools(&self) -> Vec<&ToolCall> {
        self.calls.iter().filter(|call| call.name != SUBMIT).collect()
    }

    pub(crate) fn note(&mut self, call: &ToolCall) {
        self.calls.push(call.clone());
    }

    pub(crate) fn count(&self, tool: &str) -> usize {
        self.calls.iter().filter(|call| call.name == tool).count()
    }

    /// Number of calls whose tool satisfies a predicate.
    pub(crate) fn count_of(&self, is_one: impl Fn(&str) -> bool) -> usize {
        self.calls.iter().filter(|call| is_one(&call.name)).count()
    }

    /// Number of calls that match a pattern.
    pub(crate) fn matching(&self, pattern: &CallPattern) -> usize {
        self.calls.iter().filter(|call| fits(call, pattern)).count()
    }

    /// How many of the patterns, from the first on, match calls in this order.
    pub(crate) fn in_order(&self, patterns: &[CallPattern]) -> usize {
        let mut found = 0;
        for call in &self.calls {
            if patterns.get(found).is_some_and(|pattern| fits(call, pattern)) {
                found += 1;
            }
        }
        found
    }
}

fn fits(call: &ToolCall, pattern: &CallPattern) -> bool {
    call.name == pattern.tool
        && pattern
            .arguments
            .iter()
            .all(|(name, wanted)| call.arguments.get(name).is_some_and(|found| equal_json(found, wanted)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn call_log() -> CallLog {
        let mut call_log = CallLog::default();
        for (tool, arguments) in [
            ("add", json!({"a": 1, "b": 2})),
            ("find", json!({"key": "x", "deep": {"n": [1]}})),
            ("add", json!({"a": 3, "b": 2.0})),
        ] {
            call_log.note(&ToolCall::new(tool, arguments));
        }
        call_log
    }

    fn pattern(tool: &str, arguments: Value) -> CallPattern {
        let Value::Object(arguments) = arguments else { panic!("{arguments} is no object") };
        CallPattern { tool: tool.to_owned(), arguments }
    }

    #[test]
    fn pattern_matches_calls_with_more_arguments() {
        let check = |tool: &str, arguments: Value, expected: usize| {
            assert_eq!(
                call_log().matching(&pattern(tool, arguments.clone())),
                expected,
                "{tool} {arguments}"
            );
        };
        check("add", json!({}), 2);
        check("add", json!({"b": 2}), 2);
        check("add", json!({"a": 1.0}), 1);
        check("add", json!({"a": "1"}), 0);
        check("add", json!({"c": 1}), 0);
        check("find", json!({"deep": {"n": [1.0]}}), 1);
        check("find", json!({"deep": {}}), 0);
        check("other", json!({}), 0);
    }

    #[test]
    fn order_counts_from_the_first_on() {
        let check = |tools: &[&str], expected: usize| {
            let patterns: Vec<_> = tools.iter().map(|tool| pattern(tool, json!({}))).collect();
            assert_eq!(call_log().in_order(&patterns), expected, "{tools:?}");
        };
        check(&["add", "find", "add"], 3);
        check(&["add", "add"], 2);
        check(&["find", "find"], 1);
        check(&["other", "add"], 0);
        check(&[], 0);
    }
}
