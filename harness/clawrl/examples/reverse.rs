//! An environment with one prompt and one reply, run with the tasks' solutions.

#![allow(clippy::print_stdout, reason = "the output of an example")]

use clawrl::env::SingleTurn;
use clawrl::{Row, Run, Suite};

struct Reverse;

impl SingleTurn for Reverse {
    fn prompt(&self, row: &Row) -> String {
        format!("Reverse {}.", row["text"])
    }

    fn reward(&self, row: &Row, reply: &str) -> f64 {
        f64::from(reply.trim() == row["answer"])
    }
}

fn main() -> clawrl::Result<()> {
    let words = ["river", "stone", "maple"];
    let rows = words
        .map(|word| Row::from_iter([("text", word.to_owned()), ("answer", word.chars().rev().collect())]));
    let finished = Run::new(Suite::rows("reverse", rows).env(Reverse)).policy("oracle")?.run()?;
    finished.write_report("report.html")?;
    println!("{} of {} passed", finished.summary().total.passed, finished.summary().total.slots);
    Ok(())
}
