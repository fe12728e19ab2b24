//! Curves of recipes: the mean over seeds, and the seeds themselves, thin.

use std::fmt::Write;

use super::{Point, Row};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
/// Room for the axes.
const LEFT: f64 = 56.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 44.0;
const MOST_TICKS: u32 = 6;
/// Told apart also by those who see no red and green.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c00"];

/// The plot as a file of its own.
pub(super) fn svg(recipes: &[&str], rows: &[Row], goal: f64) -> String {
    let most = rows.iter().flat_map(|row| &row.curve).map(|point| point.episodes).fold(1.0, f64::max);
    let x = |episodes: f64| LEFT + episodes / most * (WIDTH - LEFT - RIGHT);
    let y = |percent: f64| TOP + (100.0 - percent) / 100.0 * (HEIGHT - TOP - BOTTOM);
    let line = |points: &[Point]| -> String {
        let at = |point: &Point| format!("{:.1},{:.1}", x(point.episodes), y(point.held_out_percent));
        points.iter().map(at).collect::<Vec<_>>().join(" ")
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for percent in [0.0, 25.0, 50.0, 75.0, 100.0] {
        let at = y(percent);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{percent} %</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0
        );
    }
    for part in 0..=MOST_TICKS {
        let episodes = step(most) * f64::from(part);
        if episodes > most {
            break;
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{episodes:.0}</text>",
            x(episodes),
            HEIGHT - BOTTOM + 18.0
        );
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{LEFT} {0:.1}H{1:.1}\" stroke=\"#888\" stroke-dasharray=\"4 4\"/>\n\
         <text x=\"{2:.1}\" y=\"{3:.1}\" text-anchor=\"middle\">episodes</text>\n\
         <text x=\"{LEFT}\" y=\"14\">held-out tasks passed, greedily</text>",
        y(goal),
        WIDTH - RIGHT,
        f64::midpoint(LEFT, WIDTH - RIGHT),
        HEIGHT - 8.0
    );
    for ((number, recipe), colour) in recipes.iter().enumerate().zip(COLOURS.iter().cycle()) {
        let curves: Vec<&[Point]> =
            rows.iter().filter(|row| row.recipe == *recipe).map(|row| row.curve.as_slice()).collect();
        for curve in &curves {
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-opacity=\".3\"/>",
                line(curve)
            );
        }
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{recipe}</text>",
            line(&mean(&curves)),
            WIDTH - RIGHT + 12.0,
            TOP + 18.0 * (number as f64 + 1.0)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// The least of 1, 2 and 5 times a power of ten that makes no more than [`MOST_TICKS`] steps.
fn step(most: f64) -> f64 {
    let rough = most / f64::from(MOST_TICKS);
    let power = 10f64.powf(rough.log10().floor());
    let fitting = [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= rough);
    fitting.unwrap_or(rough)
}

/// Evaluation by evaluation, as long as all curves go.
fn mean(curves: &[&[Point]]) -> Vec<Point> {
    let shortest = curves.iter().map(|curve| curve.len()).min().unwrap_or(0);
    let number = curves.len() as f64;
    let at = |place: usize| {
        let sum = |of: fn(&Point) -> f64| curves.iter().map(|curve| of(&curve[place])).sum::<f64>() / number;
        Point { episodes: sum(|point| point.episodes), held_out_percent: sum(|point| point.held_out_percent) }
    };
    (0..shortest).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        for (most, expected) in [(6.0, 1.0), (8256.0, 2000.0), (1.0, 0.2), (30_000.0, 5000.0)] {
            assert!((step(most) - expected).abs() < 1e-9 * expected, "{most}: {}", step(most));
        }
    }

    #[test]
    fn means_go_as_far_as_all_curves() {
        let point = |episodes, held_out_percent| Point { episodes, held_out_percent };
        let curves = [vec![point(0.0, 10.0), point(100.0, 30.0)], vec![point(0.0, 20.0), point(140.0, 50.0)]];
        let longer = vec![point(0.0, 30.0), point(120.0, 40.0), point(200.0, 90.0)];
        let all = [curves[0].as_slice(), &curves[1], &longer];
        let found: Vec<(f64, f64)> =
            mean(&all).iter().map(|point| (point.episodes, point.held_out_percent)).collect();
        assert_eq!(found, [(0.0, 20.0), (120.0, 40.0)]);
    }
}
