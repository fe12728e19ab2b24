//! Matches requests against patterns.

use clawrl_core::RequestPattern;
use clawrl_workspace::equal_json;
use serde_json::Value;

/// The properties of a request that patterns use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Features<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a [(String, String)],
    pub(super) cookies: &'a [(String, String)],
    pub(super) form: &'a [(String, String)],
    pub(super) json: Option<&'a Value>,
    /// Whether the body had more than is known.
    pub(super) is_cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    Yes,
    No,
    /// The unknown part of the body decides.
    Perhaps,
}

/// Matches a request. If a name has several values, one of them must match.
pub(super) fn fit(pattern: &RequestPattern, request: Features<'_>) -> Fit {
    let RequestPattern { method, path, query, form, cookies, json } = pattern;
    let is_rest = method.as_ref().is_none_or(|method| method == request.method)
        && path.as_ref().is_none_or(|path| is_path(path, request.path))
        && has_all(request.query, query)
        && has_all(request.cookies, cookies);
    if !is_rest {
        return Fit::No;
    }
    let has_value = |pointer: &str, value: &Value| {
        request.json.and_then(|json| json.pointer(pointer)).is_some_and(|found| equal_json(found, value))
    };
    if has_all(request.form, form) && json.iter().all(|(pointer, value)| has_value(pointer, value)) {
        Fit::Yes
    } else if request.is_cut {
        Fit::Perhaps
    } else {
        Fit::No
    }
}

fn is_path(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => path.starts_with(beginning),
        None => path == pattern,
    }
}

fn has_all(pairs: &[(String, String)], wanted: &std::collections::BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(name, value)| pairs.iter().any(|(n, v)| n == name && v == value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(pattern: Value, is_cut: bool, expected: Fit) {
        let pairs = [("a".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())];
        let body = json!({"n": 1.0, "list": [{"x": null}]});
        let request = Features {
            method: "POST",
            path: "/a/b",
            query: &pairs,
            cookies: &pairs,
            form: &pairs,
            json: Some(&body),
            is_cut,
        };
        let read: RequestPattern = serde_json::from_value(pattern.clone()).unwrap();
        assert_eq!(fit(&read, request), expected, "{pattern}");
    }

    #[test]
    fn pattern_matches_requests_with_more_values() {
        check(json!({}), false, Fit::Yes);
        check(json!({"method": "POST", "path": "/a/b"}), false, Fit::Yes);
        check(json!({"method": "GET"}), false, Fit::No);
        check(json!({"path": "/a"}), false, Fit::No);
        check(json!({"path": "/a*"}), false, Fit::Yes);
        check(json!({"path": "*"}), false, Fit::Yes);
        check(json!({"path": "/a/b/*"}), false, Fit::No);
        for pairs in ["query", "form", "cookies"] {
            check(json!({pairs: {"a": "1"}}), false, Fit::Yes);
            check(json!({pairs: {"a": "2"}}), false, Fit::Yes);
            check(json!({pairs: {"a": "3"}}), false, Fit::No);
            check(json!({pairs: {"b": "1"}}), false, Fit::No);
        }
        check(json!({"json": {"/n": 1, "/list/0/x": null}}), false, Fit::Yes);
        check(json!({"json": {"/list/1": null}}), false, Fit::No);
        check(json!({"json": {"": {"n": 1, "list": [{"x": null}]}}}), false, Fit::Yes);
    }

    #[test]
    fn cut_body_may_match() {
        check(json!({"form": {"a": "1"}}), true, Fit::Yes);
        check(json!({"form": {"b": "1"}}), true, Fit::Perhaps);
        check(json!({"json": {"/m": 1}}), true, Fit::Perhaps);
        check(json!({"form": {"b": "1"}, "query": {"b": "1"}}), true, Fit::No);
    }
}
