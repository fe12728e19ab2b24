//! The repository's own tool: `cargo xtask tidy` checks its rules, `cargo xtask generate` writes its generated files,
//! `cargo xtask doc-tests` prints the options that choose the packages with doc tests.
//!
//! Exit codes: 0 all well. 1 rules are broken. 2 wrong usage, or files that cannot be read or written.

mod code;
mod doc_tests;
mod docs;
mod edges;
mod generated;
mod hygiene;
mod manifest;
mod modules;
mod problem;
mod prose;
mod rust_text;
mod tree;
mod workspace;

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};

use thiserror::Error;

use crate::problem::Problem;
use crate::tree::{Tree, TreeError};

const USAGE: &str = "usage: cargo xtask tidy | generate | doc-tests";

/// The reason why a command failed.
#[derive(Debug, Error)]
enum Failure {
    #[error("{USAGE}")]
    Usage,
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error("{0}")]
    Manifest(Problem),
    #[error("cannot write {path}")]
    Write { path: &'static str, source: std::io::Error },
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    run(&arguments).unwrap_or_else(|failure| {
        let cause = std::error::Error::source(&failure).map(|cause| format!(": {cause}")).unwrap_or_default();
        // If standard error is closed, the error cannot be reported.
        let _ = writeln!(std::io::stderr(), "xtask: {failure}{cause}");
        ExitCode::from(2)
    })
}

fn run(arguments: &[String]) -> Result<ExitCode, Failure> {
    let root = tree::find_root(&std::env::current_dir()?)?;
    match arguments {
        [command] if command == "tidy" => tidy(&root),
        [command] if command == "generate" => generate(&root),
        [command] if command == "doc-tests" => print_doc_tests(&root),
        _ => Err(Failure::Usage),
    }
}

/// Prints every broken rule, in the order of files.
fn tidy(root: &Path) -> Result<ExitCode, Failure> {
    let tree = Tree::read(root)?;
    let rules: [fn(&Tree) -> Vec<Problem>; 8] = [
        edges::check,
        workspace::check,
        modules::check,
        code::check,
        generated::check,
        hygiene::check,
        docs::check,
        prose::check,
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
        writeln!(out, "tidy: {files} files, no problems")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "tidy: {files} files, {} problems; the rules are in CONTRIBUTING.md", problems.len())?;
    Ok(ExitCode::FAILURE)
}

/// Writes the generated files. The reference pages need a build of the program.
fn generate(root: &Path) -> Result<ExitCode, Failure> {
    let tree = Tree::read(root)?;
    let prose = generated::Generated { path: prose::ALLOWED, text: prose::lowered(&tree) };
    for generated::Generated { path, text } in generated::page(&tree).into_iter().chain([prose]) {
        std::fs::write(root.join(path), &text).map_err(|source| Failure::Write { path, source })?;
    }
    let schemas = ["run", "--quiet", "--package", "clawrl-config", "--example", "write_schemas"];
    let reference = ["test", "--quiet", "--package", "clawrl", "--test", "it", "reference::"];
    for arguments in [schemas.as_slice(), reference.as_slice()] {
        let mut cargo = Command::new("cargo");
        let status = cargo.args(arguments).current_dir(root).env("CLAWRL_WRITE_REFERENCE", "1").status()?;
        if !status.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints `--package NAME` for each package with doc tests.
fn print_doc_tests(root: &Path) -> Result<ExitCode, Failure> {
    let packages = doc_tests::packages(&Tree::read(root)?).map_err(Failure::Manifest)?;
    let mut out = std::io::stdout().lock();
    for package in packages {
        writeln!(out, "--package {package}")?;
    }
    Ok(ExitCode::SUCCESS)
}
