//! Overrides of keys of a train file: `rl.updates=10`.
//!
//! I1. A file with overrides is equivalent to the file with these keys written into it. I2. Mistakes in overrides are reported like
//! mistakes in files, in the text of the file with the overrides.
//!
//! A key is a path of keys separated by dots; in a list, a number is the index of an entry, from 0. A value is YAML.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use crate::document::{Entry, Node, NodeValue, read_yaml, yaml_text};
use crate::problem::{ConfigError, Problem};
use crate::source::{Source, Span};

/// One key with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainSetting {
    written: String,
    path: Vec<String>,
    value: Node,
}

impl TrainSetting {
    /// The override as it was given.
    #[must_use]
    pub fn written(&self) -> &str {
        &self.written
    }
}

impl FromStr for TrainSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "write KEY=VALUE, as in rl.updates=10 or rl.optimizer.learning_rate=1e-4".to_owned();
        let (key, value) = text.split_once('=').ok_or_else(form)?;
        let path: Vec<String> = key.split('.').map(|part| part.trim().to_owned()).collect();
        if path.iter().any(String::is_empty) {
            return Err(form());
        }
        let source = Arc::new(Source::new(Path::new("value"), Path::new("value").to_owned(), value));
        let value = read_yaml(&source).map_err(|error| {
            let problems: Vec<String> = error.problems().iter().map(ToString::to_string).collect();
            format!("`{value}` is no YAML value: {}", problems.join("; "))
        })?;
        Ok(Self { written: text.to_owned(), path, value })
    }
}

/// The file with the overrides applied (I1).
pub(crate) fn with_settings(
    source: Arc<Source>,
    settings: &[TrainSetting],
) -> Result<Arc<Source>, ConfigError> {
    if settings.is_empty() {
        return Ok(source);
    }
    let mut root = read_yaml(&source)?;
    for setting in settings {
        put(&mut root, &setting.path, 0, setting)?;
    }
    let written: Vec<&str> = settings.iter().map(TrainSetting::written).collect();
    let shown = format!("{} with {}", source.shown, written.join(", "));
    Ok(Arc::new(Source::new(Path::new(&shown), source.path.clone(), yaml_text(&root))))
}

/// Sets the value at a path, and creates missing maps of the path.
fn put(node: &mut Node, path: &[String], depth: usize, setting: &TrainSetting) -> Result<(), Problem> {
    let Some(key) = path.get(depth) else {
        *node = setting.value.clone();
        return Ok(());
    };
    if node.value == NodeValue::Null {
        node.value = NodeValue::Map(Vec::new());
    }
    let above = || path[..depth].join(".");
    let next = match &mut node.value {
        NodeValue::Map(entries) => {
            let at = entries.iter().position(|entry| entry.key == *key).unwrap_or_else(|| {
                let node = Node::from(NodeValue::Null);
                entries.push(Entry { key: key.clone(), span: Span::default(), node });
                entries.len() - 1
            });
            &mut entries[at].node
        }
        NodeValue::List(nodes) => {
            let count = nodes.len();
            let entry = key.parse().ok().and_then(|at: usize| nodes.get_mut(at));
            entry.ok_or_else(|| {
                let message = format!("`{}`: `{}` is a list of {count}", setting.written, above());
                Problem::new(message, "in a list the place of an entry is a number, and the first is 0")
            })?
        }
        _ => {
            let message = format!("`{}`: `{}` has a single value, no keys", setting.written, above());
            return Err(Problem::new(message, "harness/docs/guides/train.md lists the keys"));
        }
    };
    put(next, path, depth + 1, setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "train: a # a name\nsuites: [ { path: x } ]\nrl: { updates: 5 }\nevaluation:\n";

    fn settings(list: &[&str]) -> Vec<TrainSetting> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn check(list: &[&str], expected: &str) {
        let source = Arc::new(Source::new(Path::new("t.yaml"), Path::new("t.yaml").to_owned(), FILE));
        match with_settings(source, &settings(list)) {
            Ok(found) => assert_eq!(found.text(), expected, "{list:?}"),
            Err(error) => assert_eq!(error.problems()[0].to_string(), expected, "{list:?}"),
        }
    }

    #[test]
    fn without_settings_a_file_stays_as_it_was_written() {
        check(&[], FILE);
    }

    #[test]
    fn a_setting_replaces_or_adds_a_value_at_any_depth() {
        let rest = |rl: &str, evaluation: &str| {
            format!("train: a\nsuites:\n  - path: x\nrl:\n{rl}evaluation: {evaluation}\n")
        };
        check(&["rl.updates=7"], &rest("  updates: 7\n", "null"));
        let added = "  updates: 5\n  optimizer:\n    learning_rate: 0.0001\n";
        check(&["rl.optimizer.learning_rate=1e-4"], &rest(added, "null"));
        check(
            &["evaluation={every_updates: 2}"],
            &rest("  updates: 5\n", "\n  every_updates: 2").replace(": \n", ":\n"),
        );
        check(
            &["evaluation.every_updates=2", "evaluation.every_updates=3"],
            &rest("  updates: 5\n", "\n  every_updates: 3").replace(": \n", ":\n"),
        );
        check(&["suites.0.path=y=z"], &rest("  updates: 5\n", "null").replace("path: x", "path: \"y=z\""));
    }

    #[test]
    fn a_setting_that_leads_nowhere_is_refused() {
        check(&["rl.updates.more=1"], "`rl.updates.more=1`: `rl.updates` has a single value, no keys");
        check(&["suites.1.path=y"], "`suites.1.path=y`: `suites` is a list of 1");
        check(&["suites.path=y"], "`suites.path=y`: `suites` is a list of 1");
        for wrong in ["rl", "=1", "rl.=1", ".a=1", "rl={"] {
            assert!(wrong.parse::<TrainSetting>().is_err(), "{wrong}");
        }
    }
}
