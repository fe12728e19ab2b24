//! Errors of broken suites. One snapshot for each file in `broken/`.

use std::path::{Path, PathBuf};

use clawrl_config::{ConfigError, load_suite};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};
use proptest::prelude::*;

/// Renders for a terminal of 100 columns, without colours.
pub(crate) fn rendered(diagnostic: &dyn Diagnostic) -> String {
    let mut text = String::new();
    GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
        .with_width(100)
        .with_links(false)
        .render_report(&mut text, diagnostic)
        .expect("writing to a string");
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

pub(crate) fn failure(path: &Path) -> ConfigError {
    match load_suite(path) {
        Ok(_) => panic!("{} should be refused", path.display()),
        Err(error) => error,
    }
}

fn broken_files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir("tests/it/broken")
        .expect("the folder of broken suites")
        .map(|entry| entry.expect("its entries").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_snapshot_has_its_suite() {
    for entry in std::fs::read_dir("tests/it/broken").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "snap") {
            assert!(path.with_extension("yaml").exists(), "{} is left over", path.display());
        }
    }
}

#[test]
fn every_broken_suite_is_explained() {
    let files = broken_files();
    assert!(files.len() >= 160, "only {} broken suites", files.len());
    for path in files {
        let error = failure(&path);
        for problem in error.problems() {
            let (file, line, column) = problem.location().expect("a place in the file");
            assert_eq!(file, path.to_str().unwrap());
            assert!(line >= 1 && column >= 1);
            assert!(!problem.help_text().is_empty(), "{problem} has no help");
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = rendered(&error);
        let root = env!("CARGO_MANIFEST_DIR");
        assert!(!text.contains(root), "{name} shows an absolute path");
        insta::with_settings!({ snapshot_path => "broken", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(name, text);
        });
    }
}

/// A suite with a piece cut out and another put in, on character boundaries.
pub(crate) fn damaged(text: &str, at: usize, cut: usize, insert: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = at % chars.len();
    let rest = &chars[(at + cut).min(chars.len())..];
    chars[..at].iter().copied().chain(insert.chars()).chain(rest.iter().copied()).collect()
}

proptest! {
    /// Every file either loads or gives problems with places, and all problems can be rendered.
    #[test]
    fn damaged_suites_are_explained(
        suite in prop::sample::select(vec!["everything", "toolcall"]),
        damage in proptest::collection::vec((any::<usize>(), 0..12usize, "[-a-z:{}\\[\\]\"'#|>&*!%@é\n\t 0-9]{0,4}"), 1..4),
    ) {
        let mut text = std::fs::read_to_string(format!("tests/it/good/{suite}/suite.yaml")).expect("a suite");
        for (at, cut, insert) in damage {
            text = damaged(&text, at, cut, &insert);
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("suite.yaml");
        std::fs::write(&path, text).expect("a file");
        if let Err(error) = load_suite(&path) {
            prop_assert!(!error.problems().is_empty());
            for problem in error.problems() {
                prop_assert!(problem.location().is_some(), "{problem} has no place");
                prop_assert!(!problem.help_text().is_empty(), "{problem} has no help");
            }
            prop_assert!(rendered(&error).contains("help:"));
        }
    }
}
