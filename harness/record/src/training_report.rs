//! A training as one HTML page: start, result and curves.
//!
//! Self-contained: no script, no font and no picture from elsewhere. All foreign text is escaped.
//!
//! Pure; the caller writes the file.

use std::fmt::Write;

use clawrl_core::ticks;

use crate::held_out::{HeldOut, best_of, falls_of};
use crate::metrics::{Metric, UpdateMetrics};
use crate::page::{PAGE_STYLE, escape_html};
use crate::summary::PassRate;

/// Size of a chart in its own units, and the room for its axes.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 28.0;

/// Maximum ticks of an axis.
const MAX_LEVELS: u16 = 6;
const MAX_UPDATES: u16 = 11;

/// Style of a drop.
const FALL_STYLE: &str = ".fall,.key .fall{color:#d1242f;fill:#d1242f}";

/// Input of a report.
#[derive(Debug, Clone)]
pub struct TrainingReport<'a> {
    /// Name of the run.
    pub name: &'a str,
    /// Description of the policy before the first update, one or two sentences.
    pub warm_start: &'a str,
    /// In order of update.
    pub held_out: &'a [HeldOut],
    /// In order of update.
    pub updates: &'a [UpdateMetrics],
    /// Facts of the run: label and text.
    pub facts: &'a [(String, String)],
    /// The train file as it ran, as JSON text.
    pub train_json: &'a str,
}

struct Series<'a> {
    label: &'a str,
    class: &'a str,
    points: Vec<(f64, f64)>,
    /// Lower and upper end at each point.
    bars: Vec<(f64, f64)>,
    /// Points that are a fall, by their place on the axis.
    falls: Vec<f64>,
}

struct Chart<'a> {
    title: &'a str,
    series: Vec<Series<'a>>,
    /// The axis, where it is not the data's own.
    range: Option<(f64, f64)>,
    percent: bool,
}

/// The page.
#[must_use]
pub fn render_training_report(report: &TrainingReport<'_>) -> String {
    let mut page = String::new();
    let name = escape_html(report.name);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{name} - ClawRL training</title>\
         <style>{PAGE_STYLE}{FALL_STYLE}</style></head><body><main>\n<h1>{name}</h1>\n"
    );
    headline(&mut page, report.held_out);
    let _ = writeln!(page, "<p><b>Warm start.</b> {}</p>", escape_html(report.warm_start));
    charts(&mut page, report);
    families(&mut page, report.held_out);
    facts(&mut page, report.facts);
    let _ = write!(
        page,
        "<details><summary>Resolved train file</summary><pre>{}</pre></details>\n</main></body></html>\n",
        escape_html(report.train_json)
    );
    page
}

fn headline(page: &mut String, held_out: &[HeldOut]) {
    let rate_text = |at: &HeldOut| {
        let (passed, tried) = at.total();
        let PassRate { value, low, high } = at.rate();
        format!(
            "<b>{:.1} %</b> ({passed} of {tried}, 95 % interval {:.1} to {:.1} %)",
            100.0 * value,
            100.0 * low,
            100.0 * high
        )
    };
    let rate = |at: &HeldOut| at.rate().value;
    let _ = match held_out {
        [] => writeln!(page, "<p>No evaluation yet.</p>"),
        [only] => {
            writeln!(
                page,
                "<p class=\"big\">Held-out greedy success: {} at the warm start.</p>",
                rate_text(only)
            )
        }
        [first, .., last] => writeln!(
            page,
            "<p class=\"big\">Held-out greedy success: {} at the warm start, {} after {} updates: \
             <b>{:+.1} points</b>.</p>",
            rate_text(first),
            rate_text(last),
            last.updates,
            100.0 * (rate(last) - rate(first))
        ),
    };
    if let (Some(best), Some(last)) = (best_of(held_out), held_out.last())
        && best != last
    {
        let (best_updates, version) = (best.updates, best.version);
        let _ = writeln!(
            page,
            "<p>The best evaluation was after {best_updates} updates: {}. Version {version} has that policy.</p>",
            rate_text(best)
        );
    }
    let mut falls = falls_of(held_out);
    // Of several drops from the same level, the first is reported; the curve marks all.
    falls.dedup_by_key(|(_, best)| best.updates);
    for (this, best) in falls {
        let _ = writeln!(
            page,
            "<p class=\"fall\">After {} updates success dropped to {}, from {} after {} updates.</p>",
            this.updates,
            rate_text(this),
            rate_text(best),
            best.updates
        );
    }
}

fn charts(page: &mut String, report: &TrainingReport<'_>) {
    let line = |name: Metric| -> Vec<(f64, f64)> {
        let points = report.updates.iter().filter(|figures| figures.update > 0);
        points.filter_map(|figures| Some((figures.update as f64, figures.get(name)?))).collect()
    };
    let series =
        |label, class, name| Series { label, class, points: line(name), bars: Vec::new(), falls: Vec::new() };
    let evaluated = report.held_out.iter().map(|at| (at.updates as f64, at.rate()));
    let held_out = Series {
        label: "held-out, greedy",
        class: "a",
        points: evaluated.clone().map(|(version, rate)| (version, rate.value)).collect(),
        bars: evaluated.map(|(_, rate)| (rate.low, rate.high)).collect(),
        falls: falls_of(report.held_out).iter().map(|(this, _)| this.updates as f64).collect(),
    };
    let success = Chart {
        title: "Success",
        series: vec![series("training, sampled", "b", Metric::TrainSuccessRatio), held_out],
        range: Some((0.0, 1.0)),
        percent: true,
    };
    let plain = |title, series| Chart { title, series, range: None, percent: false };
    let has_teacher = line(Metric::TrainTeacherRms).iter().any(|(_, term)| *term > 0.0);
    let terms = has_teacher.then(|| {
        vec![series("outcome", "b", Metric::TrainOutcomeRms), series("teacher", "a", Metric::TrainTeacherRms)]
    });
    let all = [
        success,
        plain(
            "Imitation: loss of a token by steps, nats",
            vec![series("imitation", "b", Metric::TrainImitationLossNats)],
        ),
        plain("Entropy, nats a token", vec![series("entropy", "a", Metric::TrainEntropyNats)]),
        plain("Advantage of a token, root of the mean square", terms.unwrap_or_default()),
        plain(
            "Staleness, versions",
            vec![
                series("mean", "a", Metric::TrainStalenessMeanVersions),
                series("oldest", "b", Metric::TrainStalenessMaxVersions),
            ],
        ),
        plain("Sampled tokens a second", vec![series("tokens/s", "a", Metric::TrainSampledTokensPerSecond)]),
        plain(
            "Time of an update, seconds",
            vec![
                series("waiting for a batch", "b", Metric::TrainWaitSeconds),
                series("learning", "a", Metric::TrainUpdateSeconds),
            ],
        ),
    ];
    for chart in all.iter().filter(|chart| chart.series.iter().any(|series| series.points.len() > 1)) {
        draw(page, chart);
    }
}

fn draw(page: &mut String, chart: &Chart<'_>) {
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let fold = |values: &mut dyn Iterator<Item = f64>, pick: fn(f64, f64) -> f64| values.reduce(pick);
    let (Some(x_low), Some(x_high)) = (
        fold(&mut points().map(|point| point.0), f64::min),
        fold(&mut points().map(|point| point.0), f64::max),
    ) else {
        return;
    };
    let x_high = if x_high > x_low { x_high } else { x_low + 1.0 };
    let drawn = || points().map(|point| point.1).filter(|value| value.is_finite());
    let own =
        (fold(&mut drawn(), f64::min).unwrap_or(0.0).min(0.0), fold(&mut drawn(), f64::max).unwrap_or(1.0));
    let (low, high) = chart.range.unwrap_or(own);
    let levels = ticks(low, high, MAX_LEVELS);
    let (Some(&y_low), Some(&y_high)) = (levels.first(), levels.last()) else { return };
    let x = |value: f64| LEFT + (value - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| TOP + (y_high - value) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM);

    let _ = write!(page, "<h2>{}</h2>\n<p class=\"key\">", escape_html(chart.title));
    for series in chart.series.iter().filter(|series| !series.points.is_empty()) {
        let _ = write!(page, "<span class=\"{}\">{}</span> ", series.class, escape_html(series.label));
        if !series.falls.is_empty() {
            page.push_str("<span class=\"fall\">a fall</span> ");
        }
    }
    let _ = write!(
        page,
        "</p>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape_html(chart.title)
    );
    for value in levels {
        let label = if chart.percent { format!("{:.0} %", 100.0 * value) } else { short(value) };
        let at = y(value);
        let _ = write!(
            page,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0
        );
    }
    // Updates are whole numbers, and the axis ends with the data.
    let is_update = |value: &f64| value.fract() == 0.0 && (x_low..=x_high).contains(value);
    for value in ticks(x_low, x_high, MAX_UPDATES).into_iter().filter(is_update) {
        let at = x(value);
        let _ = write!(
            page,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{0}\" y2=\"{1}\"/>\
             <text x=\"{at:.1}\" y=\"{2}\" text-anchor=\"middle\">{value}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 5.0,
            HEIGHT - 8.0
        );
    }
    for series in &chart.series {
        let drawn: Vec<(f64, f64)> =
            series.points.iter().copied().filter(|point| point.1.is_finite()).collect();
        let path: Vec<String> =
            drawn.iter().map(|&(at, value)| format!("{:.1},{:.1}", x(at), y(value))).collect();
        let _ = write!(page, "<polyline class=\"{}\" points=\"{}\"/>", series.class, path.join(" "));
        for (&(at, value), &(low, high)) in drawn.iter().zip(&series.bars) {
            let dot = if series.falls.contains(&at) { "fall" } else { series.class };
            let _ = write!(
                page,
                "<line class=\"bar {0}\" x1=\"{1:.1}\" x2=\"{1:.1}\" y1=\"{2:.1}\" y2=\"{3:.1}\"/>\
                 <circle class=\"{dot}\" cx=\"{1:.1}\" cy=\"{4:.1}\" r=\"4\"/>",
                series.class,
                x(at),
                y(high),
                y(low),
                y(value)
            );
        }
    }
    page.push_str("</svg>\n");
}

fn families(page: &mut String, held_out: &[HeldOut]) {
    let Some(last) = held_out.last() else { return };
    let first = held_out.first().filter(|_| held_out.len() > 1);
    let columns = match first {
        Some(_) => "<th>warm start<th>last<th>change",
        None => "<th>passed",
    };
    let _ = writeln!(
        page,
        "<h2>Held-out tasks by family</h2>\n<table><thead><tr><th>family<th>tasks{columns}</tr></thead><tbody>"
    );
    for (family, passed, tried) in &last.families {
        let rate = |passed: u32, tried: u32| 100.0 * f64::from(passed) / f64::from(tried.max(1));
        let Some(first) = first else {
            let _ = writeln!(
                page,
                "<tr><td>{}<td>{tried}<td>{:.0} %</tr>",
                escape_html(family),
                rate(*passed, *tried)
            );
            continue;
        };
        let before = first.families.iter().find(|known| known.0 == *family);
        let (before_text, change) = before.map_or((String::new(), String::new()), |before| {
            let was = rate(before.1, before.2);
            (format!("{was:.0} %"), format!("{:+.0}", rate(*passed, *tried) - was))
        });
        let _ = writeln!(
            page,
            "<tr><td>{}<td>{tried}<td>{before_text}<td>{:.0} %<td>{change}</tr>",
            escape_html(family),
            rate(*passed, *tried)
        );
    }
    page.push_str("</tbody></table>\n");
}

fn facts(page: &mut String, facts: &[(String, String)]) {
    if facts.is_empty() {
        return;
    }
    page.push_str("<h2>Facts</h2>\n<table class=\"facts\"><tbody>\n");
    for (label, text) in facts {
        let _ = writeln!(page, "<tr><th>{}<td>{}</tr>", escape_html(label), escape_html(text));
    }
    page.push_str("</tbody></table>\n");
}

/// A tick, which is a round number: its digits are few, however small or large it is.
fn short(value: f64) -> String {
    let is_long = value != 0.0 && !(1e-4..1e7).contains(&value.abs());
    if is_long { format!("{value:e}") } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn report() -> String {
        report_of(&[(0, 10), (10, 38)])
    }

    /// Updates, and tasks of the family `copy` that passed after them.
    fn report_of(evaluations: &[(u64, u32)]) -> String {
        let at = |updates, passed| HeldOut {
            updates,
            version: updates,
            by_gate: false,
            given_up: false,
            families: vec![("copy".to_owned(), passed, 40), ("<b>".to_owned(), passed / 2, 20)],
            faulted: 0,
        };
        let updates: Vec<UpdateMetrics> = (1..=10)
            .map(|update| UpdateMetrics {
                update,
                t_ms: 0,
                figures: BTreeMap::from([(Metric::TrainSuccessRatio, update as f64 / 12.0)]),
            })
            .collect();
        render_training_report(&TrainingReport {
            name: "tiny",
            warm_start: "400 supervised steps.",
            held_out: &evaluations.iter().map(|&(updates, passed)| at(updates, passed)).collect::<Vec<_>>(),
            updates: &updates,
            facts: &[("seed".to_owned(), "0".to_owned())],
            train_json: "{\"seed\": 0}",
        })
    }

    #[test]
    fn headline_reports_start_and_result() {
        let page = report();
        assert!(page.contains("<b>25.0 %</b> (15 of 60"), "{page}");
        assert!(page.contains("<b>95.0 %</b> (57 of 60"), "{page}");
        assert!(page.contains("<b>+70.0 points</b>"), "{page}");
        assert!(page.contains("400 supervised steps."));
    }

    #[test]
    fn drop_is_marked_and_best_evaluation_named() {
        let page = report_of(&[(0, 10), (5, 38), (10, 0), (15, 1)]);
        assert!(page.contains("The best evaluation was after 5 updates: <b>95.0 %</b>"), "{page}");
        assert!(page.contains("After 10 updates success dropped to <b>0.0 %</b>"), "{page}");
        assert_eq!(page.matches("success dropped").count(), 1, "{page}");
        assert_eq!(page.matches("<circle class=\"fall\"").count(), 2, "{page}");
        let page = report();
        assert!(!page.contains("class=\"fall\"") && !page.contains("The best evaluation"), "{page}");
    }

    /// Labels of the axis that stands at the left, and of the one below.
    fn labels(points: &[(u64, f64)]) -> [Vec<String>; 2] {
        let figures = |&(update, value): &(u64, f64)| UpdateMetrics {
            update,
            t_ms: 0,
            figures: BTreeMap::from([(Metric::TrainEntropyNats, value)]),
        };
        let page = render_training_report(&TrainingReport {
            name: "axes",
            warm_start: "",
            held_out: &[],
            updates: &points.iter().map(figures).collect::<Vec<_>>(),
            facts: &[],
            train_json: "{}",
        });
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
        ["end", "middle"].map(|anchor| {
            let before = format!("text-anchor=\"{anchor}\">");
            let texts = page.split(&before).skip(1);
            texts.map(|rest| rest.split('<').next().unwrap().to_owned()).collect()
        })
    }

    #[test]
    fn axes_have_even_ticks_at_round_numbers() {
        let check = |points: &[(u64, f64)], left: &[&str], below: &[&str]| {
            let labels = labels(points);
            assert_eq!((labels[0].as_slice(), labels[1].as_slice()), (&own(left)[..], &own(below)[..]));
        };
        fn own(words: &[&str]) -> Vec<String> {
            words.iter().map(|&word| word.to_owned()).collect()
        }
        check(&[(1, 3.7), (2, 0.4)], &["0", "1", "2", "3", "4"], &["1", "2"]);
        check(&[(1, 0.0), (4, 0.0)], &["0", "0.2", "0.4", "0.6", "0.8", "1"], &["1", "2", "3", "4"]);
        check(
            &[(1, 0.013), (1_337, f64::NAN), (1_338, 0.0)],
            &["0", "0.005", "0.01", "0.015"],
            &["200", "400", "600", "800", "1000", "1200"],
        );
        check(&[(7, -0.3), (9, 0.3)], &["-0.4", "-0.2", "0", "0.2", "0.4"], &["7", "8", "9"]);
        check(&[(1, f64::INFINITY), (2, 12e8)], &["0", "5e8", "1e9", "1.5e9"], &["1", "2"]);
    }

    #[test]
    fn foreign_text_is_escaped_and_empty_charts_omitted() {
        let page = report();
        assert!(page.contains("&lt;b&gt;") && !page.contains("<td><b>"));
        assert_eq!(page.matches("<svg").count(), 1);
    }

    #[test]
    fn nothing_at_all_still_makes_a_page() {
        let page = render_training_report(&TrainingReport {
            name: "empty",
            warm_start: "",
            held_out: &[],
            updates: &[],
            facts: &[],
            train_json: "{}",
        });
        assert!(page.contains("No evaluation yet.") && page.ends_with("</html>\n"));
    }
}
