//! An environment with tools.

#![allow(clippy::print_stdout, reason = "the output of an example")]

use clawrl::env::{Tool, ToolEnv};
use clawrl::{Row, Run, Suite};
use serde_json::{Value, json};

/// Adds numbers with a tool.
struct Calculator;

impl ToolEnv for Calculator {
    type State = ();

    fn prompt(&self, row: &Row) -> String {
        format!("Add {} and {}.", row["left"], row["right"])
    }

    fn tools(&self, _: &Row) -> Vec<Tool> {
        let number = json!({ "type": "number" });
        vec![Tool {
            name: "add".to_owned(),
            description: "Adds two numbers.".to_owned(),
            parameters: json!({ "type": "object", "properties": { "left": number, "right": number } }),
        }]
    }

    fn start(&self, _: &Row, _seed: u64) {}

    fn call(&self, _: &Row, (): &mut (), _tool: &str, arguments: &Value) -> Result<String, String> {
        let number = |name: &str| arguments[name].as_i64().ok_or(format!("`{name}` has to be a number"));
        Ok((number("left")? + number("right")?).to_string())
    }

    fn reward(&self, row: &Row, (): &(), answer: Option<&str>) -> f64 {
        f64::from(answer == row["sum"].as_json().as_i64().map(|sum| sum.to_string()).as_deref())
    }

    fn solution(&self, row: &Row) -> Option<(Vec<(String, Value)>, String)> {
        let arguments = json!({ "left": row["left"], "right": row["right"] });
        Some((vec![("add".to_owned(), arguments)], row["sum"].to_string()))
    }
}

fn main() -> clawrl::Result<()> {
    let rows = [(2, 3), (40, 2)]
        .map(|(left, right)| Row::from_iter([("left", left), ("right", right), ("sum", left + right)]));
    let finished = Run::new(Suite::rows("calculator", rows).env(Calculator)).run()?;
    println!("{} of {} passed", finished.summary().total.passed, finished.summary().total.slots);
    Ok(())
}
