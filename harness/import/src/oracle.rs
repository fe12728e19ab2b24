//! Turns a reference solution into commands that copy it into an environment and run it.
//!
//! The agent must not find the solution, so it is not a file of the environment: the oracle's first commands write it.
//! Text in plain lines is written by a here-document, anything else by base64.
//!
//! I1. Files arrive byte for byte. I2. No command holds a control character that a terminal would interpret.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::shell_text::word;

/// Folder of the reference solution.
pub(crate) const SOLUTION: &str = "/solution";
/// Terminator of here-documents.
const END: &str = "CLAWRL_END";
/// Maximum size of a command's text: it is typed into a terminal.
const MAX_PLAIN: usize = 16 << 10;
/// Bytes in one base64 command; a multiple of 3, so that pieces can be decoded one by one.
const PIECE: usize = 9 << 10;
/// Bytes on one line of base64.
const LINE: usize = 57;

/// A file of a solution.
#[derive(Debug, Clone)]
pub(crate) struct SolutionFile {
    /// Relative to the solution folder.
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) executable: bool,
}

/// Commands that write files below `folder`.
pub(crate) fn writing(files: &[SolutionFile], folder: &str) -> Vec<String> {
    let mut folders: Vec<String> = files
        .iter()
        .filter_map(|file| file.path.rsplit_once('/'))
        .map(|(above, _)| format!("{folder}/{above}"))
        .collect();
    folders.push(folder.to_owned());
    folders.sort();
    folders.dedup();
    let words: Vec<String> = folders.iter().map(|folder| word(folder)).collect();
    let mut commands = vec![format!("mkdir -p {}", words.join(" "))];
    for file in files {
        let path = word(&format!("{folder}/{}", file.path));
        commands.extend(content(&file.bytes, &path));
        if file.executable {
            commands.push(format!("chmod +x {path}"));
        }
    }
    commands
}

fn content(bytes: &[u8], path: &str) -> Vec<String> {
    if bytes.is_empty() {
        return vec![format!(": > {path}")];
    }
    if let Some(text) = plain(bytes) {
        return vec![format!("cat > {path} <<'{END}'\n{text}{END}")];
    }
    let piece = |(at, piece): (usize, &[u8])| {
        let lines: String = piece.chunks(LINE).map(|line| STANDARD.encode(line) + "\n").collect();
        let into = if at == 0 { ">" } else { ">>" };
        format!("base64 -d {into} {path} <<'{END}'\n{lines}{END}")
    };
    bytes.chunks(PIECE).enumerate().map(piece).collect()
}

/// Whether a text can be written by a here-document: ASCII in whole lines, none of which is the terminator.
fn plain(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let printable = |c: char| matches!(c, '\n' | '\t' | ' '..='~');
    let fits = text.len() <= MAX_PLAIN
        && text.ends_with('\n')
        && text.chars().all(printable)
        && text.lines().all(|line| line != END);
    fits.then_some(text)
}

/// The command that runs a script: its own interpreter, unless that is a plain shell.
pub(crate) fn running(path: &str, bytes: &[u8]) -> String {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    let plain = match first.strip_prefix("#!") {
        None => true,
        Some(interpreter) => {
            let mut words = interpreter.split_whitespace();
            let mut program = words.next().unwrap_or_default();
            if program.ends_with("/env") {
                program = words.next().unwrap_or_default();
            }
            let name = program.rsplit('/').next().unwrap_or_default();
            // Naming the interpreter again would lose its options, such as -e.
            matches!(name, "bash" | "sh") && words.next().is_none() && !first.ends_with('\r')
        }
    };
    if plain { format!("bash {}", word(path)) } else { word(path) }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn check(first_line: &str, expected: &str) {
        assert_eq!(running("/tests/test.sh", first_line.as_bytes()), expected, "{first_line}");
    }

    #[test]
    fn scripts_run_in_their_interpreter() {
        check("#!/bin/bash\necho", "bash /tests/test.sh");
        check("echo", "bash /tests/test.sh");
        check("#!/usr/bin/env bash", "bash /tests/test.sh");
        check("#!/bin/sh", "bash /tests/test.sh");
        check("#!/bin/bash -e", "/tests/test.sh");
        check("#!/usr/bin/env python3", "/tests/test.sh");
    }

    fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        let lines = proptest::collection::vec("[ -~\t]{0,40}", 0..8);
        prop_oneof![
            any::<Vec<u8>>(),
            lines.prop_map(|lines| lines
                .iter()
                .map(|line| format!("{line}\n"))
                .collect::<String>()
                .into_bytes()),
            Just(format!("a\n{END}\nrm -rf x\n").into_bytes()),
            "\\PC{0,60}".prop_map(String::into_bytes),
            (any::<u8>(), 8000..40_000_usize).prop_map(|(byte, count)| vec![byte; count]),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// I1 and I2.
        #[test]
        fn solution_files_arrive_unchanged(
            bytes in any_bytes(),
            name in "[a-zA-Z0-9 '$._-]{1,12}",
            executable in any::<bool>(),
        ) {
            prop_assume!(!name.starts_with('.'));
            let place = tempfile::tempdir().unwrap();
            let folder = place.path().join("a b").display().to_string();
            let file = SolutionFile { path: format!("sub/{name}"), bytes: bytes.clone(), executable };
            for command in writing(&[file], &folder) {
                prop_assert!(command.chars().all(|c| matches!(c, '\n' | '\t' | ' '..='~')), "{}", command);
                let status = Command::new("bash").arg("-c").arg(&command).status().unwrap();
                prop_assert!(status.success(), "{}", command);
            }
            let path = place.path().join("a b/sub").join(&name);
            prop_assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
    }
}
