//! All checks that do not need a workspace.

use std::collections::BTreeMap;

use clawrl_core::{Check, CheckReport, CheckSpec, Fault};
use clawrl_workspace::{Finding, check_answer, check_invalid, quote};

use super::expected;
use crate::action_calls::State;

/// Characters shown of a value.
const SHOWN: usize = 60;

/// Reports of the checks that do not need a workspace, by their indices.
///
/// # Errors
/// A permanent grader [`Fault`] for a check that cannot be evaluated.
pub(crate) fn by_rule(checks: &[CheckSpec], state: &State) -> Result<BTreeMap<usize, CheckReport>, Fault> {
    let mut reports = BTreeMap::new();
    for (place, spec) in checks.iter().enumerate() {
        if let Some(finding) = find(&spec.check, state)? {
            reports.insert(place, finding.report(spec));
        }
    }
    Ok(reports)
}

fn find(check: &Check, state: &State) -> Result<Option<Finding>, Fault> {
    Ok(Some(match check {
        Check::Answer(check) => check_answer(check, state.answer.as_deref())?,
        Check::Called { call, at_least, at_most } => {
            let found = state.call_log.matching(call);
            let fits = found >= *at_least as usize && at_most.is_none_or(|most| found <= most as usize);
            let wanted = match at_most {
                None => format!("at least {at_least}"),
                Some(most) if most == at_least => format!("{most}"),
                Some(most) => format!("{at_least} to {most}"),
            };
            Finding::of(fits, format_args!("expected {wanted}, found {found} of such calls"))
        }
        Check::CalledInOrder { calls } => {
            let found = state.call_log.in_order(calls);
            match calls.get(found) {
                None => Finding::pass(format_args!("all {found} calls, in order")),
                Some(missing) => Finding {
                    score: found as f64 / calls.len() as f64,
                    ..Finding::fail(format_args!(
                        "found {found} of {} calls in order; the next would be of {}",
                        calls.len(),
                        quote(missing.tool.as_bytes(), SHOWN)
                    ))
                },
            }
        }
        Check::CallsMatch { calls, ordered, exactly } => {
            let all = state.call_log.of_tools();
            let found = expected::found(&all, calls, *ordered);
            let fits = found == calls.len() && (!exactly || all.len() == found);
            let order = if *ordered { ", in this order" } else { "" };
            let others = if *exactly { " and no other" } else { "" };
            let wanted = calls.len();
            Finding::of(
                fits,
                format_args!(
                    "expected {wanted} calls{order}{others}: found {found}, of {} in all",
                    all.len()
                ),
            )
        }
        Check::Stored { tool, key, equals } => {
            let store = state.stores.get(tool);
            let store = store.ok_or_else(|| check_invalid(format_args!("there is no store {tool:?}")))?;
            let found = store.get(key);
            let shown = |value: Option<&str>| match value {
                Some(value) => quote(value.as_bytes(), SHOWN),
                None => "no such key".to_owned(),
            };
            let wanted = equals.as_deref();
            Finding::of(found == wanted, format_args!("expected {}, found {}", shown(wanted), shown(found)))
        }
        // For the workspace, or for a judge.
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use clawrl_core::{AnswerCheck, CallPattern, ExpectedCall, ToolCall};
    use serde_json::json;

    use super::*;
    use crate::tools::Store;

    fn state() -> State {
        let mut state = State { answer: Some("42".to_owned()), ..State::default() };
        for tool in ["find", "add", "add"] {
            state.call_log.note(&ToolCall::new(tool, json!({})));
        }
        state
            .stores
            .insert("notes".to_owned(), Store::new(&BTreeMap::from([("k".to_owned(), "v".to_owned())])));
        state
    }

    fn pattern(tool: &str) -> CallPattern {
        CallPattern { tool: tool.to_owned(), arguments: serde_json::Map::new() }
    }

    fn check(check: Check, expected: Option<(f64, &str)>) {
        let spec = CheckSpec { label: "l".to_owned(), weight: 2.0, check };
        let reports = by_rule(std::slice::from_ref(&spec), &state()).unwrap();
        let found = reports.get(&0).map(|report| (report.score, report.message.as_str()));
        assert_eq!(found, expected, "{:?}", spec.check);
    }

    #[test]
    fn calls_are_counted() {
        let called = |tool: &str, at_least, at_most| Check::Called { call: pattern(tool), at_least, at_most };
        check(called("add", 1, None), Some((1.0, "expected at least 1, found 2 of such calls")));
        check(called("add", 3, None), Some((0.0, "expected at least 3, found 2 of such calls")));
        check(called("add", 1, Some(2)), Some((1.0, "expected 1 to 2, found 2 of such calls")));
        check(called("add", 0, Some(0)), Some((0.0, "expected 0, found 2 of such calls")));
        check(called("sub", 0, Some(0)), Some((1.0, "expected 0, found 0 of such calls")));
    }

    #[test]
    fn order_scores_its_part() {
        let in_order =
            |tools: &[&str]| Check::CalledInOrder { calls: tools.iter().map(|tool| pattern(tool)).collect() };
        check(in_order(&["find", "add", "add"]), Some((1.0, "all 3 calls, in order")));
        let next = "found 1 of 2 calls in order; the next would be of \"find\"";
        check(in_order(&["add", "find"]), Some((0.5, next)));
        check(in_order(&[]), Some((1.0, "all 0 calls, in order")));
    }

    #[test]
    fn calls_are_matched() {
        let calls_match = |tools: &[&str], ordered, exactly| {
            let call = |tool: &&str| ExpectedCall { tool: (*tool).to_owned(), arguments: BTreeMap::new() };
            Check::CallsMatch { calls: tools.iter().map(call).collect(), ordered, exactly }
        };
        let all = "expected 3 calls and no other: found 3, of 3 in all";
        check(calls_match(&["add", "find", "add"], false, true), Some((1.0, all)));
        let others = "expected 1 calls and no other: found 1, of 3 in all";
        check(calls_match(&["find"], false, true), Some((0.0, others)));
        check(calls_match(&["find"], false, false), Some((1.0, "expected 1 calls: found 1, of 3 in all")));
        let order = "expected 2 calls, in this order: found 1, of 3 in all";
        check(calls_match(&["add", "find"], true, false), Some((0.0, order)));
        check(
            calls_match(&[], false, true),
            Some((0.0, "expected 0 calls and no other: found 0, of 3 in all")),
        );
    }

    #[test]
    fn store_checks_read_stores() {
        let stored = |key: &str, equals: Option<&str>| Check::Stored {
            tool: "notes".to_owned(),
            key: key.to_owned(),
            equals: equals.map(str::to_owned),
        };
        check(stored("k", Some("v")), Some((1.0, r#"expected "v", found "v""#)));
        check(stored("k", Some("w")), Some((0.0, r#"expected "w", found "v""#)));
        check(stored("k", None), Some((0.0, r#"expected no such key, found "v""#)));
        check(stored("l", None), Some((1.0, "expected no such key, found no such key")));
        check(stored("l", Some("")), Some((0.0, r#"expected "", found no such key"#)));
    }

    #[test]
    fn workspace_checks_are_skipped() {
        check(Check::FileAbsent { path: "f".to_owned() }, None);
        let answer = Check::Answer(AnswerCheck::Equals { expected: "42".to_owned() });
        check(answer, Some((1.0, "as expected")));
    }

    #[test]
    fn c3_unevaluable_check_is_fault() {
        let stored = Check::Stored { tool: "none".to_owned(), key: "k".to_owned(), equals: None };
        let broken = Check::Answer(AnswerCheck::Matches { regex: "(".to_owned() });
        for check in [stored, broken] {
            let spec = CheckSpec { label: String::new(), weight: 1.0, check };
            assert_eq!(by_rule(&[spec], &state()).unwrap_err().code, "check-invalid");
        }
    }
}
