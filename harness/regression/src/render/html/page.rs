//! The page of gates.

use std::fmt::Write;

use super::chart::{Bound, Scale};
use super::frame::{Frame, text, word};
use super::tasks;
use crate::assessment::{Assessment, MetricVerdict};
use crate::render::json::worst;
use crate::render::part::{Kind, each_task_outcome, parts};
use crate::render::words::{MetricRow, counted, counts, signed};

/// The page of these gates.
#[must_use]
pub fn gates_page(gates: &[Assessment]) -> String {
    let outcome = worst(gates);
    let title = match gates {
        [gate] => format!("{}: {}", gate.gate, outcome.name()),
        _ => format!("{}: {}", counted(gates.len() as u64, "gate"), outcome.name()),
    };
    let mut page = Frame::new(&format!("{title} - ClawRL gate"));
    page.add(format_args!("<h1>Regression gates: {}</h1>\n", word(outcome)));
    if let [_, _, ..] = gates {
        contents(&mut page, gates);
    }
    for (at, gate) in gates.iter().enumerate() {
        of_gate(&mut page, at, gate);
    }
    page.finish()
}

fn contents(page: &mut Frame, gates: &[Assessment]) {
    page.push("<table><thead><tr><th>gate<th>outcome</tr></thead><tbody>\n");
    for (at, gate) in gates.iter().enumerate() {
        let name = text(&gate.gate);
        page.add(format_args!("<tr><td><a href=\"#g{at}\">{name}</a><td>{}</tr>\n", word(gate.outcome)));
    }
    page.push("</tbody></table>\n");
}

fn of_gate(page: &mut Frame, at: usize, gate: &Assessment) {
    page.add(format_args!("<h2 id=\"g{at}\">{}: {}</h2>\n", text(&gate.gate), word(gate.outcome)));
    verdict(page, gate);
    stats(page, gate);
    page.push("<div class=\"metrics\">\n");
    gate.metrics.iter().for_each(|metric| plot(page, metric));
    page.push("</div>\n");
    numbers(page, gate);
    if let Some(tasks) = &gate.each_task {
        page.add(format_args!(
            "<h3>Each task: {}</h3>\n<p>{}</p>\n",
            word(each_task_outcome(tasks)),
            text(&tasks.sentence)
        ));
    }
    must_pass(page, gate);
    tasks::table(page, gate);
    interim_analyses(page, gate);
    facts(page, gate);
}

fn verdict(page: &mut Frame, gate: &Assessment) {
    page.add(format_args!("<div class=\"verdict {}\">", gate.outcome.name()));
    if gate.reasons.is_empty() {
        page.push("<p>No metric is worse by its min_effect.</p>");
    } else {
        page.push("<ul>");
        for reason in &gate.reasons {
            page.add(format_args!("<li>{}</li>", text(reason)));
        }
        page.push("</ul>");
    }
    page.push("</div>\n");
}

fn stats(page: &mut Frame, gate: &Assessment) {
    let budget = &gate.budget;
    let beside = |most: Option<String>| most.map_or_else(String::new, |most| format!(" of {most}"));
    let mut all = vec![
        (gate.tasks.len().to_string(), "tasks".to_owned()),
        (
            budget.attempts.to_string(),
            format!("attempts{}", beside(budget.most_attempts.map(|most| format!("at most {most}")))),
        ),
        (
            format!("{:.1}", budget.minutes),
            format!("minutes{}", beside(budget.most_minutes.map(|most| format!("at most {most:.1}")))),
        ),
    ];
    all.extend(budget.cost_usd.map(|usd| {
        let most = beside(budget.most_cost_usd.map(|most| format!("at most {most:.2}")));
        (format!("{usd:.2}"), format!("US dollars{most}"))
    }));
    page.push("<div class=\"figures\">");
    for (value, label) in all {
        page.add(format_args!("<div><b>{value}</b>{label}</div>"));
    }
    page.push("</div>\n");
    if budget.ended_the_run {
        page.push("<p class=\"warning\">The budget ended the run early.</p>\n");
    }
}

/// One metric: its plot and its sentence.
fn plot(page: &mut Frame, metric: &MetricVerdict) {
    let (unit, gate, findings) = (metric.unit, &metric.verdict.gate, &metric.verdict.findings);
    let row = MetricRow::of(metric);
    let bounds = vec![
        Bound { value: gate.tolerance, class: "tolerance", label: format!("tolerance {}", row.tolerated) },
        Bound { value: gate.min_effect, class: "matters", label: format!("min_effect {}", row.min_effect) },
    ];
    let scale = Scale {
        value: findings.harm,
        low: findings.lower,
        high: findings.upper,
        bounds,
        name: &format!("{}: worse by {}, {}", metric.name, row.worse_by, row.interval),
        ends: ["better", "worse"],
        label: &|value| signed(unit, value),
    };
    page.add(format_args!(
        "<div><h3>{}: {}</h3>{}<p>{}</p></div>\n",
        text(&metric.name),
        word(metric.outcome()),
        scale.draw(),
        text(&metric.sentence),
    ));
}

fn numbers(page: &mut Frame, gate: &Assessment) {
    if gate.metrics.is_empty() {
        return;
    }
    page.push(
        "<div class=\"wide\"><table><thead><tr><th>metric<th class=\"left\">verdict<th>baseline<th>candidate<th>worse by\
         <th>interval<th>tolerance<th>min_effect<th>tasks</tr></thead><tbody>\n",
    );
    for metric in &gate.metrics {
        let row = MetricRow::of(metric);
        page.add(format_args!(
            "<tr><td>{}<td class=\"left\">{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n",
            text(&metric.name),
            word(metric.outcome()),
            row.baseline,
            row.candidate,
            row.worse_by,
            row.interval,
            row.tolerated,
            row.min_effect,
            metric.verdict.findings.tasks,
        ));
    }
    page.add(format_args!(
        "</tbody></table></div>\n<p class=\"key\">Worse by: negative values are improvements. Each end of an interval holds with \
         {} confidence.</p>\n",
        confidence(&gate.metrics)
    ));
}

/// Confidence of the intervals; with the names of metrics if it differs, as for the metric of interim analyses.
fn confidence(metrics: &[MetricVerdict]) -> String {
    // Rounded, to remove the error of binary fractions.
    let percent = |metric: &MetricVerdict| (1e4 * (1.0 - metric.verdict.gate.alpha)).round() / 100.0;
    let mut named: Vec<(f64, Vec<&str>)> = Vec::new();
    for metric in metrics {
        match named.iter_mut().find(|(known, _)| *known == percent(metric)) {
            Some((_, names)) => names.push(&metric.name),
            None => named.push((percent(metric), vec![&metric.name])),
        }
    }
    match named.as_slice() {
        [(percent, _)] => format!("{percent} %"),
        named => {
            let each: Vec<String> = named
                .iter()
                .map(|(percent, names)| format!("{percent} % ({})", text(&names.join(", "))))
                .collect();
            each.join(" or ")
        }
    }
}

fn must_pass(page: &mut Frame, gate: &Assessment) {
    if gate.must_pass.is_empty() {
        return;
    }
    page.push(
        "<h3>Tasks that must pass every time</h3>\n<div class=\"wide\"><table class=\"names\"><thead><tr><th>task<th>passed\
         <th>verdict</tr></thead><tbody>\n",
    );
    let outcomes = parts(gate).into_iter().filter(|part| part.kind == Kind::MustPass);
    for (task, part) in gate.must_pass.iter().zip(outcomes) {
        let seen = crate::assessment::Counts {
            passes: task.passes,
            attempts: task.attempts,
            faults: task.faults,
            missing: 0,
        };
        page.add(format_args!(
            "<tr><td>{}<td>{}<td>{}</tr>\n",
            text(&task.task),
            counts(&seen),
            word(part.outcome)
        ));
    }
    page.push("</tbody></table></div>\n");
}

fn interim_analyses(page: &mut Frame, gate: &Assessment) {
    if gate.interim_analyses.is_empty() {
        return;
    }
    page.push(
        "<h3>Interim analyses</h3>\n<div class=\"wide\"><table><thead><tr><th>repeats<th>information<th>z<th>decision</tr></thead>\
         <tbody>\n",
    );
    for look in &gate.interim_analyses {
        page.add(format_args!(
            "<tr><td>{}<td>{:.0} %<td>{}<td>{}</tr>\n",
            look.repeats,
            100.0 * look.fraction,
            look.z.map_or_else(|| "n/a".to_owned(), |z| format!("{z:.2}")),
            text(&look.said)
        ));
    }
    page.push("</tbody></table></div>\n");
}

fn facts(page: &mut Frame, gate: &Assessment) {
    let accepted = i64::try_from(gate.baseline.accepted_ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map_or_else(String::new, |at| format!(", accepted {} UTC", at.strftime("%Y-%m-%d %H:%M")));
    let mut rows = vec![
        ("candidate".to_owned(), format!("run {}", gate.run)),
        ("baseline".to_owned(), format!("run {}{accepted}", gate.baseline.run)),
        ("plan of both".to_owned(), format!("sha256 {}", gate.baseline.plan_sha256)),
    ];
    if !gate.lost.is_empty() {
        let mut names = String::new();
        for name in gate.lost.iter().take(MAX_LOST) {
            // Writing to a string does not fail.
            let _ = write!(names, "{}{name}", if names.is_empty() { "" } else { ", " });
        }
        if let Some(more) = gate.lost.len().checked_sub(MAX_LOST).filter(|more| *more > 0) {
            let _ = write!(names, " and {more} more");
        }
        rows.push(("no graded attempt on one side".to_owned(), names));
    }
    page.push("<h3>Facts</h3>\n<table class=\"facts\"><tbody>\n");
    for (label, value) in rows {
        page.add(format_args!("<tr><th>{}<td>{}</tr>\n", text(&label), text(&value)));
    }
    page.push("</tbody></table>\n");
}

/// Maximum lost tasks that are named; the JSON has all of them.
const MAX_LOST: usize = 50;
