//! Plans of policy files, and the errors of broken ones. One snapshot for each file in `policy/broken/`.

use std::path::{Path, PathBuf};

use clawrl_config::{ConfigError, load_policy};
use clawrl_core::RemoteSpec;
use proptest::prelude::*;

use crate::diagnostics::{damaged, rendered};

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(format!("tests/it/policy/{folder}")).expect("a folder of policy files");
    let paths = entries.map(|entry| entry.expect("its entries").path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect();
    files.sort();
    files
}

fn failure(path: &Path) -> ConfigError {
    match load_policy(path) {
        Ok(_) => panic!("{} should be refused", path.display()),
        Err(error) => error,
    }
}

fn good(name: &str) -> RemoteSpec {
    load_policy(Path::new(&format!("tests/it/policy/good/{name}.yaml")))
        .unwrap_or_else(|error| panic!("{}", rendered(&error)))
}

#[test]
fn every_broken_policy_file_is_explained() {
    for path in files("broken") {
        let error = failure(&path);
        for problem in error.problems() {
            let (file, line, column) = problem.location().expect("a place in the file");
            assert_eq!(file, path.to_str().unwrap());
            assert!(line >= 1 && column >= 1 && !problem.help_text().is_empty(), "{problem}");
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        insta::with_settings!({ snapshot_path => "policy/broken", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, rendered(&error));
        });
    }
}

/// Semantics lock: the defaults of a policy file. Change them only on purpose.
#[test]
fn defaults_are_locked() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&good("minimal")).unwrap());
}

#[test]
fn everything_reaches_the_plan_and_comes_back() {
    for name in ["everything", "anthropic", "minimal"] {
        let spec = good(name);
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<RemoteSpec>(&text).unwrap(), spec, "{name}");
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&good("everything")).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every damaged file gives settings or problems.
    #[test]
    fn damaged_policy_files_are_explained(
        damage in proptest::collection::vec((any::<usize>(), 0..12usize, "[-a-z:{}\\[\\]\"'#|>&*!%@é\n\t 0-9]{0,4}"), 1..4),
    ) {
        let mut text = include_str!("policy/good/everything.yaml").to_owned();
        for (at, cut, insert) in damage {
            text = damaged(&text, at, cut, &insert);
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.yaml");
        std::fs::write(&path, text).unwrap();
        if let Err(error) = load_policy(&path) {
            prop_assert!(!error.problems().is_empty());
            prop_assert!(!rendered(&error).is_empty());
        }
    }
}
