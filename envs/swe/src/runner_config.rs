//! Parts of a project's files that configure a test runner. The agent may change the rest of such a file.
//!
//! A part counts as changed when its parsed content differs; in `setup.cfg`, comments count as well. A file that cannot
//! be parsed counts as changed: the runner's reading of it is unknown.
//!
//! Sources: pytest 8.4, `_pytest.config.findpaths`, and iniconfig 2.1; Jest 30, "Configuring Jest"; npm 11, "scripts";
//! Cargo 1.95, "Cargo Targets" and "Overriding Dependencies".

use clawrl_core::LogParser;
use serde_json::Value;
use toml_edit::{DocumentMut, Item};

/// Keys of TOML, outermost first.
const PYTEST: &[&[&str]] = &[&["tool", "pytest"]];
const CARGO: &[&[&str]] =
    &[&["test"], &["package", "autotests"], &["lib", "harness"], &["lib", "test"], &["patch"], &["replace"]];
/// Keys of `package.json`.
const NODE: &[&str] = &["jest", "babel", "scripts"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigParts {
    Toml(&'static [&'static [&'static str]]),
    Ini,
    Json(&'static [&'static str]),
}

/// The parts of the file at a path that configure this runner.
pub(crate) fn parts(parser: LogParser, path: &[u8]) -> Option<ConfigParts> {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    match (parser, name) {
        (LogParser::Pytest | LogParser::Unittest, b"pyproject.toml") => Some(ConfigParts::Toml(PYTEST)),
        (LogParser::Pytest | LogParser::Unittest, b"setup.cfg") => Some(ConfigParts::Ini),
        (LogParser::Cargo, b"Cargo.toml") => Some(ConfigParts::Toml(CARGO)),
        (LogParser::Jest, b"package.json") => Some(ConfigParts::Json(NODE)),
        _ => None,
    }
}

impl ConfigParts {
    /// Whether a part differs. A missing file counts as empty.
    pub(crate) fn differ(self, before: &[u8], after: &[u8]) -> bool {
        if before == after {
            return false;
        }
        let before = self.read(before).or_else(|| self.read(b""));
        let after = self.read(after);
        after.is_none() || before != after
    }

    /// `None`: cannot be parsed.
    fn read(self, text: &[u8]) -> Option<Vec<String>> {
        let text = std::str::from_utf8(text).ok()?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::Ini => Some(ini(text)),
            Self::Toml(keys) => {
                let document: DocumentMut = text.parse().ok()?;
                let part = |keys: &&[&str]| {
                    let part = keys.iter().try_fold(document.as_item(), |item, key| item.get(key));
                    part.map_or_else(String::new, |part| shown(part).to_string())
                };
                Some(keys.iter().map(part).collect())
            }
            Self::Json(_) if text.trim().is_empty() => Some(Vec::new()),
            Self::Json(keys) => {
                let value: Value = serde_json::from_str(text).ok()?;
                Some(keys.iter().filter_map(|key| Some(format!("{key}: {}", value.get(key)?))).collect())
            }
        }
    }
}

/// The value of a part, independent of its notation.
fn shown(item: &Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return table
            .iter()
            .map(|(key, item)| (key.to_owned(), shown(item)))
            .collect::<serde_json::Map<_, _>>()
            .into();
    }
    if let Some(tables) = item.as_array_of_tables() {
        return tables.iter().map(|table| shown(&Item::Table(table.clone()))).collect();
    }
    item.as_value().map_or(Value::Null, scalar)
}

fn scalar(value: &toml_edit::Value) -> Value {
    use toml_edit::Value as Toml;
    match value {
        Toml::String(text) => text.value().clone().into(),
        Toml::Integer(number) => (*number.value()).into(),
        // JSON cannot represent infinities.
        Toml::Float(number) => format!("{:?}", number.value()).into(),
        Toml::Boolean(truth) => (*truth.value()).into(),
        Toml::Datetime(time) => time.value().to_string().into(),
        Toml::Array(values) => values.iter().map(scalar).collect(),
        Toml::InlineTable(_) => shown(&Item::Value(value.clone())),
    }
}

/// The lines of every section whose name contains `pytest`, split as iniconfig does.
fn ini(text: &str) -> Vec<String> {
    let mut is_inside = false;
    let mut lines = Vec::new();
    // Python's line separators.
    let ends = ['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];
    for line in text.split(ends).filter(|line| !line.trim().is_empty()) {
        let bare = line.split(['#', ';']).next().unwrap_or(line).trim_end();
        if bare.starts_with('[') && bare.ends_with(']') {
            is_inside = bare.contains("pytest");
        }
        if is_inside {
            lines.push(line.trim_end().to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parser: LogParser, path: &str, before: &str, after: &str, expected: bool) {
        let parts = parts(parser, path.as_bytes()).unwrap();
        assert_eq!(parts.differ(before.as_bytes(), after.as_bytes()), expected, "{before:?} to {after:?}");
    }

    #[test]
    fn pyproject_only_pytest_section_is_protected() {
        let pytest = |before: &str, after: &str, expected: bool| {
            check(LogParser::Pytest, "a/pyproject.toml", before, after, expected)
        };
        let base = "[project]\nname = 'a'\n[tool.pytest.ini_options]\naddopts = '-q'\n";
        pytest(base, &base.replace("'a'", "'b'"), false);
        pytest(base, &format!("{base}[tool.ruff]\nline-length = 90\n"), false);
        pytest(base, &base.replace("-q", "-p evil"), true);
        pytest(base, "[project]\nname = 'a'\n", true);
        pytest("", "[project]\nname = 'a'\n", false);
        for added in [
            "tool.pytest.ini_options.addopts = '-p evil'",
            "tool = { pytest = { ini_options = { addopts = '-p evil' } } }",
            "[tool.\"pyt\\u0065st\".ini_options]\naddopts = '-p evil'",
            "[tool.pytest]\naddopts = ['-p', 'evil']",
            "[tool.pytest.ini_options]",
        ] {
            pytest("", added, true);
        }
        pytest("", "no toml", true);
        pytest("no toml", "[project]", false);
    }

    #[test]
    fn setup_cfg_only_pytest_section_is_protected() {
        let pytest = |before: &str, after: &str, expected: bool| {
            check(LogParser::Pytest, "setup.cfg", before, after, expected)
        };
        let base = "[metadata]\nname = a\n[tool:pytest]\naddopts = -q\n[flake8]\nmax = 1\n";
        pytest(base, &base.replace("name = a", "name = b").replace("max = 1", "max = 2"), false);
        pytest(base, &base.replace("-q", "-q -p evil"), true);
        pytest(base, &base.replace("[flake8]", "[flake8"), true);
        pytest("[a]\n", "[a]\u{c}[tool:pytest] # x\u{2028}addopts = -p evil", true);
    }

    #[test]
    fn cargo_toml_only_runner_parts_are_protected() {
        let cargo = |before: &str, after: &str, expected: bool| {
            check(LogParser::Cargo, "Cargo.toml", before, after, expected)
        };
        let base = "[package]\nname = \"a\"\n";
        cargo(base, &format!("{base}[dependencies]\nb = \"1\"\n"), false);
        cargo(base, &format!("{base}[[test]]\nname = \"it\"\npath = \"src/evil.rs\"\n"), true);
        cargo(base, &format!("{base}autotests = false\n"), true);
        cargo(base, &format!("{base}[patch.crates-io]\nb = {{ path = \"evil\" }}\n"), true);
    }

    #[test]
    fn package_json_only_runner_parts_are_protected() {
        let jest = |before: &str, after: &str, expected: bool| {
            check(LogParser::Jest, "package.json", before, after, expected)
        };
        jest("{\"version\": \"1\"}", "{\"version\": \"2\"}", false);
        jest("{\"scripts\": {\"test\": \"jest\"}}", "{\"scripts\": {\"test\": \"echo\"}}", true);
        jest("{}", "{\"jest\": {\"testRunner\": \"./evil.js\"}}", true);
        jest("{}", "{", true);
    }
}
