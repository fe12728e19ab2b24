//! Calls that are expected: what each argument may be.
//!
//! I1. Every argument has a value that a call can have: one that the tool's schema lets through. I2. An argument that
//! the schema requires is not optional.

use std::collections::BTreeMap;

use clawrl_core::{ExpectedCall, TextMatch, ToolDecl, ValuePattern};
use serde_json::{Map, Value as Json};

use super::builder::{TaskBuilder, WrittenJson};
use super::calls::{argument_names, arguments_words, escaped, is_open};
use crate::file::ExpectedCallFile;
use crate::suggest::{did_you_mean, listed};

const KEYS: [&str; 5] = ["any_of", "any_object", "any_list", "optional", "text"];

/// A mistake in a pattern, and its JSON pointer in the file form.
#[derive(Debug, PartialEq, Eq)]
struct BadPattern {
    pointer: String,
    message: String,
    help: String,
}

impl<'s> TaskBuilder<'_, '_, 's> {
    pub(super) fn expected_call(
        &mut self,
        file: &'s ExpectedCallFile,
        tools: Option<&[ToolDecl]>,
    ) -> Option<ExpectedCall> {
        let tool = file.tool.value.clone();
        let Some(written) = file.arguments.as_ref().map(WrittenJson::from) else {
            return Some(ExpectedCall { tool, arguments: BTreeMap::new() });
        };
        let Json::Object(filled) = self.json(written)? else { return None };
        let arguments = match patterns(&filled, "") {
            Ok(arguments) => arguments,
            Err(bad) => {
                self.found_in(written, &bad.pointer, bad.message, "not accepted", &bad.help);
                return None;
            }
        };
        let decl = tools?.iter().find(|decl| decl.name == tool)?;
        for (name, pattern) in &arguments {
            self.can_be(written, decl, name, pattern)?;
        }
        Some(ExpectedCall { tool, arguments })
    }

    /// I1, I2.
    fn can_be(
        &mut self,
        written: WrittenJson<'_>,
        decl: &ToolDecl,
        name: &str,
        pattern: &ValuePattern,
    ) -> Option<()> {
        let pointer = format!("/{}", escaped(name));
        let known = argument_names(&decl.parameters);
        let words = arguments_words(&known);
        if !known.contains(&name) && !is_open(&decl.parameters) {
            let message = format!("the tool `{}` has no argument `{name}`", decl.name);
            let help = format!("{}{words}", did_you_mean(name, known.iter().copied()));
            self.found_in(written, &pointer, message, "never in a call", &help);
            return None;
        }
        let required = decl.parameters["required"].as_array().into_iter().flatten();
        if pattern.optional && required.filter_map(Json::as_str).any(|required| required == name) {
            let message =
                format!("every call of `{}` has the argument `{name}`: its parameters require it", decl.name);
            let help = "remove `optional`, or take the argument out of `required:` of the tool";
            self.found_in(written, &pointer, message, "never left out", help);
            return None;
        }
        if !pattern.any_object.is_empty() || !pattern.any_list.is_empty() {
            return Some(());
        }
        let mut schema = decl.parameters.clone();
        if let Some(schema) = schema.as_object_mut() {
            schema.remove("required");
        }
        let mut first = None;
        for value in &pattern.any_of {
            match self.misfit(&schema, &Json::Object(Map::from_iter([(name.to_owned(), value.clone())]))) {
                None => return Some(()),
                Some((reason, _)) => {
                    first.get_or_insert(reason);
                }
            }
        }
        let Some(reason) = first else { return Some(()) };
        let message = format!("no call of the tool `{}` is like this: {reason}", decl.name);
        self.found_in(written, &pointer, message, "never in a call", &words);
        None
    }
}

fn patterns(map: &Map<String, Json>, above: &str) -> Result<BTreeMap<String, ValuePattern>, BadPattern> {
    let one = |(name, value): (&String, &Json)| {
        let pointer = format!("{above}/{}", escaped(name));
        Ok((name.clone(), pattern(value, &pointer)?))
    };
    map.iter().map(one).collect()
}

/// A map contains conditions on the value; anything else is the expected value itself.
fn pattern(value: &Json, at: &str) -> Result<ValuePattern, BadPattern> {
    let bad = |pointer: &str, message: &str, help: &str| BadPattern {
        pointer: pointer.to_owned(),
        message: message.to_owned(),
        help: help.to_owned(),
    };
    let Json::Object(map) = value else {
        return Ok(ValuePattern { any_of: vec![value.clone()], ..ValuePattern::default() });
    };
    let mut found = ValuePattern::default();
    for (key, value) in map {
        let at = format!("{at}/{}", escaped(key));
        let list =
            || value.as_array().ok_or_else(|| bad(&at, "a list belongs here", "write `[first, second]`"));
        match key.as_str() {
            "any_of" => found.any_of = list()?.clone(),
            "any_object" => {
                for (index, entry) in list()?.iter().enumerate() {
                    let at = format!("{at}/{index}");
                    let map = entry.as_object().ok_or_else(|| {
                        bad(&at, "a map belongs here", "write `{ key: { any_of: [first, second] } }`")
                    })?;
                    found.any_object.push(patterns(map, &at)?);
                }
            }
            "any_list" => {
                for (index, entry) in list()?.iter().enumerate() {
                    let at = format!("{at}/{index}");
                    let entries = entry.as_array().ok_or_else(|| {
                        bad(
                            &at,
                            "a list belongs here",
                            "write what each entry may be: `[1, { any_of: [2, 3] }]`",
                        )
                    })?;
                    let entries = entries.iter().enumerate();
                    let entries = entries.map(|(index, entry)| pattern(entry, &format!("{at}/{index}")));
                    found.any_list.push(entries.collect::<Result<_, _>>()?);
                }
            }
            "optional" => {
                found.optional = value
                    .as_bool()
                    .ok_or_else(|| bad(&at, "`optional` is `true` or `false`", "write one of the two"))?;
            }
            "text" => {
                found.text = match value.as_str() {
                    Some("exact") => TextMatch::Exact,
                    Some("loose") => TextMatch::Loose,
                    _ => return Err(bad(&at, "`text` is `exact` or `loose`", "write one of the two")),
                };
            }
            other => {
                let help = format!(
                    "{}keys are {}; an object that is the value itself stands in a list: `any_of: [{{...}}]`",
                    did_you_mean(other, KEYS),
                    listed(KEYS)
                );
                return Err(bad(&at, &format!("`{other}` says nothing about an argument"), &help));
            }
        }
    }
    if found.any_of.is_empty() && found.any_object.is_empty() && found.any_list.is_empty() && !found.optional
    {
        return Err(bad(at, "no value passes here", "write `any_of: [first, second]`"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(written: Json, expected: Result<ValuePattern, (&str, &str)>) {
        let found = pattern(&written, "");
        let found = found.as_ref().map_err(|bad| (bad.pointer.as_str(), bad.message.as_str()));
        assert_eq!(found, expected.as_ref().map_err(|bad| *bad), "{written}");
    }

    #[test]
    fn patterns_are_read() {
        let of = |any_of: Vec<Json>| ValuePattern { any_of, ..ValuePattern::default() };
        check(json!("a"), Ok(of(vec![json!("a")])));
        check(json!([1, 2]), Ok(of(vec![json!([1, 2])])));
        check(json!({ "any_of": [1, "b"] }), Ok(of(vec![json!(1), json!("b")])));
        let loose = ValuePattern { text: TextMatch::Loose, optional: true, ..of(vec![json!("b")]) };
        check(json!({ "any_of": ["b"], "optional": true, "text": "loose" }), Ok(loose));
        let object = BTreeMap::from([("k".to_owned(), of(vec![json!(1)]))]);
        let objects = ValuePattern { any_object: vec![object], ..ValuePattern::default() };
        check(json!({ "any_object": [{ "k": 1 }] }), Ok(objects.clone()));
        let lists = ValuePattern { any_list: vec![vec![objects]], ..ValuePattern::default() };
        check(json!({ "any_list": [[{ "any_object": [{ "k": 1 }] }]] }), Ok(lists));
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        check(json!({}), Err(("", "no value passes here")));
        check(json!({ "any_of": 3 }), Err(("/any_of", "a list belongs here")));
        check(json!({ "any": [3] }), Err(("/any", "`any` says nothing about an argument")));
        check(
            json!({ "any_object": [{ "k": { "x": 1 } }] }),
            Err(("/any_object/0/k/x", "`x` says nothing about an argument")),
        );
        check(json!({ "any_list": [3] }), Err(("/any_list/0", "a list belongs here")));
        check(json!({ "any_of": [3], "text": "near" }), Err(("/text", "`text` is `exact` or `loose`")));
        check(json!({ "any_of": [3], "optional": 1 }), Err(("/optional", "`optional` is `true` or `false`")));
    }
}
