//! The categories of BFCL v4, and why some of them cannot be represented.

use clawrl_config::Problem;

/// What is asked of a row's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// These calls, each once, in any order.
    Calls,
    /// No call, and an answer that says so.
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

/// Beginnings of the names of those that are refused, and why.
const REFUSED: [(&str, &str); 8] = [
    ("multi_turn", "its tools are programs of BFCL with a state, and its user speaks several times"),
    ("memory", "its tools are a memory of BFCL's own that lives from conversation to conversation"),
    ("web_search", "its tools search the web"),
    (
        "format_sensitivity",
        "it asks other categories again in other prompt formats, which `action_format` chooses here",
    ),
    ("simple_javascript", "its arguments are source text of JavaScript, which BFCL parses"),
    ("simple_java", "its arguments are source text of Java, which BFCL parses"),
    ("live_relevance", "any call passes it, which checks nothing"),
    ("agentic", "its tools search the web and keep a memory of BFCL's own"),
];

pub(super) fn asked(category: &str) -> Result<Asked, Problem> {
    if CALLS.contains(&category) {
        return Ok(Asked::Calls);
    }
    if NO_CALL.contains(&category) {
        return Ok(Asked::NoCall);
    }
    let known = CALLS.iter().chain(&NO_CALL).copied().collect::<Vec<_>>().join(", ");
    let help = format!("categories that can be imported are {known}");
    let message = match REFUSED.iter().find(|(name, _)| category.starts_with(name)) {
        Some((_, why)) => format!("the category `{category}` cannot be represented: {why}"),
        None => format!("there is no category `{category}`"),
    };
    Err(Problem::new(message, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(category: &str, expected: Result<Asked, &str>) {
        match (asked(category), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{category}"),
            (Err(problem), Err(part)) => assert!(problem.message().contains(part), "{problem}"),
            (found, _) => panic!("{category}: {found:?}"),
        }
    }

    #[test]
    fn categories_are_taken_or_refused_by_name() {
        check("simple_python", Ok(Asked::Calls));
        check("live_irrelevance", Ok(Asked::NoCall));
        check("multi_turn_base", Err("several times"));
        check("simple_javascript", Err("JavaScript"));
        check("simple_java", Err("Java,"));
        check("simple", Err("there is no category"));
    }
}
