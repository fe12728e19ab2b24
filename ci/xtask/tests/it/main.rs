//! The repository keeps its own rules, and the tool says how it is used.

mod build_cache;

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().expect("xtask was built for this test")
}

#[test]
fn the_repository_is_tidy() {
    let output = xtask(&["tidy"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn wrong_usage_is_told_apart_from_broken_rules() {
    for arguments in [&[][..], &["tidies"], &["tidy", "now"]] {
        let output = xtask(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("usage: cargo xtask"), "{arguments:?}");
    }
}
