//! `clawrl doctor`: checks this machine.
//!
//! I1. Checks undo what they change. I2. Every problem comes with advice.

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::results::ResultsArguments;
use crate::table::aligned;
use crate::torch_handoff::training_program_finding;
use clawrl_runtime::host::{Finding, Health, examine, open_files};

/// Checks this machine: lists what is available, what is missing, and how to install it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  clawrl doctor --json")]
pub(crate) struct Arguments {
    #[command(flatten)]
    results: ResultsArguments,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    open_files::raise_limit();
    let findings = examine(&arguments.results.dir(), training_program_finding());
    if arguments.json {
        print_json(&findings)?
    } else {
        print(&told(&findings))?
    }
    let missing = findings.iter().any(|finding| finding.health == Health::Missing);
    Ok(if missing { Exit::Environment } else { Exit::Success })
}

fn told(findings: &[Finding]) -> String {
    let word = |health| match health {
        Health::Ok => "ok",
        Health::Warn => "warn",
        Health::Missing => "MISSING",
    };
    let row =
        |finding: &Finding| [word(finding.health).to_owned(), finding.name.to_owned(), finding.found.clone()];
    let rows: Vec<[String; 3]> = findings.iter().map(row).collect();
    let mut text = aligned(["", "what", "found"], [false; 3], &rows);
    let advised = findings.iter().filter_map(|finding| Some((finding.name, finding.advice.as_ref()?)));
    for (number, (name, advice)) in advised.enumerate() {
        if number == 0 {
            text.push_str("\nadvice\n");
        }
        text += &format!("  {name}: {advice}\n");
    }
    text
}
