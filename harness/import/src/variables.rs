//! Resolves `${NAME}` and `${NAME:-default}` in the variables of a task at import.
//!
//! I1. A value of the importing environment whose name looks like a secret's never reaches a suite: suites are shared.
//! I2. A variable without a value and a default is a problem, never an empty text.

use std::collections::BTreeMap;

use crate::document::{Document, Placed};
use crate::findings::Findings;

/// Parts of the names of secrets.
const SECRET_WORDS: [&str; 8] =
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH", "PRIVATE"];

/// The content of `${...}`.
struct Reference<'t> {
    name: &'t str,
    default: Option<&'t str>,
}

/// A value that consists of one reference, as in Harbor.
fn reference(text: &str) -> Option<Reference<'_>> {
    let inner = text.strip_prefix("${")?.strip_suffix('}')?;
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    (!name.is_empty() && !name.contains([':', '}'])).then_some(Reference { name, default })
}

/// Adds variables; a later one replaces an earlier one of the same name.
pub(crate) fn set(variables: &mut Vec<(String, String)>, more: impl IntoIterator<Item = (String, String)>) {
    for (name, value) in more {
        variables.retain(|(known, _)| *known != name);
        variables.push((name, value));
    }
}

/// The variables with their references resolved, in order.
pub(crate) fn settle(
    document: &Document,
    variables: Vec<(String, Placed<String>)>,
    environment: &BTreeMap<String, String>,
    findings: &mut Findings,
) -> Vec<(String, String)> {
    let mut settled = Vec::new();
    for (name, Placed { value, span }) in variables {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            let message = format!("`{name}` cannot name an environment variable");
            let help = "use letters, digits and underscores in its name, and no NUL";
            findings.refuse(&document.source, span, "not possible", message, help);
            continue;
        }
        let Some(Reference { name: wanted, default }) = reference(&value) else {
            settled.push((name, value));
            continue;
        };
        // Either name may show that it is a secret.
        let secret = is_secret(wanted) || is_secret(&name);
        match (environment.get(wanted), default) {
            (Some(_), None) if secret => {
                let message =
                    format!("`{name}` takes `{wanted}` from the environment, which looks like a secret");
                let help = "suites are shared, so secrets are never written into one; \
                        give it a harmless default, as in `${NAME:-none}`, or remove the variable";
                findings.refuse(&document.source, span, "a secret", message, help);
            }
            (Some(value), _) if !secret => settled.push((name, value.clone())),
            (_, Some(default)) => {
                if secret {
                    let line = document.line(span);
                    findings.note(format!(
                        "line {line}: `{name}` has its default: values that look like secrets are not taken from the environment"
                    ));
                }
                settled.push((name, default.to_owned()));
            }
            (_, None) => {
                let message = format!("`{name}` takes `{wanted}` from the environment, where it is not set");
                let help = format!(
                    "set it and import again: `{wanted}=... clawrl import ...`; or give it a default: `${{{wanted}:-value}}`"
                );
                findings.refuse(&document.source, span, "not set", message, help);
            }
        }
    }
    settled
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use clawrl_config::{Node, Source, Span};

    use super::*;

    /// `Err` is the end of the problem's message.
    fn check(value: &str, expected: Result<&str, &str>) {
        check_named("V", value, expected);
    }

    fn check_named(name: &str, value: &str, expected: Result<&str, &str>) {
        let source = Arc::new(Source::new("task.toml".as_ref(), "task.toml".into(), value));
        let document = Document { source, root: Node::map(Vec::new()) };
        let environment = [("PLACE", "moon"), ("API_KEY", "hidden")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let variables = vec![(
            name.to_owned(),
            Placed { value: value.to_owned(), span: Span { start: 0, len: value.len() } },
        )];
        let mut findings = Findings::default();
        let settled = settle(&document, variables, &environment.into(), &mut findings);
        match (findings.finish(), expected) {
            (Ok(()), Ok(expected)) => {
                assert_eq!(settled, [(name.to_owned(), expected.to_owned())], "{value}")
            }
            (Err(error), Err(expected)) => assert!(error.to_string().ends_with(expected), "{error}"),
            (got, _) => panic!("{value}: {got:?}"),
        }
        assert!(settled.iter().all(|(_, value)| value != "hidden"), "I1");
    }

    #[test]
    fn variable_references_are_resolved() {
        check("plain", Ok("plain"));
        check("${PLACE}", Ok("moon"));
        check("${PLACE:-sun}", Ok("moon"));
        check("${OTHER:-sun}", Ok("sun"));
        check("${OTHER:-}", Ok(""));
        check("in ${PLACE}", Ok("in ${PLACE}"));
        check("${OTHER}", Err("where it is not set"));
        check("${API_KEY}", Err("which looks like a secret"));
        check("${API_KEY:-none}", Ok("none"));
        check_named("JUDGE_TOKEN", "${PLACE}", Err("which looks like a secret"));
    }
}
