//! The repository's own tool: `cargo xtask tidy` checks its rules, `cargo xtask generate` writes its generated files.
//!
//! Exit codes: 0 all well. 1 rules are broken. 2 wrong usage, or files that cannot be read or written.

mod code;
mod docs;
mod edges;
mod generated;
mod hygiene;
mod manifest;
mod modules;
mod problem;
mod rust_text;
mod tree;
mod workspace;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use thiserror::Error;

use crate::problem::Problem;
use crate::tree::{Tree, TreeError};

const USAGE: &str = "usage: cargo xtask tidy | generate";

/// Why a command could not do its work.
#[derive(Debug, Error)]
enum Failure {
    #[error("{USAGE}")]
    Usage,
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error("cannot write {path}")]
    Write { path: &'static str, source: std::io::Error },
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    run(&arguments).unwrap_or_else(|failure| {
        let cause = std::error::Error::source(&failure).map(|cause| format!(": {cause}")).unwrap_or_default();
        // Nothing is left to do where standard error is closed.
        let _ = writeln!(std::io::stderr(), "xtask: {failure}{cause}");
        ExitCode::from(2)
    })
}

fn run(arguments: &[String]) -> Result<ExitCode, Failure> {
    let root = tree::find_root(&std::env::current_dir()?)?;
    match arguments {
        [command] if command == "tidy" => tidy(&root),
        [command] if command == "generate" => generate(&root),
        _ => Err(Failure::Usage),
    }
}

/// Prints every broken rule, in the order of files.
fn tidy(root: &Path) -> Result<ExitCode, Failure> {
    let tree = Tree::read(root)?;
    let rules: [fn(&Tree) -> Vec<Problem>; 7] = [
        edges::check,
        workspace::check,
        modules::check,
        code::check,
        generated::check,
        hygiene::check,
        docs::check,
    ];
    let mut problems: Vec<Problem> = rules.iter().flat_map(|rule| rule(&tree)).collect();
    problems.sort();
    let mut out = std::io::stdout().lock();
    for (path, lines) in modules::longer_than_advised(&tree) {
        writeln!(out, "{path}: note: {lines} lines of code")?;
    }
    for problem in &problems {
        writeln!(out, "{problem}")?;
    }
    let files = tree.paths().count();
    if problems.is_empty() {
        writeln!(out, "tidy: {files} files, nothing to say")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "tidy: {files} files, {} problems; the rules are in CONTRIBUTING.md", problems.len())?;
    Ok(ExitCode::FAILURE)
}

/// Writes what is not current, and says which files that were.
fn generate(root: &Path) -> Result<ExitCode, Failure> {
    let tree = Tree::read(root)?;
    let mut out = std::io::stdout().lock();
    for generated::Generated { path, text } in generated::files(&tree) {
        if tree.text(path) != Some(&text) {
            write_file(&root.join(path), &text).map_err(|source| Failure::Write { path, source })?;
            writeln!(out, "{path}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_file(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text)
}
