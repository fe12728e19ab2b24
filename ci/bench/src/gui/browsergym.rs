//! What the peer's own script measured: one browser, one page.

use std::path::Path;
use std::process::{Command, Stdio};

use clawrl_gui::BrowserPrograms;

use super::tally::{Seen, Tally};
use super::{Row, Side};
use crate::terminals::Failure;

pub(super) fn measure(
    python: &Path,
    html: &Path,
    programs: &BrowserPrograms,
    rounds: u32,
    steps: u32,
) -> Result<Vec<Row>, Failure> {
    let script = Path::new("ci/bench/peers/browsergym_step.py");
    let output = Command::new(python)
        .arg(script)
        .args([html.join("miniwob").as_os_str(), programs.browser.as_os_str()])
        .args([rounds.to_string(), steps.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", script.display(), output.status).into());
    }
    let rounds: Vec<[Vec<f64>; 2]> = serde_json::from_slice(&output.stdout)?;
    let row = |(round, [resets, steps]): (u32, [Vec<f64>; 2])| {
        let tally = Tally { steps, resets, ..Tally::default() };
        let unknown = Seen { start_s: f64::NAN, lasted_s: f64::NAN, ..Seen::default() };
        Row::of(Side::Browsergym, 1, round, Seen { tally, ..unknown })
    };
    Ok((1..).zip(rounds).map(row).collect())
}
