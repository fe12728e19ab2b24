//! Harbor's digest of a task folder.
//!
//! Source: Harbor's packager: the SHA-256 over a line `path NUL sha256-of-content` for every file of the task, sorted
//! by path, without files that `.gitignore` or a short list of common names excludes. Deviation: a folder with its own
//! ignore rules has no digest here, since reading them requires git's matching.

use std::fs;
use std::io;
use std::path::Path;

use clawrl_core::hex;
use sha2::{Digest, Sha256};

/// Hexadecimal; `None` if it cannot be computed.
pub(super) fn digest(task: &Path) -> Option<String> {
    let rules = [".gitignore", ".harborignore", "tests/.harborignore", "solution/.harborignore"];
    if rules.iter().any(|rules| task.join(rules).exists()) {
        return None;
    }
    let mut paths = Vec::new();
    for single in ["task.toml", "instruction.md", "README.md", "trajectory.json"] {
        if task.join(single).is_file() {
            paths.push(single.to_owned());
        }
    }
    for folder in ["environment", "tests", "solution", "steps"] {
        if task.join(folder).is_dir() {
            list(task, folder, &mut paths).ok()?;
        }
    }
    paths.sort();
    let mut outer = Sha256::new();
    for path in paths {
        let content = hex(&Sha256::digest(fs::read(task.join(&path)).ok()?));
        outer.update(format!("{path}\0{content}\n"));
    }
    Some(hex(&outer.finalize()))
}

fn list(task: &Path, folder: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(task.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|_| io::ErrorKind::InvalidData)?;
        let customary = matches!(name.as_str(), ".DS_Store" | "__pycache__")
            || [".pyc", ".swp", ".swo", "~"].iter().any(|end| name.ends_with(end));
        let path = format!("{folder}/{name}");
        let metadata = fs::metadata(entry.path())?;
        if metadata.is_dir() && !customary {
            list(task, &path, paths)?;
        } else if metadata.is_file() && !customary {
            paths.push(path);
        }
    }
    Ok(())
}
