//! An environment with several replies, and a policy of this process that plays it.

#![allow(clippy::print_stdout, reason = "the output of an example")]

use clawrl::env::{MultiTurn, Step};
use clawrl::{Row, Run, Suite, policy_fn};

/// Guess a number from 1 to 100.
struct Guess;

impl MultiTurn for Guess {
    type State = (i64, u32);

    fn prompt(&self, _: &Row) -> String {
        "Guess a number from 1 to 100.".to_owned()
    }

    fn start(&self, row: &Row, _seed: u64) -> (i64, u32) {
        (row["number"].as_json().as_i64().unwrap_or(1), 0)
    }

    fn step(&self, _: &Row, (number, guesses): &mut (i64, u32), reply: &str) -> Step {
        *guesses += 1;
        match reply.trim().parse::<i64>() {
            Ok(guess) if guess == *number => Step::End,
            Ok(guess) => Step::Continue(if guess < *number { "more" } else { "less" }.to_owned()),
            Err(_) => Step::Continue("Write a number.".to_owned()),
        }
    }

    fn reward(&self, _: &Row, (_, guesses): &(i64, u32)) -> f64 {
        // Bisection needs seven guesses at most.
        f64::from(*guesses <= 7)
    }
}

fn main() -> clawrl::Result<()> {
    let suite =
        Suite::rows("guess", [1, 50, 73].map(|number| Row::from_iter([("number", number)]))).env(Guess);
    // Every second message is an answer to the guess before it.
    let bisection = policy_fn("bisection", |messages| {
        let (mut low, mut high, mut guess) = (1, 100, 50);
        for message in messages.iter().skip(2).step_by(2) {
            match message.joined_text().as_str() {
                "more" => low = guess + 1,
                _ => high = guess - 1,
            }
            guess = (low + high) / 2;
        }
        guess.to_string()
    });
    let finished = Run::new(suite).policy_value(bisection).run()?;
    println!("{} of {} passed", finished.summary().total.passed, finished.summary().total.slots);
    Ok(())
}
