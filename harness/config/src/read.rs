//! From a path to the text of a file.
//!
//! Errors: one problem; at a place where the file could be read.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bounds::MAX_TEXT_BYTES;
use crate::dialect::{self, Dialect};
use crate::problem::{ConfigError, Problem};
use crate::source::Source;
use crate::suggest::{listed, nearest};

/// Name of the file in a suite's folder.
pub(crate) const SUITE_FILE: &str = "suite.yaml";

/// Reads a suite file, or the one in a folder.
pub(crate) fn read_suite(path: &Path) -> Result<Arc<Source>, ConfigError> {
    read(&suite_file(path)?, &dialect::SUITE)
}

/// The suite file that a path means: itself, or the one in a folder. That it is a file is asked.
pub(crate) fn suite_file(path: &Path) -> Result<PathBuf, Problem> {
    let shown = if path.is_dir() { in_folder(path)? } else { path.to_owned() };
    is_file(&shown, &dialect::SUITE).map(|_| shown)
}

/// Checks that the path is a file, and returns its size in bytes.
fn is_file(shown: &Path, dialect: &Dialect) -> Result<u64, Problem> {
    let metadata = fs::metadata(shown).map_err(|cause| missing(shown, dialect, &cause))?;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    Err(Problem::new(format!("`{}` is not a file", shown.display()), dialect.which))
}

/// Refuses a path that is not UTF-8: plans, baselines and records name it, and they are JSON.
///
/// # Errors
/// The path is not UTF-8.
pub fn refuse_unnameable(path: &Path) -> Result<(), Problem> {
    if path.to_str().is_some() {
        return Ok(());
    }
    // The message shows the invalid bytes, so that users can find and type the name.
    let message = format!(
        "the path `{}` is not UTF-8, and a plan has to name it",
        path.as_os_str().as_encoded_bytes().escape_ascii()
    );
    Err(Problem::new(
        message,
        "rename what is not UTF-8 in it; `convmv -f latin1 -t utf8` converts old names",
    ))
}

/// Reads a file of this kind.
pub(crate) fn read(shown: &Path, dialect: &Dialect) -> Result<Arc<Source>, ConfigError> {
    let bytes = is_file(shown, dialect)?;
    if bytes > MAX_TEXT_BYTES {
        let message = format!("`{}` is too large for a {}: {bytes} bytes", shown.display(), dialect.noun);
        let help = format!("keep it below {MAX_TEXT_BYTES} bytes: {}", dialect.shrink);
        return Err(Problem::new(message, help).into());
    }
    let unreadable = |cause: std::io::Error| {
        let message = format!("`{}` cannot be read: {}", shown.display(), cause.kind());
        Problem::new(message, "make it readable for this user")
    };
    let bytes = fs::read(shown).map_err(unreadable)?;
    let absolute = fs::canonicalize(shown).map_err(unreadable)?;
    refuse_unnameable(&absolute)?;
    // Other files are named relative to where this one was named.
    refuse_unnameable(&std::path::absolute(shown).map_err(unreadable)?)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Arc::new(Source::new(shown, absolute, text))),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let source = Arc::new(Source::new(shown, absolute, text));
            let help = "save the file as UTF-8; `iconv -f latin1 -t utf-8` converts an old one";
            let problem = Problem::new(format!("the {} is not UTF-8 text", dialect.file), help);
            let span = source.clamp(at, '\u{fffd}'.len_utf8());
            Err(problem.at(&source, span, "the first byte that is not").into())
        }
    }
}

fn in_folder(folder: &Path) -> Result<PathBuf, Problem> {
    let path = folder.join(SUITE_FILE);
    let unreadable = |cause: std::io::Error| {
        let message = format!("`{}` cannot be read: {}", folder.display(), cause.kind());
        Problem::new(message, "make it and the folders above readable for this user")
    };
    if path.try_exists().map_err(unreadable)? {
        return Ok(path);
    }
    fs::read_dir(folder).map_err(unreadable)?;
    let others: Vec<String> = names_in(folder)
        .into_iter()
        .filter(|name| {
            let extension = Path::new(name).extension();
            extension.is_some_and(|extension| extension == "yaml" || extension == "yml")
        })
        .collect();
    let help = if others.is_empty() {
        "name a suite's folder, or write a suite with `clawrl new suite NAME`".to_owned()
    } else {
        let names = listed(others.iter().take(8).map(String::as_str));
        format!("rename the suite file to `{SUITE_FILE}`, or name it: there is {names}")
    };
    Err(Problem::new(format!("the folder `{}` has no {SUITE_FILE}", folder.display()), help))
}

fn missing(path: &Path, dialect: &Dialect, cause: &std::io::Error) -> Problem {
    if cause.kind() != std::io::ErrorKind::NotFound {
        let message = format!("`{}` cannot be read: {}", path.display(), cause.kind());
        return Problem::new(message, "make it and the folders above readable for this user");
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names = names_in(folder);
    let wanted = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let help = match nearest(wanted, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{}`?", path.with_file_name(near).display()),
        None => dialect.nothing.to_owned(),
    };
    Problem::new(format!("there is no {} at `{}`", dialect.noun, path.display()), help)
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}
