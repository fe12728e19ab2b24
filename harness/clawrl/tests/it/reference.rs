//! The generated pages in `harness/docs/reference`: `cargo xtask generate` writes them, and a test fails if one is
//! stale.
//!
//! Their sources are the help of the built program, the published schemas, the OpenAPI document and the list of metrics.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const FOLDER: &str = "harness/docs/reference";
/// Set by `cargo xtask generate`: pages are written instead of compared.
const WRITE: &str = "CLAWRL_WRITE_REFERENCE";
const NOTE: &str = "<!-- Written by `cargo xtask generate`. -->\n";

#[test]
fn reference_pages_are_current() {
    for (name, text) in pages() {
        let path = Path::new(ROOT).join(FOLDER).join(name);
        if std::env::var_os(WRITE).is_some() {
            fs::write(&path, text).unwrap();
            continue;
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        let same = found.lines().zip(text.lines()).take_while(|(found, wanted)| found == wanted).count();
        assert!(found == text, "{FOLDER}/{name}:{} is not current; run `cargo xtask generate`", same + 1);
    }
}

fn pages() -> Vec<(&'static str, String)> {
    vec![
        ("cli.md", cli()),
        ("exit-codes.md", table_page("Exit codes", "exit-codes")),
        ("environment-variables.md", table_page("Environment variables", "environment")),
        (
            "suite.md",
            schema_page(
                "Suite files",
                "suite",
                "[Suites](../../../tasks/README.md) explains them with examples.",
            ),
        ),
        (
            "train.md",
            schema_page(
                "Train files",
                "train",
                "[Training](../guides/train.md) explains them with examples.",
            ),
        ),
        (
            "ci.md",
            schema_page(
                "Gate files",
                "ci",
                "[Regression gates](../guides/ci.md) explains them with examples.",
            ),
        ),
        (
            "chat.md",
            schema_page(
                "Chat files",
                "chat",
                "[Learning from chat](../guides/chat-learning.md) explains them with examples.",
            ),
        ),
        (
            "policy.md",
            schema_page(
                "Policy files",
                "policy",
                "[Remote models](../guides/remote-models.md) explains them with examples.",
            ),
        ),
        (
            "agent.md",
            schema_page(
                "Agent files",
                "agent",
                "[Agent programs](../guides/agents.md) explains them with examples.",
            ),
        ),
        ("metrics.md", metrics()),
        ("http-api.md", http_api()),
    ]
}

fn help(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clawrl"));
    command.args(arguments).env_clear().env("COLUMNS", "100");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Every command with its help, depth first.
fn cli() -> String {
    let mut page = format!("{NOTE}# Commands\n\nThe output of `--help`.\n");
    let mut waiting = vec![Vec::<String>::new()];
    while let Some(command) = waiting.pop() {
        let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let text = help(&arguments);
        let name: Vec<&str> = ["clawrl"].into_iter().chain(command.iter().map(String::as_str)).collect();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        write!(page, "\n## {}\n\n```text\n{}\n```\n", name.join(" "), lines.join("\n").trim_end()).unwrap();
        let below =
            lines.iter().skip_while(|line| **line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        let names: Vec<&str> = below
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help")
            .collect();
        waiting.extend(names.iter().rev().map(|name| [command.as_slice(), &[(*name).to_owned()]].concat()));
    }
    page
}

/// A page with the table that `clawrl help TOPIC` prints in two columns.
fn table_page(title: &str, topic: &str) -> String {
    let text = help(&["help", topic]);
    let mut lines = text.lines();
    let header = lines.next().unwrap();
    let second = header.find("meaning").unwrap();
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut below = String::new();
    for line in lines {
        let indented = line.len() > second && line.is_char_boundary(second) && line[..second].ends_with(' ');
        let (first, rest) = if indented { line.split_at(second) } else { ("", line) };
        match (first.trim(), rows.last_mut()) {
            _ if !indented => writeln!(below, "{rest}").unwrap(),
            ("", Some(row)) => write!(row.1, " {}", rest.trim()).unwrap(),
            (name, _) => rows.push((name.to_owned(), rest.trim().to_owned())),
        }
    }
    let mut page = format!("{NOTE}# {title}\n\n| {} | meaning |\n| --- | --- |\n", header[..second].trim());
    for (name, meaning) in rows {
        writeln!(page, "| `{name}` | {} |", cell(&meaning)).unwrap();
    }
    match below.trim() {
        "" => page,
        below => format!("{page}\n{below}\n"),
    }
}

/// Text as a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema[key].as_str().unwrap_or_default()
}

/// The page about the files that `tasks/schema/NAME.schema.json` describes: a section for each map, breadth first.
fn schema_page(title: &str, name: &str, more: &str) -> String {
    let path = format!("tasks/schema/{name}.schema.json");
    let schema: Value =
        serde_json::from_str(&fs::read_to_string(Path::new(ROOT).join(&path)).unwrap()).unwrap();
    let mut page = format!(
        "{NOTE}# {title}\n\nEvery key. {more} Editors complete and check these files with [{path}](../../../{path}).\n"
    );
    let mut seen = BTreeMap::new();
    let mut waiting = VecDeque::from([(String::new(), &schema)]);
    while let Some((path, section)) = waiting.pop_front() {
        let heading = if path.is_empty() { "Top level".to_owned() } else { format!("`{path}`") };
        write!(page, "\n## {heading}\n\n").unwrap();
        if let Some(description) = section["description"].as_str().filter(|_| !path.is_empty()) {
            write!(page, "{}\n\n", description.replace('\n', " ")).unwrap();
        }
        let keys = section["properties"].as_object().unwrap();
        page += "| key | type | meaning |\n| --- | --- | --- |\n";
        let required: Vec<&str> =
            section["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (key, value) in keys {
            let must = if required.contains(&key.as_str()) { ", required" } else { "" };
            writeln!(page, "| `{key}` | {}{must} | {} |", type_of(value), cell(&meaning(value))).unwrap();
            let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            follow(&schema, value, &below, &mut seen, &mut waiting);
        }
    }
    // A type with a section is linked; other types are described where they are used.
    for (name, path) in seen.iter().chain(&seen) {
        let section = &schema["$defs"][*name];
        let anchor: String =
            path.to_lowercase().chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
        let link =
            if section["properties"].is_object() { format!("[{name}](#{anchor})") } else { type_of(section) };
        page = page.replace(&format!("<{name}>"), &link);
    }
    page
}

/// Queues the definitions that `value`, found at `path`, names for the first time.
fn follow<'a>(
    schema: &'a Value,
    value: &'a Value,
    path: &str,
    seen: &mut BTreeMap<&'a str, String>,
    waiting: &mut VecDeque<(String, &'a Value)>,
) {
    let name = text(value, "$ref").trim_start_matches("#/$defs/");
    if !name.is_empty() && !seen.contains_key(name) {
        seen.insert(name, path.to_owned());
        let section = &schema["$defs"][name];
        if section["properties"].is_object() {
            waiting.push_back((path.to_owned(), section));
        } else {
            follow(schema, section, path, seen, waiting);
        }
    }
    for below in alternatives(value) {
        follow(schema, below, path, seen, waiting);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", ".NAME")] {
        if value[key].is_object() {
            follow(schema, &value[key], &format!("{path}{mark}"), seen, waiting);
        }
    }
}

/// The alternative schemas of a value, without `null`, which stands for an omitted key.
fn alternatives(value: &Value) -> Vec<&Value> {
    let all = ["anyOf", "oneOf"].into_iter().filter_map(|key| value[key].as_array()).flatten();
    all.filter(|kind| kind["type"] != "null").collect()
}

fn type_of(value: &Value) -> String {
    if let Some(constant) = value.get("const") {
        return format!("`{}`", constant.as_str().map_or_else(|| constant.to_string(), str::to_owned));
    }
    if let Some(name) = value["$ref"].as_str() {
        return format!("<{}>", name.rsplit('/').next().unwrap_or_default());
    }
    let kinds: BTreeSet<String> = alternatives(value).into_iter().map(type_of).collect();
    if !kinds.is_empty() {
        return kinds.into_iter().collect::<Vec<_>>().join(" or ");
    }
    let named = match &value["type"] {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect()
        }
        _ => Vec::new(),
    };
    let of = |key: &str| {
        if value[key].is_object() { format!(" of {}", type_of(&value[key])) } else { String::new() }
    };
    let named: Vec<String> = named
        .into_iter()
        .map(|name| match name {
            "array" => format!("list{}", of("items")),
            "object" => format!("map{}", of("additionalProperties")),
            name => name.to_owned(),
        })
        .collect();
    if named.is_empty() { "any".to_owned() } else { named.join(" or ") }
}

/// The description of a key and of each allowed word.
fn meaning(value: &Value) -> String {
    let mut meaning = text(value, "description").to_owned();
    let words = alternatives(value).into_iter().flat_map(|kind| match alternatives(kind) {
        below if below.is_empty() => vec![kind],
        below => below,
    });
    for word in words.filter(|word| word.get("const").is_some() && word["description"].is_string()) {
        write!(meaning, " {}: {}", type_of(word), text(word, "description")).unwrap();
    }
    meaning
}

/// The metrics of runs, from their enum, and of the chat server, from its source.
fn metrics() -> String {
    let source = fs::read_to_string(Path::new(ROOT).join("harness/record/src/metrics.rs")).unwrap();
    let (_, variants) = source.split_once("pub enum Metric {").unwrap();
    let (variants, _) = variants.split_once("\n}").unwrap();
    let mut page = format!(
        "{NOTE}# Metrics\n\nThe names in `metrics.jsonl` of a run or training. `clawrl metrics` exports them to TensorBoard, Prometheus and \
         Weights & Biases; Prometheus names have the prefix `clawrl_`. `GET /metrics` of `clawrl serve` describes its own metrics itself.\n\n\
         | name | meaning |\n| --- | --- |\n"
    );
    let mut docs = Vec::new();
    for line in variants.lines().map(str::trim) {
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc.trim());
        } else if let Some(name) =
            line.strip_suffix(',').filter(|name| name.chars().all(char::is_alphanumeric))
        {
            let mut snake = String::new();
            for letter in name.chars() {
                if letter.is_uppercase() && !snake.is_empty() {
                    snake.push('_');
                }
                snake.extend(letter.to_lowercase());
            }
            writeln!(page, "| `{snake}` | {} |", cell(&docs.join(" "))).unwrap();
            docs.clear();
        }
    }
    page
}

/// The routes of `clawrl serve`, and the schemas of their bodies.
fn http_api() -> String {
    let document = fs::read_to_string(Path::new(ROOT).join(FOLDER).join("openapi.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let mut page = format!(
        "{NOTE}# HTTP API\n\nThe routes of `clawrl serve`. [openapi.json](openapi.json) is the whole document; the server answers it at \
         `GET /openapi.json`.\n\n| route | purpose | body | answer |\n| --- | --- | --- | --- |\n"
    );
    let link = |content: &Value| {
        let schemas = content["content"].as_object().into_iter().flat_map(Map::values);
        let names = schemas.filter_map(|content| content["schema"]["$ref"].as_str());
        let names: Vec<&str> = names.filter_map(|name| name.rsplit('/').next()).collect();
        names.iter().map(|name| format!("[{name}](#{})", name.to_lowercase())).collect::<Vec<_>>().join(", ")
    };
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, route) in
            methods.as_object().unwrap().iter().filter(|(_, route)| route["summary"].is_string())
        {
            let (body, answer) = (link(&route["requestBody"]), link(&route["responses"]["200"]));
            let summary = cell(text(route, "summary"));
            writeln!(page, "| `{} {path}` | {summary} | {body} | {answer} |", method.to_uppercase()).unwrap();
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        write!(page, "\n## {name}\n\n").unwrap();
        if let Some(description) = schema["description"].as_str() {
            write!(page, "{description}\n\n").unwrap();
        }
        let Some(fields) = schema["properties"].as_object() else { continue };
        page += "| field | type | meaning |\n| --- | --- | --- |\n";
        for (field, value) in fields {
            writeln!(page, "| `{field}` | {} | {} |", type_of(value), cell(&meaning(value))).unwrap();
        }
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        page = page.replace(&format!("<{name}>"), &format!("[{name}](#{})", name.to_lowercase()));
    }
    format!("{}\n", page.trim_end())
}
