//! A policy from scratch, trained on an environment of this program.

#![allow(clippy::print_stdout, reason = "the output of an example")]

use clawrl::env::SingleTurn;
use clawrl::{Row, Suite, TrainPlan, Trainer};

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
    let letters = ["a", "b", "c", "d", "e", "f"];
    let pairs = letters.iter().flat_map(|one| letters.map(|other| format!("{one}{other}")));
    let rows = pairs.map(|pair| Row::from_iter([("answer", pair.chars().rev().collect()), ("text", pair)]));
    let plan = TrainPlan::preset("tiny")?.set("rl.updates=2")?.set("warm_start.demonstrations=64")?;
    let trained = Trainer::new(plan).suite(Suite::rows("reverse", rows).env(Reverse)).run()?;
    trained.write_report("report.html")?;
    println!("{} updates, model in {}", trained.outcome().updates, trained.outcome().policy.display());
    Ok(())
}
