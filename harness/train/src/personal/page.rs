//! The report: tables in Markdown, the curves as a separate picture.
//!
//! Pure; nothing to cancel.

use std::fmt::Write as _;

use super::arm::{Arm, plan};
use super::command::Outcome;
use super::findings::{ArmFigures, Comparison};
use super::statistics::Estimate;
use super::style::TEMPERATURE;

/// File name of the picture.
pub(super) const PICTURE: &str = "curves.svg";
/// Sessions averaged in one point of a curve.
const BLOCK: usize = 4;

pub(super) const HEADINGS: [&str; 7] =
    ["arm", "sessions", "adapted", "compliance", "correct", "updates", "memory tokens"];

pub(super) fn page(outcome: &Outcome) -> String {
    let Outcome { protocol, seeds, first_seed, findings, tunings, .. } = outcome;
    let mut text = "# How soon chat is learned from\n\n".to_owned();
    let _ = writeln!(
        text,
        "{seeds} seeds from {first_seed}, each with the same questions, draws and seeds of the sampling in every arm. A user has {} sessions of {} \
         replies at most, at temperature {TEMPERATURE}; {} % of complaints about style say what is wanted. `sessions` is the session that was the third in \
         a row whose first reply satisfied; who was never adapted to counts with {}. Compliance and correctness are of {} held-out questions for each \
         user, asked after the last session, sampled, without a hint, and with what is remembered in the arm `memory` alone. Intervals are of 95 %, by drawing seeds \
         again.\n",
        protocol.sessions, protocol.turns, protocol.wanted_percent, protocol.sessions, protocol.held_out,
    );
    text += &table(&findings.arms);
    text += "\n## What it comes to\n\n";
    for comparison in &findings.comparisons {
        let _ = writeln!(text, "- {}", comparison_line(comparison));
    }
    let _ = writeln!(text, "\n## First replies as wanted, by session\n\n![curves]({PICTURE})\n");
    text += &curves(&findings.arms);
    for (persona, arms) in &findings.by_persona {
        let _ = writeln!(text, "\n## {}\n", persona.name());
        text += &table(arms);
    }
    text += "\n## Settings\n\n";
    for (arm, tuning) in tunings {
        if plan(*arm, *tuning).is_some() {
            let top_k = match tuning.top_k {
                0 => "the sampled token".to_owned(),
                k => format!("the {k} most probable tokens"),
            };
            let _ = writeln!(
                text,
                "- {}: step size {}, rank {}, {} turns an update, a teacher about {top_k}, at most {} nats a token from version to version",
                arm.name(),
                tuning.learning_rate,
                tuning.rank,
                tuning.train_every_turns,
                tuning.max_kl,
            );
        }
    }
    text
}

pub(super) fn row(figures: &ArmFigures) -> [String; 7] {
    let memory =
        if figures.arm == Arm::Memory { format!("{:.1}", figures.memory_tokens) } else { "-".to_owned() };
    [
        figures.arm.name().to_owned(),
        figures.sessions.map_or_else(|| "-".to_owned(), |sessions| interval(sessions, 1.0)),
        format!("{}/{}", figures.adapted, figures.users),
        figures.compliance.map_or_else(|| "-".to_owned(), |share| interval(share, 100.0)),
        figures.correctness.map_or_else(|| "-".to_owned(), |share| interval(share, 100.0)),
        format!("{} ({} rejected, {} alarms)", figures.updates, figures.rejected, figures.alarms),
        memory,
    ]
}

fn interval(estimate: Estimate, unit: f64) -> String {
    let Estimate { value, low, high } = estimate;
    format!("{:.1} [{:.1}, {:.1}]", unit * value, unit * low, unit * high)
}

pub(super) fn comparison_line(comparison: &Comparison) -> String {
    let Comparison { what, estimate, verdict, .. } = comparison;
    let is_correctness = what.starts_with("correctness");
    let (unit, name) = if is_correctness { (100.0, " points") } else { (1.0, "") };
    let Estimate { value, low, high } = *estimate;
    format!(
        "{what}: {:.2}{name} (95 % interval {:.2} to {:.2}): {verdict}",
        unit * value,
        unit * low,
        unit * high
    )
}

fn table(arms: &[ArmFigures]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&HEADINGS.map(str::to_owned));
    text += &line(&HEADINGS.map(|_| "---".to_owned()));
    arms.iter().for_each(|figures| text += &line(&row(figures)));
    text
}

/// Means over blocks of sessions.
fn blocks(figures: &ArmFigures) -> Vec<f64> {
    figures.curve.chunks(BLOCK).map(|block| block.iter().sum::<f64>() / block.len() as f64).collect()
}

fn curves(arms: &[ArmFigures]) -> String {
    let line = |first: String, cells: Vec<String>| format!("| {first} | {} |\n", cells.join(" | "));
    let names = || arms.iter().map(|figures| figures.arm.name().to_owned()).collect::<Vec<_>>();
    let mut text = line("sessions".to_owned(), names());
    text += &line("---".to_owned(), arms.iter().map(|_| "---".to_owned()).collect());
    let all: Vec<Vec<f64>> = arms.iter().map(blocks).collect();
    for block in 0..all.first().map_or(0, Vec::len) {
        let cells = all.iter().map(|of_arm| format!("{:.0} %", 100.0 * of_arm[block])).collect();
        text += &line(format!("{} to {}", block * BLOCK + 1, (block + 1) * BLOCK), cells);
    }
    text
}

/// SVG of the curves of all arms.
pub(super) fn picture(arms: &[ArmFigures]) -> String {
    const SIZE: (f64, f64) = (640.0, 320.0);
    const MARGIN: f64 = 40.0;
    const COLOURS: [&str; 5] = ["#777777", "#d9822b", "#3b7dd8", "#1a8f4c", "#8a4fbf"];
    let (width, height) = SIZE;
    let (inner_width, inner_height) = (width - 3.0 * MARGIN, height - 2.0 * MARGIN);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for percent in [0, 25, 50, 75, 100] {
        let y = MARGIN + inner_height * (1.0 - f64::from(percent) / 100.0);
        let _ = writeln!(
            text,
            "<line x1=\"{MARGIN}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/><text x=\"4\" y=\"{:.1}\">{percent} %</text>",
            MARGIN + inner_width,
            y + 4.0
        );
    }
    for (place, figures) in arms.iter().enumerate() {
        let points = blocks(figures);
        let x = |block: usize| MARGIN + inner_width * (block as f64 + 0.5) / points.len().max(1) as f64;
        let y = |share: f64| MARGIN + inner_height * (1.0 - share);
        let line: Vec<String> = points
            .iter()
            .enumerate()
            .map(|(block, share)| format!("{:.1},{:.1}", x(block), y(*share)))
            .collect();
        let colour = COLOURS[place % COLOURS.len()];
        let _ = writeln!(
            text,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            line.join(" "),
            MARGIN + inner_width + 8.0,
            MARGIN + 16.0 * place as f64,
            figures.arm.name()
        );
    }
    let sessions = arms.first().map_or(0, |figures| figures.curve.len());
    let _ = writeln!(
        text,
        "<text x=\"{MARGIN}\" y=\"{:.1}\">first replies as wanted, by session (1 to {sessions})</text>\n</svg>",
        height - 12.0
    );
    text
}
