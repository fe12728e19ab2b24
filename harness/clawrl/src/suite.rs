//! Suites of tasks: rows of data with an environment of this process, or YAML files.
//!
//! I1. A suite of rows is written as a suite file beside the results, and read as any other: it is split, recorded and resumed
//! the same way.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_core::{ActionFormat, EnvProvider, Script, ToolCall};
use clawrl_inprocess::{Environment, InProcessProvider, IntoEnvironment, Row};
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// Tasks that policies attempt and train on.
#[derive(Clone)]
pub struct Suite(Source);

#[derive(Clone)]
enum Source {
    /// A suite file, or a folder with one.
    File(PathBuf),
    Rows(Rows),
}

#[derive(Clone)]
struct Rows {
    name: String,
    rows: Vec<Row>,
    environment: Option<Arc<dyn Environment>>,
}

impl Suite {
    /// The suite of a YAML file, or of a folder with a `suite.yaml`. It is read when it is used.
    #[must_use]
    pub fn yaml(path: impl Into<PathBuf>) -> Self {
        Self(Source::File(path.into()))
    }

    /// One task for each line of a JSONL file, which is a JSON object. The suite has the name of the file.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Row`].
    pub fn jsonl(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
        let mut rows = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let row = serde_json::from_str(line).map_err(|error| Error::Row {
                path: path.to_owned(),
                line: number + 1,
                message: error.to_string(),
            })?;
            rows.push(row);
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Self::rows(name, rows))
    }

    /// One task for each row. A name has lower-case letters, digits and dashes; other characters become dashes.
    #[must_use]
    pub fn rows(name: impl AsRef<str>, rows: impl IntoIterator<Item = Row>) -> Self {
        let dashed = |char: char| if char.is_ascii_alphanumeric() { char.to_ascii_lowercase() } else { '-' };
        let name = name.as_ref().chars().map(dashed).collect();
        Self(Source::Rows(Rows { name, rows: rows.into_iter().collect(), environment: None }))
    }

    /// The environment of the rows: a type that implements a trait of [`crate::env`]. A suite of a file has its own, and keeps it.
    #[must_use]
    pub fn env<Kind>(mut self, environment: impl IntoEnvironment<Kind>) -> Self {
        if let Source::Rows(rows) = &mut self.0 {
            rows.environment = Some(environment.into_environment());
        }
        self
    }

    /// Path of the suite file, which is written first if the suite has rows: below `folder`.
    pub(crate) fn path(&self, folder: &Path) -> Result<PathBuf> {
        match &self.0 {
            Source::File(path) => Ok(path.clone()),
            Source::Rows(rows) => rows.write(folder),
        }
    }
}

/// A provider of the environments of these suites; `None` if no suite has one in this process.
pub(crate) fn provider_of(suites: &[Suite]) -> Option<Arc<dyn EnvProvider>> {
    let environment = |suite: &Suite| match &suite.0 {
        Source::Rows(rows) => rows.environment.clone(),
        Source::File(_) => None,
    };
    let environments: Vec<_> = suites.iter().filter_map(environment).collect();
    (!environments.is_empty()).then(|| Arc::new(InProcessProvider::new(environments)) as Arc<dyn EnvProvider>)
}

impl Rows {
    /// Writes `<folder>/<name>/suite.yaml` with its data, and returns its path. YAML is a superset of JSON.
    fn write(&self, folder: &Path) -> Result<PathBuf> {
        let environment =
            self.environment.as_ref().ok_or_else(|| Error::NoEnvironment { suite: self.name.clone() })?;
        let folder = folder.join(&self.name);
        fs::create_dir_all(&folder).map_err(Error::file("write", &folder))?;
        // The calls of one template have fixed names and argument names, so each sequence of them is an entry of its own.
        let mut entries: BTreeMap<Vec<(String, Vec<String>)>, String> = BTreeMap::new();
        for row in &self.rows {
            let calls = match environment.solution(row) {
                Some(Script::Calls(calls)) => calls,
                _ => Vec::new(),
            };
            let names = |call: &ToolCall| {
                let arguments =
                    call.arguments.as_object().into_iter().flat_map(|object| object.keys().cloned());
                (call.name.clone(), arguments.collect())
            };
            let signature: Vec<(String, Vec<String>)> = calls.iter().map(names).collect();
            let arguments: Vec<&Value> = calls.iter().map(|call| &call.arguments).collect();
            let line = json!({ "prompt": environment.prompt(row), "data": row, "calls": arguments });
            entries.entry(signature).or_default().push_str(&format!("{line}\n"));
        }
        let mut lists = serde_json::Map::new();
        let mut tasks = Vec::new();
        for (number, (signature, lines)) in entries.iter().enumerate() {
            let list = format!("rows_{number}");
            let file = folder.join(format!("{list}.jsonl"));
            fs::write(&file, lines).map_err(Error::file("write", &file))?;
            lists.insert(list.clone(), json!({ "rows": format!("{list}.jsonl") }));
            let id = if number == 0 { self.name.clone() } else { format!("{}-{number}", self.name) };
            tasks.push(entry(environment.as_ref(), &id, &list, signature));
        }
        let suite = json!({ "format": 1, "suite": self.name, "vars": lists, "tasks": tasks });
        let path = folder.join("suite.yaml");
        fs::write(&path, format!("{suite:#}\n")).map_err(Error::file("write", &path))?;
        Ok(path)
    }
}

/// The entry of `tasks:` for the rows of a list, whose solutions have these names and argument names.
fn entry(environment: &dyn Environment, id: &str, list: &str, solution: &[(String, Vec<String>)]) -> Value {
    let format = match environment.action_format() {
        ActionFormat::Raw => "raw",
        ActionFormat::Fenced => "fenced",
        ActionFormat::ToolCalls => "tool_calls",
        ActionFormat::Hermes => "hermes",
    };
    let action = |(call, (name, arguments)): (usize, &(String, Vec<String>))| {
        // A script has an action of its own for the end.
        if name == "submit" {
            return json!({ "submit": format!("{{{{ row.calls[{call}].answer }}}}") });
        }
        let value =
            |name: &String| (name.clone(), json!(format!("{{{{ row.calls[{call}][{}] }}}}", json!(name))));
        let arguments: serde_json::Map<String, Value> = arguments.iter().map(value).collect();
        json!({ "call": { "name": name, "arguments": arguments } })
    };
    let mut task = json!({
        "id": id,
        "template": { "row": { "from": list } },
        "instances": "all",
        "instruction": "{{ row.prompt }}",
        "env": { "in_process": { "environment": environment.name(), "row": "{{ row.data }}" } },
        "action_format": format,
    });
    if !solution.is_empty() {
        let actions: Vec<Value> = solution.iter().enumerate().map(action).collect();
        task["oracle"] = json!({ "actions": actions });
    }
    task
}
