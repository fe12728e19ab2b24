//! A comparison as one HTML page in the style of run reports.
//!
//! P1. Like the page of gates: one file, no script, all foreign text escaped. P2. Trajectories have a byte limit; beyond it the page
//! names the command that prints them. P3. Long texts are cut, with a note.

use clawrl_core::{AttemptId, RunId};
use clawrl_gates::Direction;
use clawrl_record::Run;

use super::compared::story;
use super::difference::DifferencePlace;
use super::error::CompareError;
use super::model::{Flip, MetricComparison, RunComparison, SuiteComparison, TaskComparison, Turned};
use super::story::{Story, TurnTexts};
use super::text::{change_word, word};
use crate::render::{Frame, NONE, Scale, change, counted, counts, interval, rate, signed, text, unsigned};

/// Maximum rows of a table; the JSON has all of them.
const MAX_ROWS: usize = 500;
/// Maximum characters of one text of a trajectory.
const MAX_TEXT: usize = 8_000;
/// Flipped tasks whose attempts are shown unfolded.
const OPEN_FLIPS: usize = 3;

/// Renders the page with at most `trajectory_bytes` of trajectories.
///
/// # Errors
/// [`CompareError::Record`] for a trajectory that cannot be read.
pub fn comparison_page(
    comparison: &RunComparison,
    baseline: &Run,
    candidate: &Run,
    trajectory_bytes: u64,
) -> Result<String, CompareError> {
    let (before, after) = (text(comparison.baseline.run.as_str()), text(comparison.candidate.run.as_str()));
    let mut page =
        Frame::broad(&format!("{} and {} - ClawRL", comparison.baseline.run, comparison.candidate.run));
    page.add(format_args!("<h1>{before} and {after}</h1>\n"));
    for (side, run) in [("baseline", &comparison.baseline), ("candidate", &comparison.candidate)] {
        page.add(format_args!(
            "<p class=\"sub\">{side} <b>{}</b>: policy {}, {}</p>\n",
            text(run.run.as_str()),
            text(&run.policy),
            text(&run.state)
        ));
    }
    for note in &comparison.notes {
        page.add(format_args!("<p class=\"warning\">{}</p>\n", text(note)));
    }
    stats(&mut page, comparison);
    comparison.suites.iter().for_each(|suite| of_suite(&mut page, suite));
    let mut room = trajectory_bytes;
    flips(&mut page, comparison, (baseline, candidate), &mut room)?;
    tasks(&mut page, comparison);
    Ok(page.finish())
}

fn stats(page: &mut Frame, comparison: &RunComparison) {
    let turned = |turned| comparison.flips.iter().filter(|flip| flip.turned == turned).count();
    let flaky = comparison.tasks.iter().filter(|task| task.is_flaky()).count();
    let all = [
        (comparison.tasks.len(), "tasks of both", ""),
        (turned(Turned::Worse), "flipped to the worse", "failed"),
        (turned(Turned::Better), "flipped to the better", "passed"),
        (flaky, "flaky on either side", "fault"),
    ];
    page.push("<div class=\"figures\">");
    for (value, label, class) in all {
        let class = if value > 0 { class } else { "" };
        page.add(format_args!("<div><b class=\"{class}\">{value}</b>{label}</div>"));
    }
    page.push("</div>\n");
}

fn of_suite(page: &mut Frame, suite: &SuiteComparison) {
    let name = suite.suite.as_deref().unwrap_or("All suites");
    page.add(format_args!("<h2>{}: {}</h2>\n", text(name), counted(suite.tasks as u64, "task")));
    page.push("<div class=\"metrics\">\n");
    suite.metrics.iter().for_each(|metric| plot(page, metric));
    page.push(
        "</div>\n<div class=\"wide\"><table><thead><tr><th>metric<th>tasks<th>baseline<th>candidate<th>change\
         <th>95 % interval<th></tr></thead><tbody>\n",
    );
    for metric in &suite.metrics {
        let unit = metric.unit;
        page.add(format_args!(
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n",
            text(&metric.metric),
            metric.tasks,
            unsigned(unit, metric.baseline),
            unsigned(unit, metric.candidate),
            signed(unit, metric.difference),
            metric.interval.map_or_else(|| NONE.to_owned(), |(low, high)| interval(unit, low, high)),
            coloured(metric),
        ));
    }
    page.push("</tbody></table></div>\n<p class=\"key\">Changes are paired by task. This is no gate: nothing is adjusted for \
               how many numbers are looked at.</p>\n");
}

fn coloured(metric: &MetricComparison) -> &'static str {
    match word(metric) {
        "better" => "<b class=\"passed\">better</b>",
        "worse" => "<b class=\"failed\">worse</b>",
        _ => "",
    }
}

fn plot(page: &mut Frame, metric: &MetricComparison) {
    let unit = metric.unit;
    // Without an interval there is only the point.
    let (low, high) = metric.interval.unwrap_or((metric.difference, metric.difference));
    let scale = Scale {
        value: metric.difference,
        low,
        high,
        bounds: Vec::new(),
        name: &format!("{}: {}", metric.metric, signed(unit, metric.difference)),
        ends: if metric.direction == Direction::Higher { ["worse", "better"] } else { ["better", "worse"] },
        label: &|value| signed(unit, value),
    };
    page.add(format_args!(
        "<div><h3>{} {}</h3>{}</div>\n",
        text(&metric.metric),
        coloured(metric),
        scale.draw()
    ));
}

fn flips(
    page: &mut Frame,
    comparison: &RunComparison,
    (baseline, candidate): (&Run, &Run),
    room: &mut u64,
) -> Result<(), CompareError> {
    page.push("<h2>Tasks that flipped</h2>\n");
    if comparison.flips.is_empty() {
        page.push("<p>None: no task mostly passed on one side and mostly not on the other.</p>\n");
        return Ok(());
    }
    for (at, flip) in comparison.flips.iter().enumerate() {
        let task = comparison.task(&flip.task);
        let (class, word) = match flip.turned {
            Turned::Worse => ("failed", "worse"),
            Turned::Better => ("passed", "better"),
        };
        page.add(format_args!(
            "<details class=\"flip\"{}><summary>{} <span class=\"{class}\">{word}</span></summary>\n<p>{}{}; {}.</p>\n",
            if at < OPEN_FLIPS { " open" } else { "" },
            text(&flip.task),
            task.map_or_else(String::new, |task| format!(
                "Passed {} before, and {} now",
                counts(&task.baseline),
                counts(&task.candidate)
            )),
            if flip.flaky { " (<span class=\"fault\">flaky</span>)" } else { "" },
            flip.difference.place,
        ));
        let html = if *room == 0 { None } else { Some(both(comparison, flip, baseline, candidate)?) };
        match html.filter(|html| html.len() as u64 <= *room) {
            Some(html) => {
                *room -= html.len() as u64;
                page.push(&html);
            }
            None => {
                *room = 0;
                page.add(format_args!(
                    "<p class=\"warning\">To keep the page small, its attempts are left out: <code>clawrl show {} --attempt \
                     {}</code>, <code>clawrl show {} --attempt {}</code>; <code>--page-mib</code> makes room.</p>\n",
                    text(comparison.baseline.run.as_str()),
                    flip.baseline,
                    text(comparison.candidate.run.as_str()),
                    flip.candidate
                ));
            }
        }
        page.push("</details>\n");
    }
    Ok(())
}

/// Both attempts, turn by turn.
fn both(
    comparison: &RunComparison,
    flip: &Flip,
    baseline: &Run,
    candidate: &Run,
) -> Result<String, CompareError> {
    let (before, after) = (story(baseline, flip.baseline)?, story(candidate, flip.candidate)?);
    let place = flip.difference.place;
    let mut html = format!(
        "<div class=\"sides\">{}{}</div>\n",
        head(&comparison.baseline.run, flip.baseline, &before),
        head(&comparison.candidate.run, flip.candidate, &after)
    );
    if before.asked == after.asked {
        html += &format!(
            "<details><summary>What was asked</summary><div class=\"sides\"><div>{}</div></div></details>\n",
            pre(&before.asked, "")
        );
    } else {
        html += &format!(
            "<div class=\"sides turn first\"><div><h4>Asked</h4>{}</div><div><h4>Asked</h4>{}</div></div>\n",
            pre(&before.asked, "differs"),
            pre(&after.asked, "differs")
        );
    }
    for at in 0..before.turns.len().max(after.turns.len()) {
        let is_first = place.turn() == u32::try_from(at + 1).ok();
        let did = is_first && !matches!(place, DifferencePlace::Observation { .. });
        let saw = is_first && matches!(place, DifferencePlace::Observation { .. });
        let side = |turn: Option<&TurnTexts>| match turn {
            None => "<div class=\"soft\">has ended</div>".to_owned(),
            Some(TurnTexts { did: action, saw: seen }) => format!(
                "<div><h4>turn {}</h4>{}{}</div>",
                at + 1,
                pre(action, if did { "did differs" } else { "did" }),
                if seen.is_empty() { String::new() } else { pre(seen, if saw { "differs" } else { "" }) }
            ),
        };
        html += &format!(
            "<div class=\"sides turn{}\">{}{}</div>\n",
            if is_first { " first" } else { "" },
            side(before.turns.get(at)),
            side(after.turns.get(at))
        );
    }
    Ok(html)
}

fn head(run: &RunId, attempt: AttemptId, story: &Story) -> String {
    let unmet: String = story.unmet.iter().map(|check| format!("<br>{}", text(check))).collect();
    format!(
        "<div><h4>{} {attempt}</h4><p class=\"key\">{}, {}{unmet}</p></div>",
        text(run.as_str()),
        text(&story.end),
        counted(story.turns.len() as u64, "turn"),
    )
}

fn pre(whole: &str, class: &str) -> String {
    let cut: String = whole.chars().take(MAX_TEXT).collect();
    let left = whole.len() - cut.len();
    let more = if left > 0 { format!("\n… {}", counted(left as u64, "more byte")) } else { String::new() };
    format!("<pre class=\"{class}\">{}{more}</pre>", text(&cut))
}

fn tasks(page: &mut Frame, comparison: &RunComparison) {
    page.add(format_args!(
        "<h2>Tasks</h2>\n<details{}><summary>All {}</summary>\n<div class=\"wide\"><table class=\"names\"><thead><tr><th>task\
         <th>family<th>before<th>now<th>none to all<th></tr></thead><tbody>\n",
        if comparison.tasks.len() <= 40 { " open" } else { "" },
        counted(comparison.tasks.len() as u64, "task")
    ));
    for task in comparison.tasks.iter().take(MAX_ROWS) {
        page.add(format_args!(
            "<tr><td title=\"{name}\">{name}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n",
            text(&task.family),
            counts(&task.baseline),
            counts(&task.candidate),
            change(rate(&task.baseline), rate(&task.candidate)),
            remarks(task),
            name = text(&task.task),
        ));
    }
    page.push("</tbody></table></div>\n");
    if let Some(left) = comparison.tasks.len().checked_sub(MAX_ROWS).filter(|left| *left > 0) {
        page.add(format_args!("<p class=\"key\">{left} more rows are in the JSON.</p>\n"));
    }
    page.push("</details>\n");
}

fn remarks(task: &TaskComparison) -> String {
    let change = match change_word(task) {
        "broke" => "<span class=\"failed\">broke</span> ",
        "mended" => "<span class=\"passed\">mended</span> ",
        _ => "",
    };
    let flaky = if task.is_flaky() { "<span class=\"fault\">flaky</span>" } else { "" };
    format!("{change}{flaky}")
}
