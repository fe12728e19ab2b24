//! How the tests of an instance run, and which parser reads their output (W1).

use super::instance::Instance;
use super::script::script;
use crate::shell_text::word;

/// How an instance is tested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Runner {
    pub(super) command: String,
    pub(super) parser: &'static str,
    /// Origin of the command, for the import record.
    pub(super) from: &'static str,
    /// Settings of a script; `None` for those of the data set.
    pub(super) workdir: Option<String>,
    pub(super) activates: Option<bool>,
}

/// A command that takes test files as arguments.
const PYTEST: &str = "pytest -rA";

/// Test commands of repositories of SWE-bench and SWE-Gym whose rows name none, by owner and name.
const COMMANDS: [(&str, &str, &str); 31] = [
    ("astropy/astropy", PYTEST, "pytest"),
    ("django/django", "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1", "unittest"),
    ("marshmallow-code/marshmallow", PYTEST, "pytest"),
    ("matplotlib/matplotlib", PYTEST, "pytest"),
    ("mwaskom/seaborn", "pytest --no-header -rA", "pytest"),
    ("pallets/flask", PYTEST, "pytest"),
    ("psf/requests", PYTEST, "pytest"),
    ("pvlib/pvlib-python", PYTEST, "pytest"),
    ("pydata/xarray", PYTEST, "pytest"),
    ("pydicom/pydicom", PYTEST, "pytest"),
    ("pylint-dev/astroid", PYTEST, "pytest"),
    ("pylint-dev/pylint", PYTEST, "pytest"),
    ("pytest-dev/pytest", PYTEST, "pytest"),
    ("pyvista/pyvista", PYTEST, "pytest"),
    ("scikit-learn/scikit-learn", PYTEST, "pytest"),
    ("sphinx-doc/sphinx", "tox --current-env -epy39 -v --", "pytest"),
    ("sqlfluff/sqlfluff", PYTEST, "pytest"),
    ("bokeh/bokeh", "pytest -rA -n0", "pytest"),
    ("conan-io/conan", "pytest -n0 -rA", "pytest"),
    ("dask/dask", "pytest -n0 -rA --color=no", "pytest"),
    ("facebookresearch/hydra", "pytest -rA --tb=long", "pytest"),
    ("getmoto/moto", "pytest -n0 -rA", "pytest"),
    ("iterative/dvc", PYTEST, "pytest"),
    ("modin-project/modin", "pytest -n0 -rA", "pytest"),
    ("pandas-dev/pandas", "pytest -rA --tb=long", "pytest"),
    ("project-monai/monai", PYTEST, "pytest"),
    ("pydantic/pydantic", "pytest -rA --tb=short -vv -o console_output_style=classic --no-header", "pytest"),
    // Known parsers that we do not have.
    ("sympy/sympy", "", "its own `bin/test`"),
    ("python/mypy", "", "cases in data files, selected by name"),
    ("swe-bench/humaneval", "", "a script without test names"),
    ("redis/redis", "", "its own `runtest`"),
];

/// Repositories of SWE-Gym, whose images have their own naming rule.
const GYM: [&str; 11] = [
    "bokeh/bokeh",
    "conan-io/conan",
    "dask/dask",
    "facebookresearch/hydra",
    "getmoto/moto",
    "iterative/dvc",
    "modin-project/modin",
    "pandas-dev/pandas",
    "project-monai/monai",
    "pydantic/pydantic",
    "python/mypy",
];

/// Files in test patches that are not tests.
const NO_TESTS: [&str; 11] =
    [".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml"];

/// Whether the repository is one of SWE-Gym's.
pub(super) fn is_of_gym(repo: &str) -> bool {
    GYM.contains(&repo.to_ascii_lowercase().as_str())
}

/// How an instance is tested.
///
/// # Errors
/// None of our parsers reads its log, or there is no test command.
pub(super) fn runner(instance: &Instance) -> Result<Runner, String> {
    let repo = instance.repo.to_ascii_lowercase();
    let known = COMMANDS.iter().find(|(name, _, _)| *name == repo);
    let named = instance.log_parser.as_deref().map(parser_named).transpose()?;
    if named.is_none()
        && let Some((_, "", what)) = known
    {
        return Err(format!("no parser here reads the log of `{}`: {what}", instance.repo));
    }
    let of_repo = || known.map(|(_, _, parser)| *parser);
    if let Some(text) = &instance.eval_script {
        let script = script(text)?;
        let parser = parser(named.or_else(of_repo), &script.command)?;
        return Ok(Runner {
            parser,
            command: script.command,
            from: "eval.sh",
            workdir: script.workdir,
            activates: Some(script.activates),
        });
    }
    let here =
        |command: String, parser, from| Runner { command, parser, from, workdir: None, activates: None };
    if let Some(command) = &instance.test_command {
        let parser = parser(named.or_else(of_repo), command)?;
        // SWE-rebench appends the files of the test patch to a command of its first version, as SWE-bench does, and
        // runs a command of its second version unchanged.
        let whole = instance.image.as_ref().is_some_and(|image| image.column != "docker_image");
        let is_python = parser == "pytest" || parser == "unittest";
        let command = if is_python && !whole { on_files(command, &repo, instance) } else { command.clone() };
        return Ok(here(command, parser, "row"));
    }
    if instance.fault.is_some() {
        return smith(instance).map(|command| here(command, "pytest", "tests"));
    }
    match known {
        Some((_, command, of_repo)) => {
            let command = match (repo.as_str(), instance.version.as_str()) {
                ("django/django", "1.9") => "./tests/runtests.py --verbosity 2",
                ("astropy/astropy", "0.1" | "0.2" | "0.3" | "0.4" | "1.1" | "1.2" | "1.3") => {
                    "pytest -rA -vv -o console_output_style=classic --tb=no"
                }
                _ => command,
            };
            Ok(here(on_files(command, &repo, instance), named.unwrap_or(of_repo), "repository"))
        }
        None => Err(format!("there is no test command for `{}`", instance.repo)),
    }
}

/// The parser of a name in a row.
fn parser_named(name: &str) -> Result<&'static str, String> {
    const PYTEST: [&str; 17] = [
        "pytest_options",
        "pytest_v2",
        "seaborn",
        "matplotlib",
        "astroid",
        "flask",
        "marshmallow",
        "pvlib",
        "pyvista",
        "sqlfluff",
        "xarray",
        "pydicom",
        "requests",
        "pylint",
        "astropy",
        "scikit",
        "sphinx",
    ];
    match name.trim().trim_start_matches("parse_log_") {
        "pytest" => Ok("pytest"),
        name if PYTEST.contains(&name) => Ok("pytest"),
        "unittest" | "django" => Ok("unittest"),
        "cargo" => Ok("cargo"),
        "go" | "gotest" => Ok("go"),
        "jest" => Ok("jest"),
        _ => Err(format!("there is no parser `{name}` here")),
    }
}

/// The named parser, or else that of the test runner in the command.
fn parser(named: Option<&'static str>, command: &str) -> Result<&'static str, String> {
    let runners = [
        ("pytest", "pytest"),
        ("unittest", "unittest"),
        ("runtests.py", "unittest"),
        ("cargo test", "cargo"),
        ("go test", "go"),
        ("jest", "jest"),
    ];
    let started = || runners.iter().find(|(word, _)| command.contains(word)).map(|(_, parser)| *parser);
    named.or_else(started).ok_or_else(|| {
        let last = command.lines().last().unwrap_or_default();
        format!("no parser here reads the output of `{last}`, and the row names none")
    })
}

/// The command with the files of the test patch.
fn on_files(command: &str, repo: &str, instance: &Instance) -> String {
    let files = instance.test_patch.iter().flat_map(|patch| &patch.files);
    let tests = files.filter(|path| !NO_TESTS.iter().any(|end| path.ends_with(end)));
    let mut line = command.to_owned();
    for path in tests {
        line.push(' ');
        if repo == "django/django" {
            let module = path.strip_suffix(".py").unwrap_or(path);
            line.push_str(&word(&module.strip_prefix("tests/").unwrap_or(module).replace('/', ".")));
        } else {
            line.push_str(&word(path));
        }
    }
    line
}

/// For rows of SWE-smith, which name neither command nor parser: its Python profiles run pytest.
fn smith(instance: &Instance) -> Result<String, String> {
    let mut command = "pytest --disable-warnings --color=no --tb=no --verbose".to_owned();
    for file in test_files(instance)? {
        command.push(' ');
        command.push_str(&word(&file));
    }
    Ok(command)
}

/// The files in names of pytest tests.
pub(super) fn test_files(instance: &Instance) -> Result<Vec<String>, String> {
    let mut files = Vec::new();
    for name in instance.fail_to_pass.iter().chain(&instance.pass_to_pass) {
        let file = name.split_once("::").map(|(file, _)| file).filter(|file| file.ends_with(".py"));
        let Some(file) = file else {
            return Err(format!("there is no test command, and `{name}` is not the name of a pytest test"));
        };
        if !files.iter().any(|known| known == file) {
            files.push(file.to_owned());
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(change: Value, expected: Result<(&str, &str), &str>) {
        let test_patch = "--- a/tests/q/test_a.py\n+++ b/tests/q/test_a.py\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/tests/data.json\n@@ -0,0 +1 @@\n+{}\n--- a/tests/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
        let mut row = json!({
            "instance_id": "o__r-1", "repo": "o/r", "base_commit": "c0ffee", "problem_statement": "It is wrong.",
            "patch": "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n", "test_patch": test_patch,
            "FAIL_TO_PASS": ["tests/q/test_a.py::t[a b]"], "PASS_TO_PASS": [],
        });
        for (key, value) in change.as_object().unwrap() {
            row[key] = value.clone();
        }
        let instance = Instance::read(row.as_object().unwrap()).unwrap();
        let found = runner(&instance).map(|runner| (runner.command, runner.parser));
        let expected = expected.map(|(command, parser)| (command.to_owned(), parser)).map_err(str::to_owned);
        assert_eq!(found, expected, "{change}");
    }

    #[test]
    fn w1_repositories_have_commands() {
        check(json!({ "repo": "pallets/flask" }), Ok(("pytest -rA tests/q/test_a.py", "pytest")));
        check(
            json!({ "repo": "django/django" }),
            Ok((
                "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1 q.test_a",
                "unittest",
            )),
        );
        check(
            json!({ "repo": "django/django", "version": "1.9" }),
            Ok(("./tests/runtests.py --verbosity 2 q.test_a", "unittest")),
        );
        check(
            json!({ "repo": "sphinx-doc/sphinx" }),
            Ok(("tox --current-env -epy39 -v -- tests/q/test_a.py", "pytest")),
        );
        check(
            json!({ "repo": "sympy/sympy" }),
            Err("no parser here reads the log of `sympy/sympy`: its own `bin/test`"),
        );
        check(json!({}), Err("there is no test command for `o/r`"));
    }

    #[test]
    fn w1_rows_name_commands_and_parsers() {
        let rebench =
            json!({ "install_config": { "test_cmd": "pytest -rA", "log_parser": "parse_log_pytest" } });
        check(rebench.clone(), Ok(("pytest -rA tests/q/test_a.py", "pytest")));
        check(
            json!({ "image_name": "docker.io/x/y", "install_config": { "test_cmd": ["a", "pytest -rA"], "log_parser": "parse_log_pytest" } }),
            Ok(("a\npytest -rA", "pytest")),
        );
        check(json!({ "test_cmds": ["go test -v ./..."] }), Ok(("go test -v ./...", "go")));
        check(
            json!({ "test_cmd": "make check" }),
            Err("no parser here reads the output of `make check`, and the row names none"),
        );
        check(
            json!({ "test_cmd": "make check", "log_parser": "parse_log_tap" }),
            Err("there is no parser `parse_log_tap` here"),
        );
        check(json!({ "test_cmd": "make check", "log_parser": "cargo" }), Ok(("make check", "cargo")));
    }

    #[test]
    fn w1_swe_smith_tests_name_their_files() {
        check(
            json!({ "repo": "swesmith/o__r.1" }),
            Ok(("pytest --disable-warnings --color=no --tb=no --verbose tests/q/test_a.py", "pytest")),
        );
        check(
            json!({ "repo": "swesmith/o__r.1", "FAIL_TO_PASS": ["TestX"] }),
            Err("there is no test command, and `TestX` is not the name of a pytest test"),
        );
    }
}
