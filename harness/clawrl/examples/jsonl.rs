//! A suite from a JSONL file, attempted several times, with a run name and a results folder.

#![allow(clippy::print_stdout, reason = "the output of an example")]

use std::fs;

use clawrl::env::SingleTurn;
use clawrl::{Row, Run, Suite, policy_fn};

/// Questions whose answer is one word.
struct Questions;

impl SingleTurn for Questions {
    fn prompt(&self, row: &Row) -> String {
        row["question"].to_string()
    }

    fn reward(&self, row: &Row, reply: &str) -> f64 {
        let expected = row["answer"].to_string();
        f64::from(reply.trim().eq_ignore_ascii_case(&expected))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lines = [
        r#"{"question": "Which colour has the sky?", "answer": "blue"}"#,
        r#"{"question": "Which colour has grass?", "answer": "green"}"#,
    ];
    fs::write("questions.jsonl", lines.join("\n"))?;
    let suite = Suite::jsonl("questions.jsonl")?.env(Questions);
    let always_blue = policy_fn("always-blue", |_| "Blue".to_owned());
    let run = Run::new(suite).policy_value(always_blue).repeats(3).name("colours").results("my-results");
    let summary = run.run()?.summary().clone();
    println!("{} of {} passed", summary.total.passed, summary.total.slots);
    Ok(())
}
