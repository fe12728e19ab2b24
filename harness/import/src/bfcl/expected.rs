//! Turns BFCL's possible answers into patterns of calls.
//!
//! A possible answer lists the accepted values of each argument; an empty text means that the argument may be omitted.
//! The declared type decides how values are compared: the texts of a `string`, `any`, list or dict are compared
//! loosely. If the first accepted value has another type, it stands for a variable and is compared exactly.

use serde_json::{Map, Value, json};

use super::tool::fits;

/// One argument: its accepted values as a suite writes them, and the value that the oracle passes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Argument {
    pub(super) pattern: Value,
    /// `None` if the argument may only be omitted.
    pub(super) value: Option<Value>,
    /// Whether the schema of the argument rejects all accepted values.
    pub(super) needs_any_type: bool,
}

/// Reads an argument of the type that BFCL declares, with its schema.
///
/// # Errors
/// Why no call passes.
pub(super) fn argument(
    declared: &Value,
    schema: &Value,
    accepted: &Value,
    is_required: bool,
) -> Result<Argument, &'static str> {
    let accepted = accepted.as_array().ok_or("the accepted values are not a list")?;
    let may_miss = accepted.iter().any(is_empty_text);
    let optional = may_miss && !is_required;
    let kind = Kind::declared(declared);
    let first = accepted.iter().find(|value| !is_empty_text(value));
    let is_variable = first.is_some_and(|value| Kind::of(value) != kind.outer());
    let mut pattern = match kind {
        _ if is_variable => literal(accepted.iter().filter(|value| !is_empty_text(value)), false),
        Kind::Dict => json!({ "any_object": objects(accepted.iter())? }),
        Kind::ListOfDicts => json!({ "any_list": lists(accepted)? }),
        Kind::List => {
            // In Python the empty text is falsy, so BFCL takes it for an empty list.
            let values: Vec<Value> = accepted
                .iter()
                .map(|value| if is_empty_text(value) { json!([]) } else { value.clone() })
                .collect();
            literal(values.iter(), true)
        }
        Kind::Text => literal(accepted.iter().filter(|value| value.is_string()), true),
        Kind::Other(_) => literal(accepted.iter().filter(|value| !is_empty_text(value)), false),
    };
    if optional {
        pattern["optional"] = json!(true);
    }
    let mut candidates: Vec<Value> = match kind {
        Kind::Dict if !is_variable => first.and_then(sample_of).into_iter().collect(),
        Kind::ListOfDicts if !is_variable => first
            .and_then(Value::as_array)
            .and_then(|list| list.iter().map(sample_of).collect::<Option<Vec<_>>>())
            .map(Value::Array)
            .into_iter()
            .collect(),
        _ => pattern["any_of"].as_array().cloned().unwrap_or_default(),
    };
    // Values before empty ones.
    candidates.sort_by_key(|value| is_empty_text(value) || value.as_array().is_some_and(Vec::is_empty));
    if candidates.is_empty() {
        return if optional {
            Ok(Argument { pattern, value: None, needs_any_type: false })
        } else {
            Err("an argument has no accepted value, and may not be omitted")
        };
    }
    if let Some(value) = candidates.iter().find(|value| fits(schema, value)) {
        return Ok(Argument { value: Some(value.clone()), pattern, needs_any_type: false });
    }
    // A schema may list the same text in another case.
    let listed = schema["enum"].as_array().into_iter().flatten();
    let alike = |value: &&Value| {
        let text = value.as_str().map(loose);
        text.is_some() && candidates.iter().any(|candidate| candidate.as_str().map(loose) == text)
    };
    if pattern["text"] == json!("loose")
        && let Some(value) = listed.into_iter().find(alike)
        && let Some(any_of) = pattern["any_of"].as_array_mut()
    {
        any_of.insert(0, value.clone());
        return Ok(Argument { value: Some(value.clone()), pattern, needs_any_type: false });
    }
    Ok(Argument { value: candidates.into_iter().next(), pattern, needs_any_type: true })
}

/// How values of a declared type are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Dict,
    List,
    ListOfDicts,
    Other(&'static str),
}

impl Kind {
    fn declared(declared: &Value) -> Self {
        match declared["type"].as_str().unwrap_or_default() {
            "string" | "any" => Self::Text,
            "dict" => Self::Dict,
            "array" | "tuple" if declared["items"]["type"] == json!("dict") => Self::ListOfDicts,
            "array" | "tuple" => Self::List,
            "integer" => Self::Other("int"),
            "float" => Self::Other("float"),
            "boolean" => Self::Other("bool"),
            _ => Self::Other("other"),
        }
    }

    fn outer(self) -> Self {
        if self == Self::ListOfDicts { Self::List } else { self }
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::String(_) => Self::Text,
            Value::Object(_) => Self::Dict,
            Value::Array(_) => Self::List,
            Value::Bool(_) => Self::Other("bool"),
            Value::Number(number) if number.is_f64() => Self::Other("float"),
            Value::Number(_) => Self::Other("int"),
            Value::Null => Self::Other("none"),
        }
    }
}

fn is_empty_text(value: &Value) -> bool {
    value.as_str() == Some("")
}

fn literal<'a>(values: impl Iterator<Item = &'a Value>, is_loose: bool) -> Value {
    let any_of: Vec<&Value> = values.collect();
    if is_loose { json!({ "any_of": any_of, "text": "loose" }) } else { json!({ "any_of": any_of }) }
}

/// Dicts that map each key to a list of accepted values.
fn objects<'a>(accepted: impl Iterator<Item = &'a Value>) -> Result<Vec<Value>, &'static str> {
    accepted.filter(|value| !is_empty_text(value)).map(object).collect()
}

fn object(accepted: &Value) -> Result<Value, &'static str> {
    let accepted =
        accepted.as_object().ok_or("the argument is declared as a dict, but another type is accepted")?;
    let mut keys = Map::new();
    for (key, values) in accepted {
        let values = values.as_array().ok_or("the accepted values of a key are not a list")?;
        // Lists under a key are compared exactly, texts are not.
        let has_lists = values.iter().any(Value::is_array);
        let mut pattern = literal(values.iter(), !has_lists);
        if values.iter().any(is_empty_text) {
            pattern["optional"] = json!(true);
        }
        keys.insert(key.clone(), pattern);
    }
    Ok(Value::Object(keys))
}

fn lists(accepted: &[Value]) -> Result<Vec<Value>, &'static str> {
    let one = |value: &Value| {
        let entries = match value {
            Value::Array(entries) => entries.as_slice(),
            value if is_empty_text(value) => &[],
            _ => return Err("the argument is declared as a list, but another type is accepted"),
        };
        let entry = |entry: &Value| Ok(json!({ "any_object": [object(entry)?] }));
        entries.iter().map(entry).collect::<Result<Vec<_>, _>>().map(Value::Array)
    };
    accepted.iter().map(one).collect()
}

/// An accepted dict without optional keys.
fn sample_of(accepted: &Value) -> Option<Value> {
    let mut sample = Map::new();
    for (key, values) in accepted.as_object()? {
        let values = values.as_array()?;
        if let Some(value) = values.iter().find(|value| !is_empty_text(value)) {
            sample.insert(key.clone(), value.clone());
        } else if values.is_empty() {
            return None;
        }
    }
    Some(Value::Object(sample))
}

fn loose(text: &str) -> String {
    let kept = |character: &char| !" ,./-_*^".contains(*character);
    text.chars().filter(kept).flat_map(char::to_lowercase).collect::<String>().replace('\'', "\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(declared: Value, accepted: Value, expected: Result<(Value, Option<Value>), &str>) {
        let schema = super::super::tool::parameters(&json!({ "properties": { "a": declared } })).unwrap();
        let found = argument(&declared, &schema["properties"]["a"], &accepted, false);
        let found = found.map(|argument| (argument.pattern, argument.value));
        assert_eq!(found, expected, "{declared} {accepted}");
    }

    #[test]
    fn accepted_values_become_a_pattern() {
        check(json!({ "type": "integer" }), json!([5]), Ok((json!({ "any_of": [5] }), Some(json!(5)))));
        let loose = json!({ "any_of": ["", "New York"], "text": "loose", "optional": true });
        check(json!({ "type": "string" }), json!(["", "New York"]), Ok((loose, Some(json!("New York")))));
        check(
            json!({ "type": "integer" }),
            json!([""]),
            Ok((json!({ "any_of": [], "optional": true }), None)),
        );
        check(
            json!({ "type": "integer" }),
            json!([]),
            Err("an argument has no accepted value, and may not be omitted"),
        );
        let list = json!({ "any_of": [[1, 2], []], "text": "loose", "optional": true });
        check(
            json!({ "type": "array", "items": { "type": "integer" } }),
            json!([[1, 2], ""]),
            Ok((list, Some(json!([1, 2])))),
        );
        let dict =
            json!({ "any_object": [{ "k": { "any_of": [1, ""], "text": "loose", "optional": true } }] });
        check(
            json!({ "type": "dict" }),
            json!([{ "k": [1, ""] }]),
            Ok((dict.clone(), Some(json!({ "k": 1 })))),
        );
        let dicts = json!({ "any_list": [[dict]] });
        let of_dicts = json!({ "type": "array", "items": { "type": "dict" } });
        check(of_dicts, json!([[{ "k": [1, ""] }]]), Ok((dicts, Some(json!([{ "k": 1 }])))));
    }

    #[test]
    fn value_of_other_type_is_a_variable() {
        check(
            json!({ "type": "dict" }),
            json!(["my_dict"]),
            Ok((json!({ "any_of": ["my_dict"] }), Some(json!("my_dict")))),
        );
    }

    #[test]
    fn enum_value_in_other_case_is_accepted() {
        let found = json!({ "any_of": ["Celsius", "celsius"], "text": "loose" });
        check(
            json!({ "type": "string", "enum": ["Celsius"] }),
            json!(["celsius"]),
            Ok((found, Some(json!("Celsius")))),
        );
    }
}
