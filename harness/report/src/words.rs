//! Figures as words and cells, the same on the page and in the terminal.

use clawrl_record::{Rate, percent};

use crate::at_k::Mean;
use crate::stats::{Row, RunStats};

/// A rate, and its interval.
pub(crate) fn share(rate: Option<&Rate>) -> (String, String) {
    let na = || "n/a".to_owned();
    rate.map_or_else(
        || (na(), na()),
        |rate| (percent(rate.value), format!("{} to {}", percent(rate.low), percent(rate.high))),
    )
}

/// A mean over tasks, and its interval.
pub(crate) fn k_share(mean: &Mean) -> (String, String) {
    let interval = mean
        .interval
        .map_or_else(|| "n/a".to_owned(), |(low, high)| format!("{} to {}", percent(low), percent(high)));
    (percent(mean.value), interval)
}

/// A number with a word that fits it.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Description of the interval and its effective sample size.
pub(crate) fn interval_words(rate: &Rate) -> String {
    format!(
        "95 % CI, {}, effective n = {:.0}; {} of {} in {}",
        rate.method.description(),
        rate.effective_episodes,
        rate.passed,
        counted(u64::from(rate.episodes), "episode", "episodes"),
        counted(u64::from(rate.tasks), "task", "tasks"),
    )
}

/// Headings of [`token_rows`].
pub(crate) const TOKEN_HEADINGS: [&str; 7] =
    ["suite", "input", "cached input", "output", "output per turn", "cost", "cost per pass"];

/// Tokens and cost by suite and in total; empty if neither policy nor judge reported any.
pub(crate) fn token_rows(figures: &RunStats) -> Vec<[String; 7]> {
    let row = &figures.total;
    if row.usage.is_none() && row.judge_usage.is_none() && row.sampled_tokens == 0 {
        return Vec::new();
    }
    let mut rows: Vec<[String; 7]> =
        figures.suites.iter().map(|suite| token_row(&suite.suite, &suite.total)).collect();
    if rows.len() > 1 {
        rows.push(token_row("total", &figures.total));
    }
    rows
}

/// The server's word for input and output; of policies that record their tokens, those are the output.
fn token_row(name: &str, row: &Row) -> [String; 7] {
    let na = || "n/a".to_owned();
    let usage = row.usage.as_ref();
    let output = usage.map_or(row.sampled_tokens, |usage| usage.output_tokens);
    let cost = usage.and_then(|usage| usage.cost_nano_usd);
    let a_turn = if row.turns > 0 { format!("{:.1}", output as f64 / row.turns as f64) } else { na() };
    let a_pass = cost.filter(|_| row.passed > 0).map(|cost| cost as f64 / f64::from(row.passed));
    [
        name.to_owned(),
        usage.map_or_else(na, |usage| usage.input_tokens.to_string()),
        usage.map_or_else(na, |usage| usage.cached_tokens.to_string()),
        output.to_string(),
        a_turn,
        cost.map_or_else(na, |cost| dollars(cost as f64)),
        a_pass.map_or_else(na, dollars),
    ]
}

/// Notes on the table, if any.
pub(crate) fn token_note(figures: &RunStats) -> Option<String> {
    let usage = figures.total.usage.as_ref();
    let estimated = usage.filter(|usage| usage.estimated_replies > 0).map(|usage| {
        format!(
            "token counts of {} of {} replies are estimated from their length",
            usage.estimated_replies, usage.replies
        )
    });
    let retried = usage
        .filter(|usage| usage.retries > 0)
        .map(|usage| format!("{} requests were retried", usage.retries));
    let judged = figures.total.judge_usage.as_ref().map(|usage| {
        let cost = usage.cost_nano_usd.map_or(String::new(), |cost| format!(" for {}", dollars(cost as f64)));
        format!(
            "the table excludes the judge: {} replies, {} tokens in, {} out{cost}",
            usage.replies, usage.input_tokens, usage.output_tokens
        )
    });
    let notes: Vec<String> = estimated.into_iter().chain(retried).chain(judged).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

fn dollars(nano: f64) -> String {
    let dollars = nano / 1e9;
    if dollars < 1.0 { format!("${dollars:.5}") } else { format!("${dollars:.2}") }
}
