//! Curves of the figures of updates, drawn here, as pictures in the page.
//!
//! I1. No script, no style of their own and nothing from elsewhere: the page's policy allows none, and its style has their colours, in light
//! and dark. I2. What is no number is not drawn. I3. Each curve says in words what it shows.

use std::collections::BTreeSet;

use clawrl_core::ticks;

use super::html::{Html, beginning, counted};
use crate::ledger::Figures;

/// Names of figures, in the order of their curves: what they are, and their unit.
const KNOWN: [(&str, &str, &str); 14] = [
    ("reward_mean", "Reward, on average", "reward"),
    ("samples", "Samples of an update", "samples"),
    ("kl", "KL from the policy before", "nats"),
    ("drift", "KL from the first policy", "nats"),
    ("loss", "Loss", "nats"),
    ("entropy", "Entropy", "nats"),
    ("reply_tokens", "Length of replies", "tokens"),
    ("update_seconds", "Time of an update", "seconds"),
    ("trained_tokens", "Tokens that were trained", "tokens"),
    ("hinted", "Samples with a hint", "samples"),
    ("hints_too_long", "Hints that were too long", "hints"),
    ("grad_norm", "Norm of the gradient", "norm"),
    ("outcome_rms", "What rewards add, RMS", "advantage"),
    ("teacher_rms", "What the teacher adds, RMS", "advantage"),
];
/// Curves of an adapter at most: whoever learns may write down what they like.
const MOST: usize = 16;
/// What is further from 0 is not drawn: no figure of an update is, unless something broke.
const FAR: f64 = 1e15;

/// Marks at an axis at most.
const MARKS: u16 = 5;
const UPDATES: u16 = 8;

/// Of the picture, in its own units.
const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 170.0;
/// Where the curve is in it.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 308.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 132.0;

/// A figure of an update.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    update: u64,
    value: f64,
    is_accepted: bool,
}

/// Curves of these updates, which come oldest first, adapter by adapter.
pub(super) fn curves(html: &mut Html, figures: &[Figures]) {
    let adapters: BTreeSet<&str> = figures.iter().map(|figures| figures.adapter.as_str()).collect();
    for adapter in adapters {
        let own: Vec<&Figures> = figures.iter().filter(|figures| figures.adapter == adapter).collect();
        let names: BTreeSet<&str> =
            own.iter().flat_map(|figures| figures.metrics.keys().map(String::as_str)).collect();
        let known = KNOWN.iter().filter(|(name, ..)| names.contains(name)).copied();
        let is_known = |name: &str| KNOWN.iter().any(|(known, ..)| *known == name);
        let others = names.iter().filter(|name| !is_known(name)).map(|name| (*name, *name, ""));
        let curves = known.chain(others).filter_map(|(name, title, unit)| {
            let points = points(&own, name);
            (!points.is_empty()).then_some((title, unit, points))
        });
        let curves: Vec<_> = curves.take(MOST).collect();
        if curves.is_empty() {
            continue;
        }
        html.raw("<h2>Curves of <bdi>").text(beginning(adapter, 200).0).raw("</bdi></h2>\n");
        html.raw("<p class=\"soft\">Each point is an update with turns of yours: a full one was accepted, an empty one was not, or was given up ");
        html.raw("since.</p>\n<div class=\"curves\">\n");
        curves.iter().for_each(|(title, unit, points)| curve(html, title, unit, points));
        html.raw("</div>\n");
    }
}

fn points(figures: &[&Figures], name: &str) -> Vec<Point> {
    let point = |figures: &&Figures| {
        let value = figures.metrics.get(name)?.as_f64().filter(|value| value.abs() < FAR)?;
        Some(Point { update: figures.update.0, value, is_accepted: figures.is_accepted })
    };
    figures.iter().filter_map(point).collect()
}

/// One picture; there is a point at least.
fn curve(html: &mut Html, title: &str, unit: &str, points: &[Point]) {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
    let values = || points.iter().map(|point| point.value);
    let (low, high) = values().fold((f64::MAX, f64::MIN), |(low, high), one| (low.min(one), high.max(one)));
    let marks = ticks(low, high, MARKS);
    let (Some(bottom), Some(top)) = (marks.first(), marks.last()) else { return };
    let (earliest, latest) = (first.update as f64, last.update as f64);
    let across = |update: f64| match latest - earliest {
        0.0 => f64::midpoint(LEFT, RIGHT),
        updates => LEFT + 8.0 + (RIGHT - LEFT - 16.0) * (update - earliest) / updates,
    };
    let up = |value: f64| BOTTOM - (BOTTOM - TOP) * (value - bottom) / (top - bottom);
    let title = beginning(title, 60).0;
    html.raw("<figure class=\"curve\"><figcaption><bdi>")
        .text(title)
        .raw("</bdi> <b>")
        .text(short(last.value));
    html.raw("</b></figcaption><svg viewBox=\"0 0 ").text(WIDTH).raw(" ").text(HEIGHT);
    html.raw("\" role=\"img\" aria-label=\"").text(title).raw(" over ");
    html.text(counted(points.len() as u64, "update", "updates")).raw(": from ").text(short(low)).raw(" to ");
    html.text(short(high)).raw(", last ").text(short(last.value)).raw("\">\n");
    for mark in &marks {
        line(html, "grid", (LEFT, up(*mark)), (RIGHT, up(*mark)));
        label(html, "end", (LEFT - 6.0, up(*mark) + 4.0), &short(*mark));
    }
    line(html, "axis", (LEFT, TOP), (LEFT, BOTTOM));
    line(html, "axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    // Updates are whole numbers, and the axis ends with them.
    let is_update = |value: &f64| value.fract() == 0.0 && (earliest..=latest).contains(value);
    for update in ticks(earliest, latest, UPDATES).into_iter().filter(is_update) {
        line(html, "axis", (across(update), BOTTOM), (across(update), BOTTOM + 4.0));
        label(html, "middle", (across(update), BOTTOM + 15.0), &update.to_string());
    }
    label(html, "middle", (f64::midpoint(LEFT, RIGHT), HEIGHT - 8.0), "update");
    html.raw("<text text-anchor=\"middle\" transform=\"translate(12 ").text(f64::midpoint(TOP, BOTTOM));
    html.raw(") rotate(-90)\">").text(unit).raw("</text>\n<polyline class=\"line\" points=\"");
    for point in points {
        html.text(format_args!("{:.1},{:.1} ", across(point.update as f64), up(point.value)));
    }
    html.raw("\"/>\n");
    for point in points {
        html.raw("<circle class=\"").raw(if point.is_accepted { "dot" } else { "dot not" }).raw("\" cx=\"");
        html.text(place(across(point.update as f64)))
            .raw("\" cy=\"")
            .text(place(up(point.value)))
            .raw("\" r=\"");
        html.raw(if points.len() > 40 { "2" } else { "3" }).raw("\"><title>update ").text(point.update);
        html.raw(": ").text(short(point.value)).raw("</title></circle>");
    }
    html.raw("</svg></figure>\n");
}

fn line(html: &mut Html, class: &'static str, from: (f64, f64), to: (f64, f64)) {
    html.raw("<line class=\"").raw(class);
    for (name, value) in [("x1", from.0), ("y1", from.1), ("x2", to.0), ("y2", to.1)] {
        html.raw("\" ").raw(name).raw("=\"").text(place(value));
    }
    html.raw("\"/>");
}

fn label(html: &mut Html, anchor: &'static str, at: (f64, f64), words: &str) {
    html.raw("<text text-anchor=\"")
        .raw(anchor)
        .raw("\" x=\"")
        .text(place(at.0))
        .raw("\" y=\"")
        .text(place(at.1));
    html.raw("\">").text(words).raw("</text>\n");
}

/// A place in the picture.
fn place(value: f64) -> String {
    format!("{value:.1}")
}

/// A number with four digits that count.
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

    fn update(number: u64, adapter: &str, is_accepted: bool, metrics: &Value) -> Figures {
        let metrics = metrics.as_object().unwrap().clone();
        Figures { update: UpdateId(number), adapter: adapter.to_owned(), is_accepted, metrics }
    }

    fn drawn(figures: &[Figures]) -> String {
        let mut html = Html::default();
        curves(&mut html, figures);
        html.into_string()
    }

    #[test]
    fn updates_stand_at_their_numbers_with_even_ticks_below() {
        let figures: Vec<Figures> =
            [1, 2, 41].map(|number| update(number, "ada", true, &json!({"kl": 0.1}))).into();
        let page = drawn(&figures);
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
            "by number, not one after the other: {places:?}"
        );
        assert!(drawn(&figures[..1]).contains("cx=\"183.0\""), "a single one stands in the middle");
    }

    #[test]
    fn numbers_are_short() {
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
    fn i1_curves_are_pictures_without_a_style_of_their_own() {
        let figures = [
            update(3, "ada", true, &json!({"kl": 0.1, "reward_mean": -0.5, "zeta": 1})),
            update(7, "ada", false, &json!({"kl": 0.2, "reward_mean": 0.25})),
        ];
        let page = drawn(&figures);
        assert_eq!((page.matches("<svg").count(), page.matches("<polyline").count()), (3, 3));
        assert_eq!(
            (page.matches("class=\"dot\"").count(), page.matches("class=\"dot not\"").count()),
            (3, 2)
        );
        let titles: Vec<&str> =
            page.split("<figcaption><bdi>").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
        assert_eq!(titles, ["Reward, on average", "KL from the policy before", "zeta"]);
        assert!(
            page.contains("aria-label=\"Reward, on average over 2 updates: from -0.5 to 0.25, last 0.25\""),
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
    fn i2_what_is_no_number_is_not_drawn() {
        assert_eq!(drawn(&[]), "");
        let wrong = json!({"loss": "low", "kl": null, "entropy": 1e300});
        assert_eq!(drawn(&[update(1, "ada", true, &wrong)]), "");
        let one = drawn(&[update(1, "ada", true, &wrong), update(2, "ada", true, &json!({"loss": 0.5}))]);
        assert_eq!((one.matches("<svg").count(), one.matches("<circle").count()), (1, 1));
        assert!(!one.contains("NaN"), "{one}");
    }

    #[test]
    fn each_adapter_has_its_own_and_names_are_words() {
        let hostile = json!({"</svg><script>": 1.0});
        let page = drawn(&[update(1, "<b>", true, &hostile), update(2, "ada", true, &json!({"kl": 0.1}))]);
        assert_eq!(page.matches("<h2>").count(), 2);
        assert!(
            !page.contains("<script>") && !page.contains("<b>\"") && page.contains("&lt;b&gt;"),
            "{page}"
        );
        let many: serde_json::Map<String, Value> = (0..99).map(|at| (format!("m{at}"), json!(at))).collect();
        assert_eq!(drawn(&[update(1, "ada", true, &Value::Object(many))]).matches("<svg").count(), MOST);
    }
}
