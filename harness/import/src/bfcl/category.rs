//! The categories of BFCL v4, and the reasons why some of them are refused.

use clawrl_config::Problem;

/// How the calls of a row are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expectation {
    /// Exactly these calls, in any order.
    Calls,
    /// No call, and an answer that says why.
    NoCall,
}

const CALLS: [&str; 8] = [
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
];
const NO_CALL: [&str; 2] = ["irrelevance", "live_irrelevance"];

/// Name prefixes of the refused categories, with the reason.
const REFUSED: [(&str, &str); 8] = [
    ("multi_turn", "its tools are stateful programs of BFCL, and its user speaks several times"),
    ("memory", "its tools are a memory of BFCL's own that persists across conversations"),
    ("web_search", "its tools search the web"),
    (
        "format_sensitivity",
        "it repeats other categories in other prompt formats, which `action_format` selects here",
    ),
    ("simple_javascript", "its arguments are source text of JavaScript, which BFCL parses"),
    ("simple_java", "its arguments are source text of Java, which BFCL parses"),
    ("live_relevance", "any call passes it, so it checks nothing"),
    ("agentic", "its tools search the web and use a memory of BFCL's own"),
];

pub(super) fn expectation(category: &str) -> Result<Expectation, Problem> {
    if CALLS.contains(&category) {
        return Ok(Expectation::Calls);
    }
    if NO_CALL.contains(&category) {
        return Ok(Expectation::NoCall);
    }
    let known = CALLS.iter().chain(&NO_CALL).copied().collect::<Vec<_>>().join(", ");
    let help = format!("the categories that can be imported are {known}");
    let message = match REFUSED.iter().find(|(name, _)| category.starts_with(name)) {
        Some((_, why)) => format!("the category `{category}` cannot be represented: {why}"),
        None => format!("there is no category `{category}`"),
    };
    Err(Problem::new(message, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(category: &str, expected: Result<Expectation, &str>) {
        match (expectation(category), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{category}"),
            (Err(problem), Err(part)) => assert!(problem.message().contains(part), "{problem}"),
            (found, _) => panic!("{category}: {found:?}"),
        }
    }

    #[test]
    fn bfcl_categories_are_imported_or_refused() {
        check("simple_python", Ok(Expectation::Calls));
        check("live_irrelevance", Ok(Expectation::NoCall));
        check("multi_turn_base", Err("several times"));
        check("simple_javascript", Err("JavaScript"));
        check("simple_java", Err("Java,"));
        check("simple", Err("there is no category"));
    }
}
