//! Pages whose goal names the element to press.

use super::snapshot::{PageSnapshot, click, first_place};
use crate::page::Node;

pub(super) fn click_button(sight: &PageSnapshot<'_>) -> Option<String> {
    let name = *sight.quoted().first()?;
    sight.of_role("button").find(|node| node.name == name).and_then(click)
}

pub(super) fn click_named(sight: &PageSnapshot<'_>) -> Option<String> {
    sight.click_named(sight.quoted().first()?)
}

pub(super) fn click_test(sight: &PageSnapshot<'_>) -> Option<String> {
    sight.of_role("button").next().and_then(click)
}

/// `Click button ONE.`
pub(super) fn click_test_2(sight: &PageSnapshot<'_>) -> Option<String> {
    sight.click_named(sight.between("button ", ".")?)
}

/// `Click button ONE, then click button TWO.`
pub(super) fn click_button_sequence(sight: &PageSnapshot<'_>) -> Option<String> {
    sight.click_named(["ONE", "TWO"].get(sight.turn)?)
}

pub(super) fn click_dialog(sight: &PageSnapshot<'_>) -> Option<String> {
    match *sight.quoted().first()? {
        "x" => sight.click_named("Close"),
        name => sight.click_named(name),
    }
}

/// `Click on Tab #1.`
pub(super) fn click_tab(sight: &PageSnapshot<'_>) -> Option<String> {
    sight.click_named(sight.between("Click on ", ".")?)
}

pub(super) fn click_collapsible(sight: &PageSnapshot<'_>) -> Option<String> {
    let first = sight.of_role("tab").next()?;
    if first.has("collapsed") { click(first) } else { sight.send() }
}

/// `Click on the black colored box.`, or a box of the colour in place of its name.
pub(super) fn click_color(sight: &PageSnapshot<'_>) -> Option<String> {
    let sample =
        || sight.nodes().iter().find(|node| node.is_called("query-color"))?.words.first().map(String::as_str);
    let sought = sight.between("Click on the ", " colored").or_else(sample)?;
    let is_it = |node: &&Node| !node.is_called("query-color") && node.says(sought);
    sight.nodes().iter().find(is_it).and_then(click)
}

/// `Click on a "textarea" widget.`
pub(super) fn click_widget(sight: &PageSnapshot<'_>) -> Option<String> {
    let (role, multiline) = match *sight.quoted().first()? {
        "textarea" => ("textbox", true),
        "text" => ("textbox", false),
        other => (other, false),
    };
    sight.of_role(role).find(|node| node.has("multiline") == multiline).and_then(click)
}

/// `Focus into the 3rd input textbox.`
pub(super) fn focus_text(sight: &PageSnapshot<'_>) -> Option<String> {
    sight.of_role("textbox").nth(first_place(sight.goal).unwrap_or(0)).and_then(click)
}

/// After the first click, no number is shown any more.
pub(super) fn ascending_numbers(sight: &PageSnapshot<'_>) -> Option<String> {
    let wanted = (sight.turn + 1).to_string();
    let (x, y) = sight.first.of_role("svg text").find(|node| node.name == wanted)?.at?;
    Some(format!("click {x},{y}"))
}
