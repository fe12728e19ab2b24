//! Charts of update metrics: positions and labels, which the template draws as SVG.
//!
//! I1. A value that is not a number is not drawn. I2. Each chart has a text description of its range.

use std::collections::BTreeSet;

use clawrl_core::ticks;
use serde::Serialize;

use crate::ledger::UpdateMetrics;

/// Known metrics in the order of their charts: name, title, unit.
const KNOWN: [(&str, &str, &str); 14] = [
    ("reward_mean", "Mean reward", "reward"),
    ("samples", "Samples per update", "samples"),
    ("kl", "KL from the version before", "nats"),
    ("drift", "KL from the reference policy", "nats"),
    ("loss", "Loss", "nats"),
    ("entropy", "Entropy", "nats"),
    ("reply_tokens", "Reply length", "tokens"),
    ("update_seconds", "Update time", "seconds"),
    ("trained_tokens", "Trained tokens", "tokens"),
    ("hinted", "Samples with a hint", "samples"),
    ("hints_too_long", "Hints that were too long", "hints"),
    ("grad_norm", "Gradient norm", "norm"),
    ("outcome_rms", "Reward advantage, RMS", "advantage"),
    ("teacher_rms", "Teacher advantage, RMS", "advantage"),
];
/// Charts per adapter: a trainer may record any number of metrics.
const MAX_CURVES: usize = 16;
/// Larger values are not drawn: no metric has them unless something broke.
const MAX_VALUE: f64 = 1e15;

/// Marks per axis.
const Y_MARKS: u16 = 5;
const X_MARKS: u16 = 8;

/// Size of a chart and the edges of its plot, in SVG units.
#[derive(Debug, Serialize)]
pub(super) struct Frame {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

pub(super) const FRAME: Frame =
    Frame { width: 320.0, height: 170.0, left: 58.0, right: 308.0, top: 10.0, bottom: 132.0 };

/// The charts of an adapter.
#[derive(Debug, Serialize)]
pub(super) struct Charts {
    adapter: String,
    curves: Vec<Curve>,
}

#[derive(Debug, Serialize)]
struct Curve {
    title: String,
    unit: String,
    low: String,
    high: String,
    last: String,
    points: Vec<Point>,
    x_marks: Vec<Mark>,
    y_marks: Vec<Mark>,
}

/// The metric of an update.
#[derive(Debug, Serialize)]
struct Point {
    update: u64,
    label: String,
    is_accepted: bool,
    x: f64,
    y: f64,
}

#[derive(Debug, Serialize)]
struct Mark {
    at: f64,
    label: String,
}

/// Charts of these updates, which are sorted oldest first, by adapter.
pub(super) fn charts(updates: &[UpdateMetrics]) -> Vec<Charts> {
    let adapters: BTreeSet<&str> = updates.iter().map(|update| update.adapter.as_str()).collect();
    let charts = adapters.into_iter().map(|adapter| {
        let own: Vec<&UpdateMetrics> = updates.iter().filter(|update| update.adapter == adapter).collect();
        let names: BTreeSet<&str> =
            own.iter().flat_map(|update| update.metrics.keys().map(String::as_str)).collect();
        let known = KNOWN.iter().filter(|(name, ..)| names.contains(name)).copied();
        let is_known = |name: &str| KNOWN.iter().any(|(known, ..)| *known == name);
        let others = names.iter().filter(|name| !is_known(name)).map(|name| (*name, *name, ""));
        let curves = known.chain(others).filter_map(|(name, title, unit)| curve(title, unit, &own, name));
        Charts { adapter: adapter.to_owned(), curves: curves.take(MAX_CURVES).collect() }
    });
    charts.filter(|charts| !charts.curves.is_empty()).collect()
}

/// `None` if no update has the metric.
fn curve(title: &str, unit: &str, updates: &[&UpdateMetrics], name: &str) -> Option<Curve> {
    let value = |update: &&UpdateMetrics| {
        let value = update.metrics.get(name)?.as_f64().filter(|value| value.abs() < MAX_VALUE)?;
        Some((update.update.0, value, update.is_accepted))
    };
    let values: Vec<(u64, f64, bool)> = updates.iter().filter_map(value).collect();
    let (first, last) = (values.first()?, values.last()?);
    let (low, high) = values
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), (_, value, _)| (low.min(*value), high.max(*value)));
    let marks = ticks(low, high, Y_MARKS);
    let (bottom, top) = (*marks.first()?, *marks.last()?);
    let (earliest, latest) = (first.0 as f64, last.0 as f64);
    let Frame { left, right, .. } = FRAME;
    let x = |update: f64| match latest - earliest {
        0.0 => f64::midpoint(left, right),
        updates => left + 8.0 + (right - left - 16.0) * (update - earliest) / updates,
    };
    let y = |value: f64| FRAME.bottom - (FRAME.bottom - FRAME.top) * (value - bottom) / (top - bottom);
    // Update numbers are integers, and the axis ends with the last one.
    let is_update = |value: &f64| value.fract() == 0.0 && (earliest..=latest).contains(value);
    let updates = ticks(earliest, latest, X_MARKS).into_iter().filter(is_update);
    Some(Curve {
        title: title.to_owned(),
        unit: unit.to_owned(),
        low: short(low),
        high: short(high),
        last: short(last.1),
        points: values
            .iter()
            .map(|&(update, value, is_accepted)| Point {
                update,
                label: short(value),
                is_accepted,
                x: x(update as f64),
                y: y(value),
            })
            .collect(),
        x_marks: updates.map(|update| Mark { at: x(update), label: update.to_string() }).collect(),
        y_marks: marks.iter().map(|mark| Mark { at: y(*mark), label: short(*mark) }).collect(),
    })
}

/// A number with four significant digits.
fn short(value: f64) -> String {
    let size = value.abs();
    if size < 1e-12 {
        return "0".to_owned();
    }
    if !(1e-4..1e7).contains(&size) {
        return format!("{value:.1e}");
    }
    let decimals = (3 - size.log10().floor() as i32).clamp(0, 7);
    let text = format!("{value:.*}", usize::try_from(decimals).unwrap_or(0));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::UpdateId;
    use crate::api::pages::render::render;

    fn update(number: u64, adapter: &str, is_accepted: bool, metrics: &Value) -> UpdateMetrics {
        let metrics = metrics.as_object().unwrap().clone();
        UpdateMetrics { update: UpdateId(number), adapter: adapter.to_owned(), is_accepted, metrics }
    }

    /// The charts as the page shows them.
    fn drawn(updates: &[UpdateMetrics]) -> String {
        let context = json!({"charts": charts(updates), "frame": FRAME});
        let [curves] = render("versions", ["curves"], &context).unwrap();
        curves
    }

    #[test]
    fn points_are_placed_by_update_number() {
        let updates: Vec<UpdateMetrics> =
            [1, 2, 41].map(|number| update(number, "ada", true, &json!({"kl": 0.1}))).into();
        let page = drawn(&updates);
        for label in [">10</text>", ">20</text>", ">30</text>", ">40</text>"] {
            assert!(page.contains(label), "{label}: {page}");
        }
        let places: Vec<f64> = page
            .split("cx=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
            .collect();
        assert!(
            (places[1] - places[0]) * 38.0 < places[2] - places[1],
            "by number, not by order: {places:?}"
        );
        assert!(drawn(&updates[..1]).contains("cx=\"183.0\""), "a single point is in the middle");
    }

    #[test]
    fn short_keeps_four_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.5, "-0.5"),
            (0.123_456, "0.1235"),
            (12.0, "12"),
            (1234.56, "1235"),
            (98_765.4, "98765"),
            (0.000_01, "1.0e-5"),
            (12_345_678.0, "1.2e7"),
        ] {
            assert_eq!(short(value), expected);
        }
    }

    #[test]
    fn i2_charts_describe_themselves_without_styles() {
        let updates = [
            update(3, "ada", true, &json!({"kl": 0.1, "reward_mean": -0.5, "zeta": 1})),
            update(7, "ada", false, &json!({"kl": 0.2, "reward_mean": 0.25})),
        ];
        let page = drawn(&updates);
        assert_eq!((page.matches("<svg").count(), page.matches("<polyline").count()), (3, 3));
        assert_eq!(
            (page.matches("class=\"dot\"").count(), page.matches("class=\"dot not\"").count()),
            (3, 2)
        );
        let titles: Vec<&str> =
            page.split("<figcaption><bdi>").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
        assert_eq!(titles, ["Mean reward", "KL from the version before", "zeta"]);
        assert!(
            page.contains("aria-label=\"Mean reward over 2 updates: from -0.5 to 0.25, last 0.25\""),
            "{page}"
        );
        for part in
            [">update</text>", ">nats</text>", ">3</text>", ">7</text>", "<title>update 7: 0.2</title>"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        for wrong in ["style", "<script", "http", "NaN", "inf", "url("] {
            assert!(!page.contains(wrong), "{wrong}: {page}");
        }
    }

    #[test]
    fn i1_other_values_are_not_drawn() {
        assert_eq!(drawn(&[]), "");
        let wrong = json!({"loss": "low", "kl": null, "entropy": 1e300});
        assert_eq!(drawn(&[update(1, "ada", true, &wrong)]), "");
        let one = drawn(&[update(1, "ada", true, &wrong), update(2, "ada", true, &json!({"loss": 0.5}))]);
        assert_eq!((one.matches("<svg").count(), one.matches("<circle").count()), (1, 1));
        assert!(!one.contains("NaN"), "{one}");
    }

    #[test]
    fn adapters_have_charts_and_names_are_escaped() {
        let hostile = json!({"</svg><script>": 1.0});
        let page = drawn(&[update(1, "<b>", true, &hostile), update(2, "ada", true, &json!({"kl": 0.1}))]);
        assert_eq!(page.matches("<h2>").count(), 2);
        assert!(
            !page.contains("<script>") && !page.contains("<b>\"") && page.contains("&lt;b&gt;"),
            "{page}"
        );
        let many: serde_json::Map<String, Value> = (0..99).map(|at| (format!("m{at}"), json!(at))).collect();
        assert_eq!(
            drawn(&[update(1, "ada", true, &Value::Object(many))]).matches("<svg").count(),
            MAX_CURVES
        );
    }
}
