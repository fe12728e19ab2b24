//! Pages with sliders and spinners, which keys move.

use super::choose::ticked_place;
use super::enter::goal_number;
use super::snapshot::{PageSnapshot, click, numbers};
use crate::page::Node;

/// From here on a slider moves by a fifth of its length, which is not known.
const FAR: i64 = 12;

fn toward(sight: &PageSnapshot<'_>, handle: &Node, shown: i64, wanted: i64) -> Option<String> {
    let press = |key: &str| Some(format!("press {key}"));
    match wanted - shown {
        0 => None,
        _ if !handle.has("focused") => handle.number.map(|number| format!("click {number}")),
        // After overshooting, go back in single steps.
        FAR.. if !sight.has_said("press PageDown") => press("PageUp"),
        ..0 if shown - wanted >= FAR && !sight.has_said("press PageUp") => press("PageDown"),
        1.. => press("ArrowRight"),
        ..0 => press("ArrowLeft"),
    }
}

/// Sliders with the values that stand behind them.
fn sliders<'a>(sight: &PageSnapshot<'a>) -> Vec<(&'a Node, i64)> {
    let mut found = Vec::new();
    let mut last = None;
    for node in sight.nodes() {
        if node.is("slider") {
            last = Some(node);
        } else if let (Some(slider), true, Ok(value)) = (last, node.is("text"), node.name.parse::<i64>()) {
            found.push((slider, value));
            last = None;
        }
    }
    found
}

/// `Select 104 with the slider and hit Submit.`
pub(super) fn use_slider(sight: &PageSnapshot<'_>) -> Option<String> {
    let (slider, shown) = *sliders(sight).first()?;
    toward(sight, slider, shown, goal_number(sight)?).or_else(|| sight.send())
}

/// `Set the sliders to the combination [10,18,15] and submit.`
pub(super) fn use_slider_2(sight: &PageSnapshot<'_>) -> Option<String> {
    let wanted = numbers(sight.goal);
    let all = sliders(sight);
    let moved =
        all.iter().zip(wanted).find_map(|((slider, shown), wanted)| toward(sight, slider, *shown, wanted));
    moved.or_else(|| sight.send())
}

/// `Select 0 with the slider, click the 3rd checkbox, then hit Submit.`
pub(super) fn form_sequence(sight: &PageSnapshot<'_>) -> Option<String> {
    let (slider, shown) = *sliders(sight).first()?;
    toward(sight, slider, shown, goal_number(sight)?).or_else(|| ticked_place(sight)).or_else(|| sight.send())
}

/// `Select 5 with the spinner and hit Submit.`
pub(super) fn use_spinner(sight: &PageSnapshot<'_>) -> Option<String> {
    let field = sight.of_role("spinbutton").next()?;
    // The spinner takes no text.
    match goal_number(sight)? - field.value.as_deref()?.parse::<i64>().ok()? {
        0 => sight.send(),
        _ if !field.has("focused") => click(field),
        1.. => Some("press ArrowUp".to_owned()),
        ..0 => Some("press ArrowDown".to_owned()),
    }
}
