//! The JSON schema of suite files, for editors. Generated from the types that read them.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::file::SuiteFile;

/// The schema of a suite file, draft 2020-12.
#[must_use]
pub fn json_schema() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<SuiteFile>().to_value()
}

/// The exact text of `tasks/schema/suite.schema.json`: indented, with a final newline.
#[must_use]
pub fn json_schema_text() -> String {
    format!("{:#}\n", json_schema())
}

/// Places in which a key is known, in words for authors; empty for a key that is known nowhere.
pub(crate) fn homes_of_key(key: &str) -> Vec<&'static str> {
    let schema = json_schema();
    let has_key = |object: &Value| object["properties"].get(key).is_some();
    let mut homes = Vec::new();
    if has_key(&schema) {
        homes.push("the suite itself");
    }
    let definitions = schema["$defs"].as_object().into_iter().flatten();
    for (name, definition) in definitions {
        let home = match name.as_str() {
            "Defaults" => "`defaults:`",
            "Task" => "a task",
            "Terminal" => "`env: terminal:`",
            "Check" => "an entry of `checks:`",
            "Reward" => "`reward:`",
            "ChoiceMap" => "a variable of `template:`",
            "Action" => "an entry of `actions:`",
            "Command" => "`command:`",
            "ScriptMap" => "`oracle:`",
            _ => continue,
        };
        if has_key(definition) {
            homes.push(home);
        }
    }
    homes
}
