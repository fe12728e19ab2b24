//! Suites of YAML files in sandboxes, with progress on standard error. Usage: suites SUITE...
//!
//! The program `clawrl-sbx` has to be beside this one: `cargo build -p clawrl-sandbox` builds it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of an example")]

use std::fmt::Arguments;
use std::sync::Arc;

use clawrl::{Progress, Run, Suite};

/// Prints notes and warnings.
struct Lines;

impl Progress for Lines {
    fn note(&self, line: Arguments<'_>) {
        eprintln!("{line}");
    }

    fn warn(&self, line: Arguments<'_>) {
        eprintln!("warning: {line}");
    }
}

fn main() -> clawrl::Result<()> {
    let mut suites = std::env::args().skip(1).map(Suite::yaml);
    let Some(first) = suites.next() else {
        eprintln!("usage: suites SUITE...");
        std::process::exit(2);
    };
    let run = suites.fold(Run::new(first), Run::suite).limit(4).progress(Arc::new(Lines));
    let finished = run.run()?;
    for suite in &finished.summary().suites {
        println!("{}: {} of {} passed", suite.suite, suite.total.passed, suite.total.slots);
    }
    Ok(())
}
