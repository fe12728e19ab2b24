//! Whether this program can train: whether the program linked to libtorch exists and starts.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::finding::{Finding, Health};
use super::libtorch::Libtorch;

/// Name of the finding in `clawrl doctor`.
const NAME: &str = "libtorch";

/// The program that trains.
#[derive(Debug, Clone)]
pub enum TrainingProgram {
    /// This program.
    This,
    /// Another program, at this path.
    Other(PathBuf),
    /// No program: this build cannot train.
    None,
}

/// Examines whether training is available. Another program is started as a test, because only the loader knows all its
/// dependencies. `build`: how to build the program.
pub fn training_finding(program: &TrainingProgram, libtorch: &Libtorch, build: &str) -> Finding {
    match program {
        TrainingProgram::This => can_train(libtorch),
        TrainingProgram::Other(program) => of_program(program, libtorch, build),
        TrainingProgram::None => {
            Finding::bad(NAME, Health::Warn, "not in this build, which cannot train".to_owned(), build)
        }
    }
}

fn of_program(program: &Path, libtorch: &Libtorch, build: &str) -> Finding {
    if let Some((message, help)) = libtorch.trouble() {
        return Finding::bad(NAME, Health::Warn, format!("{message}, so there is no training"), help);
    }
    let cannot = |why: &str| {
        let found = format!("{} does not start, so there is no training: {why}", program.display());
        Finding::bad(NAME, Health::Warn, found, build)
    };
    match Command::new(program).arg("--version").output() {
        Ok(output) if output.status.success() => can_train(libtorch),
        Ok(output) => cannot(String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => cannot(&error.to_string()),
    }
}

fn can_train(libtorch: &Libtorch) -> Finding {
    match libtorch {
        Libtorch::There(folder) => Finding::ok(NAME, &folder.display().to_string()),
        _ => Finding::ok(NAME, "where the loader finds it"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn check(program: &Path, libtorch: &Libtorch, health: Health, found: &str) {
        let finding = of_program(program, libtorch, "build it");
        assert!(finding.health == health && finding.found.contains(found), "{finding:?}");
        assert_eq!(finding.advice.is_some(), health != Health::Ok);
    }

    #[test]
    fn there_is_training_where_the_program_starts() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("clawrl-torch");
        let write = |text: &str| {
            std::fs::write(&program, text).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        };
        let there = Libtorch::There(PathBuf::from("/opt/libtorch/lib"));
        write("#!/bin/sh\nexit 0\n");
        check(&program, &there, Health::Ok, "/opt/libtorch/lib");
        check(&program, &Libtorch::Unknown, Health::Ok, "the loader finds it");
        let missing = Libtorch::Missing(PathBuf::from("/opt/libtorch/lib/libtorch_cpu.so"));
        check(&program, &missing, Health::Warn, "libtorch_cpu.so is missing, so there is no training");
        write("#!/bin/sh\necho libc10.so: not found >&2; exit 127\n");
        check(&program, &there, Health::Warn, "so there is no training: libc10.so: not found");
        std::fs::remove_file(&program).unwrap();
        check(&program, &there, Health::Warn, "does not start");
    }
}
