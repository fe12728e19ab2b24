//! Turns BFCL's descriptions of functions into JSON schemas.
//!
//! T1. A schema tells the policy no less than BFCL's own text. T2. A keyword that would reject every call is left out.

use serde_json::{Map, Value, json};

/// Keywords with the same meaning in both formats.
const KEPT: [&str; 11] = [
    "description",
    "default",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
];

/// The name of a function without dots, which model APIs do not accept; BFCL replaces them by `_`, too.
pub(super) fn tool_name(function: &str) -> String {
    function.replace('.', "_")
}

/// The schema of a function's arguments.
///
/// # Errors
/// An unknown type.
pub(super) fn parameters(written: &Value) -> Result<Value, String> {
    let mut schema = schema(written)?;
    schema["type"] = json!("object");
    schema["additionalProperties"] = json!(false);
    if schema.get("properties").is_none() {
        schema["properties"] = json!({});
    }
    Ok(schema)
}

fn schema(written: &Value) -> Result<Value, String> {
    let Some(written) = written.as_object() else {
        return Err(format!("a type is described by {written}, which is not an object"));
    };
    let mut schema = Map::new();
    if let Some(word) = written.get("type").and_then(Value::as_str) {
        match word {
            "any" => {}
            word => {
                let known = json_type(word).ok_or_else(|| format!("unknown type `{word}`"))?;
                schema.insert("type".to_owned(), json!(known));
            }
        }
    }
    for key in KEPT {
        if let Some(value) = written.get(key) {
            schema.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(properties) = written.get("properties").and_then(Value::as_object) {
        let one = |(name, property): (&String, &Value)| Ok((name.clone(), self::schema(property)?));
        let properties = properties.iter().map(one).collect::<Result<Map<_, _>, String>>()?;
        schema.insert("properties".to_owned(), Value::Object(properties));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = written.get(key).filter(|inner| inner.is_object()) {
            schema.insert(key.to_owned(), self::schema(inner)?);
        }
    }
    if let Some(required) = written.get("required").filter(|required| required.is_array()) {
        schema.insert("required".to_owned(), required.clone());
    }
    // T2.
    let one_of = written.get("enum").and_then(Value::as_array).filter(|one_of| !one_of.is_empty());
    if let Some(one_of) = one_of
        && one_of.iter().any(|value| fits(&Value::Object(schema.clone()), value))
    {
        schema.insert("enum".to_owned(), json!(one_of));
    }
    Ok(Value::Object(schema))
}

fn json_type(word: &str) -> Option<&'static str> {
    Some(match word {
        "dict" | "object" => "object",
        "float" | "number" | "double" => "number",
        "tuple" | "list" | "array" => "array",
        "integer" => "integer",
        "boolean" | "bool" => "boolean",
        "string" => "string",
        _ => return None,
    })
}

/// Whether a schema of this module accepts a value.
pub(super) fn fits(schema: &Value, value: &Value) -> bool {
    let is_type = match schema["type"].as_str() {
        None => true,
        Some("object") => value.is_object(),
        Some("number") => value.is_number(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        Some("array") => value.is_array(),
        Some("boolean") => value.is_boolean(),
        Some(_) => value.is_string(),
    };
    let is_listed = schema["enum"].as_array().is_none_or(|one_of| one_of.contains(value));
    let entries = value.as_array().into_iter().flatten();
    let entries_fit =
        schema.get("items").is_none_or(|items| entries.into_iter().all(|entry| fits(items, entry)));
    let keys_fit = value.as_object().is_none_or(|object| {
        let mut required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        required.all(|name| object.contains_key(name))
            && object.iter().all(|(key, value)| {
                schema["properties"].get(key).is_none_or(|property| fits(property, value))
            })
    });
    let count = |key: &str| schema[key].as_u64();
    let length = value.as_array().map(|entries| entries.len() as u64);
    let length_fits = length.is_none_or(|length| {
        count("minItems").is_none_or(|least| length >= least)
            && count("maxItems").is_none_or(|max| length <= max)
    });
    let bound = |key: &str| schema[key].as_f64();
    let number_fits = value.as_f64().is_none_or(|number| {
        bound("minimum").is_none_or(|least| number >= least)
            && bound("maximum").is_none_or(|max| number <= max)
    });
    is_type && is_listed && entries_fit && keys_fit && length_fits && number_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(written: Value, expected: Result<Value, &str>) {
        let found = schema(&written);
        assert_eq!(
            found.as_ref().map_err(String::as_str),
            expected.as_ref().map_err(|text| *text),
            "{written}"
        );
    }

    #[test]
    fn bfcl_types_become_json_schema_types() {
        check(
            json!({ "type": "dict", "properties": { "a": { "type": "float" } } }),
            Ok(json!({ "type": "object", "properties": { "a": { "type": "number" } } })),
        );
        check(
            json!({ "type": "tuple", "items": { "type": "any" } }),
            Ok(json!({ "type": "array", "items": {} })),
        );
        check(
            json!({ "type": "string", "optional": true, "default": "a" }),
            Ok(json!({ "type": "string", "default": "a" })),
        );
        check(json!({ "type": "HashMap" }), Err("unknown type `HashMap`"));
    }

    /// T2.
    #[test]
    fn enum_of_other_type_is_dropped() {
        check(json!({ "type": "string", "enum": ["a"] }), Ok(json!({ "type": "string", "enum": ["a"] })));
        check(json!({ "type": "array", "enum": ["a"] }), Ok(json!({ "type": "array" })));
        check(json!({ "type": "string", "enum": [] }), Ok(json!({ "type": "string" })));
    }

    #[test]
    fn tool_names_lose_their_dots() {
        assert_eq!(tool_name("math.factorial"), "math_factorial");
    }
}
