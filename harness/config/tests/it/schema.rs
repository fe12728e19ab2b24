//! The schema for editors agrees with the parser.

use clawrl_config::{
    agent_schema, chat_schema, ci_schema, json_schema, load_chat, load_ci, load_suite, load_train,
    policy_schema, schema_files, train_schema,
};
use serde_json::{Value, json};

/// Validates the part of JSON Schema that our schema uses: mistakes of a value by path.
fn violations(schema: &Value, root: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).expect("references lead somewhere");
        violations(target, root, value, path, found);
    }
    for keyword in ["oneOf", "anyOf"] {
        let Some(choices) = schema[keyword].as_array() else { continue };
        let fitting = choices.iter().filter(|choice| {
            let mut inside = Vec::new();
            violations(choice, root, value, path, &mut inside);
            inside.is_empty()
        });
        let fitting = fitting.count();
        if fitting == 0 || (keyword == "oneOf" && fitting > 1) {
            found.push(format!("{path}: fits {fitting} of {keyword}"));
        }
    }
    if let Some(types) = schema.get("type") {
        let types: Vec<&str> = match types {
            Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        };
        let actual = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_i64() => "integer",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let fits = types.contains(&actual) || (actual == "integer" && types.contains(&"number"));
        if !fits {
            found.push(format!("{path}: {actual} is not {types:?}"));
        }
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        found.push(format!("{path}: {value} is not one of {allowed:?}"));
    }
    if let Some(constant) = schema.get("const")
        && constant != value
    {
        found.push(format!("{path}: {value} is not {constant}"));
    }
    if let Some(number) = value.as_f64() {
        if schema["minimum"].as_f64().is_some_and(|least| number < least) {
            found.push(format!("{path}: {number} is too small"));
        }
        if schema["maximum"].as_f64().is_some_and(|most| number > most) {
            found.push(format!("{path}: {number} is too large"));
        }
    }
    if let Value::Array(entries) = value {
        let length = entries.len() as u64;
        if schema["minItems"].as_u64().is_some_and(|least| length < least)
            || schema["maxItems"].as_u64().is_some_and(|most| length > most)
        {
            found.push(format!("{path}: {length} entries"));
        }
        if schema["items"].is_object() {
            for (at, entry) in entries.iter().enumerate() {
                violations(&schema["items"], root, entry, &format!("{path}/{at}"), found);
            }
        }
    }
    if let Value::Object(map) = value {
        for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !map.contains_key(key) {
                found.push(format!("{path}: no {key}"));
            }
        }
        for (key, inner) in map {
            let inside = format!("{path}/{key}");
            match (schema["properties"].get(key), &schema["additionalProperties"]) {
                (Some(property), _) => violations(property, root, inner, &inside, found),
                (None, Value::Bool(false)) => found.push(format!("{inside}: unknown")),
                (None, others @ Value::Object(_)) => violations(others, root, inner, &inside, found),
                (None, _) => {}
            }
        }
    }
}

fn check(path: &str) -> Vec<String> {
    check_against(&json_schema(), path)
}

fn check_train(path: &str) -> Vec<String> {
    check_against(&train_schema(), path)
}

fn check_against(schema: &Value, path: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("a file");
    let options = serde_yaml::options! { strict_booleans: true };
    let value: Value = serde_yaml::from_str_with_options(&text, options).expect("YAML");
    let mut found = Vec::new();
    violations(schema, schema, &value, "", &mut found);
    found
}

#[test]
fn good_suites_fit_the_schema() {
    for suite in ["minimal", "everything", "gui", "toolcall"] {
        assert_eq!(check(&format!("tests/it/good/{suite}/suite.yaml")), [""; 0], "{suite}");
    }
}

#[test]
fn good_train_files_fit_the_schema() {
    // Editors read a bare section, such as `rl:`, as null; with braces it is the intended empty section.
    assert_eq!(check_train("tests/it/train/good/everything.yaml"), [""; 0]);
    assert_eq!(check_train("tests/it/train/good/braces.yaml"), [""; 0]);
}

#[test]
fn agent_files_fit_their_schema_or_do_not() {
    let check = |path: &str| check_against(&agent_schema(), &format!("tests/it/agent/{path}.yaml"));
    for name in ["minimal", "everything"] {
        assert_eq!(check(&format!("good/{name}")), [""; 0], "{name}");
    }
    for name in ["empty-map", "unknown-key", "numbers"] {
        assert!(!check(&format!("broken/{name}")).is_empty(), "{name}");
    }
}

#[test]
fn policy_files_fit_their_schema_or_do_not() {
    let check = |path: &str| check_against(&policy_schema(), &format!("tests/it/policy/{path}.yaml"));
    for name in ["minimal", "everything", "anthropic"] {
        assert_eq!(check(&format!("good/{name}")), [""; 0], "{name}");
    }
    for name in
        ["format-missing", "model-missing", "unknown-key", "unknown-dialect", "numbers", "prices-half"]
    {
        assert!(!check(&format!("broken/{name}")).is_empty(), "{name}");
    }
}

#[test]
fn wrong_shapes_do_not_fit_the_train_schema() {
    for name in [
        "unknown-key-typo",
        "unknown-schedule",
        "unknown-preset",
        "unknown-importance",
        "policy-missing",
        "path-missing",
        "type-number",
        "type-list",
        "type-map",
        "type-boolean",
        "suites-empty",
        "seed-negative",
        "suite-numbers",
        "sections-out-of-bounds",
        "warm-start-out-of-bounds",
        "importance-no-end",
    ] {
        assert!(!check_train(&format!("tests/it/train/broken/{name}.yaml")).is_empty(), "{name}");
    }
}

#[test]
fn wrong_shapes_do_not_fit_the_schema() {
    for name in [
        "unknown-key-typo",
        "unknown-check",
        "unknown-env-typo",
        "unknown-variant",
        "toolcall-unknown-kind",
        "toolcall-kind-with-keys",
        "toolcall-tools-in-a-list",
        "toolcall-numbers-out-of-bounds",
        "toolcall-rows-missing",
        "toolcall-called-arguments-list",
        "mcp-limits",
        "http-method",
        "secret-from-env",
        "missing-instruction",
        "missing-expected",
        "format-missing",
        "type-number",
        "type-list",
        "type-text",
        "type-choice",
        "type-instances",
        "numbers-out-of-bounds",
        "limits-out-of-bounds",
        "range-one-number",
    ] {
        assert!(!check(&format!("tests/it/broken/{name}.yaml")).is_empty(), "{name}");
    }
}

/// A kind of map that the parser takes as JSON; its keys are looked at when the suite is checked.
const READ_AS_JSON: &str = "ValuePatternMap";

/// Kinds of environment, whose message lists them in other words.
const ENVIRONMENTS: [&str; 8] =
    ["gui", "http", "in_process", "openenv", "process", "swe", "terminal", "toolcall"];

/// An unknown key makes the parser list the keys that it knows: for every kind of map, those of the schema.
#[test]
fn parser_and_schema_know_the_same_keys() {
    let task = |inside: &str| {
        format!("format: 1\nsuite: s\ntasks:\n  - id: t\n    instruction: i\n    checks: []\n    {inside}\n")
    };
    let check =
        |kind: &str| task("zzz: 1").replace("checks: []", &format!("checks: [{{ {kind}: {{ zzz: 1 }} }}]"));
    let places = [
        ("", "zzz: 1\n".to_owned()),
        ("Defaults", "format: 1\nsuite: s\ndefaults: { zzz: 1 }\ntasks: []\n".to_owned()),
        ("ListMap", "format: 1\nsuite: s\nvars: { l: { zzz: 1 } }\ntasks: []\n".to_owned()),
        ("Task", task("zzz: 1")),
        ("Env", task("env: { zzz: 1 }")),
        ("Terminal", task("env: { terminal: { zzz: 1 } }")),
        ("FileWithMode", task("env: { terminal: { files: { f: { zzz: 1 } } } }")),
        ("Swe", task("env: { swe: { zzz: 1 } }")),
        ("TestNamesFrom", task("env: { swe: { fail_to_pass: { zzz: 1 } } }")),
        ("Toolcall", task("env: { toolcall: { zzz: 1 } }")),
        ("Tool", task("env: { toolcall: { tools: { t: { zzz: 1 } } } }")),
        ("Table", task("env: { toolcall: { tools: { t: { table: { zzz: 1 } } } } }")),
        ("Store", task("env: { toolcall: { tools: { t: { store: { zzz: 1 } } } } }")),
        ("StepReward", task("env: { toolcall: { step_rewards: [{ zzz: 1 }] } }")),
        ("Gui", task("env: { gui: { zzz: 1 } }")),
        ("Site", task("env: { gui: { sites: { s: { zzz: 1 } } } }")),
        ("Route", task("env: { gui: { sites: { s: { routes: [{ zzz: 1 }] } } } }")),
        ("Respond", task("env: { gui: { sites: { s: { routes: [{ respond: { zzz: 1 } }] } } } }")),
        ("ProcessEnv", task("env: { process: { zzz: 1 } }")),
        ("HttpEnv", task("env: { http: { zzz: 1 } }")),
        ("Openenv", task("env: { openenv: { zzz: 1 } }")),
        ("InProcess", task("env: { in_process: { zzz: 1 } }")),
        ("Http", task("env: { toolcall: { tools: { t: { http: { zzz: 1 } } } } }")),
        ("Mcp", task("env: { toolcall: { mcp: { s: { zzz: 1 } } } }")),
        ("FromEnv", task("env: { toolcall: { mcp: { s: { headers: { h: { zzz: 1 } } } } } }")),
        ("Workspace", task("env: { toolcall: { workspace: { zzz: 1 } } }")),
        ("ImageMap", task("env: { terminal: { image: { zzz: 1 } } }")),
        ("Verifier", task("env: { terminal: { verifier: { zzz: 1 } } }")),
        ("Apart", task("env: { terminal: { verifier: { apart: { zzz: 1 } } } }")),
        ("ArtifactMap", task("env: { terminal: { verifier: { apart: { artifacts: [{ zzz: 1 }] } } } }")),
        ("Collect", task("env: { terminal: { verifier: { apart: { collect: [{ zzz: 1 }] } } } }")),
        ("Reward", task("reward: { zzz: 1 }")),
        ("ChoiceMap", task("template: { v: { zzz: 1 } }")),
        ("SampleMap", task("template: { v: { sample: { zzz: 1 } } }")),
        ("ScriptMap", task("oracle: { zzz: 1 }")),
        ("Action", task("oracle: { actions: [{ zzz: 1 }] }")),
        ("CallAction", task("oracle: { actions: [{ call: { zzz: 1 } }] }")),
        ("Check", task("zzz: 1").replace("checks: []", "checks: [{ zzz: 1 }]")),
        ("FileEquals", check("file_equals")),
        ("FileContains", check("file_contains")),
        ("FileMatches", check("file_matches")),
        ("FileAbsent", check("file_absent")),
        ("FileMode", check("file_mode")),
        ("FileOwner", check("file_owner")),
        ("TreeHash", check("tree_hash")),
        ("Command", check("command")),
        ("Process", check("process")),
        ("JsonValue", check("json_value")),
        ("AnswerNumber", check("answer_number")),
        ("AnswerList", check("answer_list")),
        ("AnswerCommand", check("answer_command")),
        ("Called", check("called")),
        ("CallMap", task("zzz: 1").replace("checks: []", "checks: [{ called_in_order: [{ zzz: 1 }] }]")),
        ("CallsMatch", check("calls_match")),
        (
            "ExpectedCall",
            task("zzz: 1").replace("checks: []", "checks: [{ calls_match: { calls: [{ zzz: 1 }] } }]"),
        ),
        ("Stored", check("stored")),
        ("PageScript", check("page_script")),
        ("PageReward", check("page_reward")),
        ("PageElement", check("page_element")),
        ("PageStorage", check("page_storage")),
        ("PageCookie", check("page_cookie")),
        ("Requested", check("requested")),
        ("Downloaded", check("downloaded")),
        ("TextPattern", check("page_url")),
    ];
    let refused = |path: &std::path::Path| load_suite(path).expect_err("an unknown key");
    check_keys(&json_schema(), &places, refused, &ENVIRONMENTS);
}

/// The same for train files.
#[test]
fn parser_and_schema_know_the_same_keys_of_trainings() {
    let train =
        |inside: &str| format!("format: 1\ntrain: t\npolicy: {{ preset: tiny }}\nsuites: []\n{inside}\n");
    let places = [
        ("", "zzz: 1\n".to_owned()),
        ("Policy", train("").replace("preset: tiny", "zzz: 1")),
        ("TrainSuite", train("").replace("[]", "[{ zzz: 1 }]")),
        ("WarmStart", train("warm_start: { zzz: 1 }")),
        ("Optimizer", train("warm_start: { optimizer: { zzz: 1 } }")),
        ("Rl", train("rl: { zzz: 1 }")),
        ("Judging", train("rl: { judging: { zzz: 1 } }")),
        ("TurnRule", train("rl: { judging: { rules: [{ zzz: 1 }] } }")),
        ("Distillation", train("rl: { distillation: { zzz: 1 } }")),
        ("RemoteTeacher", train("rl: { distillation: { teacher: { remote: x, zzz: 1 } } }")),
        ("Lora", train("rl: { lora: { zzz: 1 } }")),
        ("Loss", train("rl: { loss: { zzz: 1 } }")),
        ("Kl", train("rl: { loss: { kl: { zzz: 1 } } }")),
        ("Entropy", train("rl: { loss: { entropy: { zzz: 1 } } }")),
        ("Importance", train("rl: { loss: { importance: { zzz: 1 } } }")),
        ("IcePop", train("rl: { loss: { importance: { ice_pop: { zzz: 1 } } } }")),
        ("Length", train("rl: { length: { zzz: 1 } }")),
        ("Curriculum", train("rl: { curriculum: { zzz: 1 } }")),
        ("Guards", train("rl: { guards: { zzz: 1 } }")),
        ("Gate", train("rl: { gate: { zzz: 1 } }")),
        ("HeldOutGate", train("rl: { gate: { held_out: { zzz: 1 } } }")),
        ("Sampling", train("rl: { sampling: { zzz: 1 } }")),
        ("Evaluation", train("evaluation: { zzz: 1 }")),
        ("Checkpoint", train("checkpoint: { zzz: 1 }")),
        ("Engine", train("engine: { zzz: 1 }")),
        ("Devices", train("devices: { zzz: 1 }")),
        ("Limits", train("limits: { zzz: 1 }")),
    ];
    let refused = |path: &std::path::Path| load_train(path).expect_err("an unknown key");
    check_keys(&train_schema(), &places, refused, &[]);
}

#[test]
fn parser_and_schema_know_the_same_keys_of_chat_files() {
    let places = [
        ("", "format: 1\nzzz: 1\n".to_owned()),
        ("Lora", "format: 1\nlora: { zzz: 1 }\n".to_owned()),
        ("ChatGate", "format: 1\ngate: { zzz: 1 }\n".to_owned()),
        ("Judging", "format: 1\njudging: { zzz: 1 }\n".to_owned()),
        ("TurnRule", "format: 1\njudging: { rules: [{ zzz: 1 }] }\n".to_owned()),
    ];
    let refused = |path: &std::path::Path| load_chat(path).expect_err("an unknown key");
    check_keys(&chat_schema(), &places, refused, &[]);
}

#[test]
fn parser_and_schema_know_the_same_keys_of_gate_files() {
    let gate = |rest: &str| format!("format: 1\ngate: g\npolicy: oracle\n{rest}\n");
    let places = [
        ("", gate("suites: []\nmetrics: []\nzzz: 1")),
        ("CiSuite", gate("metrics: []\nsuites: [{ zzz: 1 }]")),
        ("Metric", gate("suites: []\nmetrics: [{ zzz: 1 }]")),
        ("Completeness", gate("suites: []\nmetrics: []\ncompleteness: { zzz: 1 }")),
        ("Budget", gate("suites: []\nmetrics: []\nbudget: { zzz: 1 }")),
    ];
    let refused = |path: &std::path::Path| load_ci(path).expect_err("an unknown key");
    check_keys(&ci_schema(), &places, refused, &[]);
}

/// `unlisted` are the keys of a kind of map whose message lists no keys.
fn check_keys(
    schema: &Value,
    places: &[(&str, String)],
    refused: impl Fn(&std::path::Path) -> clawrl_config::ConfigError,
    unlisted: &[&str],
) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("suite.yaml");
    for (name, text) in places {
        std::fs::write(&path, text).expect("a file");
        let error = refused(&path);
        let help = error.problems()[0].help_text().to_owned();
        let definition = if name.is_empty() { schema } else { &schema["$defs"][name] };
        let keys: Vec<&str> =
            definition["properties"].as_object().expect(name).keys().map(String::as_str).collect();
        assert_eq!(definition["additionalProperties"], json!(false), "{name}");
        if keys == unlisted {
            continue;
        }
        let (_, listed) = help.split_once("the keys here are ").expect("a list of keys");
        let mut listed: Vec<&str> = listed.split(", ").map(|key| key.trim_matches('`')).collect();
        listed.sort_unstable();
        assert_eq!(listed, keys, "{name}");
    }
    // The loops above covered the whole schema.
    let maps = schema["$defs"].as_object().expect("definitions").iter();
    let maps: Vec<&str> = maps
        .filter(|(_, definition)| definition["properties"].is_object())
        .map(|(name, _)| name.as_str())
        .filter(|name| *name != READ_AS_JSON)
        .collect();
    let mut named: Vec<&str> = places.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
    named.sort_unstable();
    assert_eq!(maps, named);
}

#[test]
fn every_key_is_described() {
    for schema in [json_schema(), train_schema(), ci_schema()] {
        let definitions = schema["$defs"].as_object().expect("definitions").iter();
        for (name, definition) in definitions.chain([(&"the file".to_owned(), &schema)]) {
            for (key, property) in definition["properties"].as_object().into_iter().flatten() {
                let described = property["description"].as_str().is_some_and(|words| !words.is_empty());
                assert!(described, "{name}.{key} has no description");
            }
        }
    }
}

#[test]
fn published_schemas_are_current() {
    for (path, text) in schema_files() {
        let published = std::fs::read_to_string(format!("../../{path}")).expect(path);
        let line =
            published.lines().zip(text.lines()).take_while(|(published, text)| published == text).count() + 1;
        assert!(published == text, "{path}:{line} is not current; run `cargo xtask generate`");
        assert!(text.ends_with("}\n"), "{path}");
        let schema: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{path}");
    }
}

/// The example of the page about trainings is valid, except for its paths.
#[test]
fn train_page_example_loads() {
    let page = std::fs::read_to_string("../docs/guides/train.md").expect("the page");
    let (_, example) = page.split_once("```yaml\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let tasks = std::fs::canonicalize("../../tasks").expect("the suites");
    let example = example.replace("../tasks", tasks.to_str().expect("a UTF-8 path"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("train.yaml");
    std::fs::write(&path, example).expect("a file");
    let train = load_train(&path).expect("a good example");
    let tasks = clawrl_config::TrainTasks::load(&train).expect("its suites");
    assert!(tasks.held_out().count() >= 512, "it asks for what there is");
}

/// The example of the page about gates is valid, except for its paths.
#[test]
fn gate_page_example_loads() {
    let page = std::fs::read_to_string("../docs/guides/ci.md").expect("the page");
    let (_, example) = page.split_once("```yaml\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let tasks = std::fs::canonicalize("../../tasks").expect("the suites");
    let example = example.replace("../../tasks", tasks.to_str().expect("a UTF-8 path"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gate.yaml");
    std::fs::write(&path, example).expect("a file");
    assert_eq!(load_ci(&path).expect("a good example").metrics.len(), 2);
}
