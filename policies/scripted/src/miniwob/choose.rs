//! Pages with boxes to tick, lists to choose from and calendars.

use super::snapshot::{PageSnapshot, click, fill, first_place, numbers, place_of, tick};
use crate::page::Node;

/// `Select A, B and click Submit.`
pub(super) fn click_checkboxes(sight: &PageSnapshot<'_>) -> Option<String> {
    let wanted: Vec<&str> = sight.between("Select ", " and click")?.split(", ").collect();
    let wrong = |node: &Node| tick(node, wanted.contains(&node.name.as_str()));
    sight.of_role("checkbox").find_map(wrong).or_else(|| sight.send())
}

pub(super) fn click_option(sight: &PageSnapshot<'_>) -> Option<String> {
    let wanted = sight.between("Select ", " and click")?;
    let radio = sight.of_role("radio").find(|node| node.name == wanted)?;
    tick(radio, true).or_else(|| sight.send())
}

/// `Select Somalia from the list and click Submit.`
pub(super) fn choose_list(sight: &PageSnapshot<'_>) -> Option<String> {
    let wanted = sight.between("Select ", " from the list")?;
    let list = sight.of_role("combobox").next()?;
    if list.value.as_deref() == Some(wanted) {
        return sight.send();
    }
    Some(format!("select {} {wanted}", list.number?))
}

/// `Select Brazil, Mauritania from the scroll list and click Submit.`
pub(super) fn click_scroll_list(sight: &PageSnapshot<'_>) -> Option<String> {
    let wanted = sight.between("Select ", " from the scroll list")?.replace(", ", "|");
    let list = sight.of_role("listbox").next()?.number?;
    sight.once(Some(format!("select {list} {wanted}"))).or_else(|| sight.send())
}

/// `Select all the shades of blue and press Submit.`
pub(super) fn click_shades(sight: &PageSnapshot<'_>) -> Option<String> {
    let colour = sight.between("shades of ", " and press")?;
    let shades = sight.of_role("clickable").filter(|node| node.says(colour));
    shades.filter_map(|node| sight.once(click(node))).next().or_else(|| sight.send())
}

/// `Check the 3rd radio button and enter the number "-7" into the 2nd textbox.`
pub(super) fn form_sequence_2(sight: &PageSnapshot<'_>) -> Option<String> {
    let places: Vec<usize> = sight.goal.split_whitespace().filter_map(place_of).collect();
    let radio = sight.of_role("radio").nth(*places.first()?)?;
    let text = *sight.quoted().first()?;
    let field = sight.of_role("textbox").nth(*places.get(1)?)?;
    tick(radio, true).or_else(|| fill(field, text)).or_else(|| sight.send())
}

/// `Choose 6 ft from the dropdown, then click the button labeled "Yes".`
pub(super) fn form_sequence_3(sight: &PageSnapshot<'_>) -> Option<String> {
    let wanted = sight.between("Choose ", " from the dropdown")?;
    let is_wanted = |node: &&Node| node.name == wanted && !node.is("button");
    match sight.turn {
        0 => sight.nodes().iter().find(|node| node.number.is_some() && node.name == "▾").and_then(click),
        1 => sight.nodes().iter().filter(|node| node.number.is_some()).find(is_wanted).and_then(click),
        2 => sight.click_named(sight.quoted().first()?),
        _ => None,
    }
}

/// Months as calendars call them.
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// `Select 10/11/2016 as the date and hit submit.`
pub(super) fn choose_date(sight: &PageSnapshot<'_>) -> Option<String> {
    let date = sight.between("Select ", " as the date")?;
    let field = sight.of_role("textbox").next()?;
    if field.value.as_deref() == Some(date) {
        return sight.send();
    }
    let [month, day, year] = numbers(&date.replace('/', " "))[..] else { return None };
    let is_heading = |node: &&Node| MONTHS.iter().any(|name| node.name.starts_with(name));
    let Some(heading) = sight.nodes().iter().find(is_heading) else { return click(field) };
    let shown_month = MONTHS.iter().position(|name| heading.name.starts_with(name))? as i64 + 1;
    let shown_year = numbers(&heading.name).first().copied().unwrap_or(year);
    let behind = (year * 12 + month) - (shown_year * 12 + shown_month);
    let turn_to = |name: &str| {
        let found = sight.nodes().iter().find(|node| node.number.is_some() && node.name == name);
        found.and_then(click)
    };
    match behind {
        1.. => turn_to("Next"),
        ..0 => turn_to("Prev"),
        0 => turn_to(&day.to_string()),
    }
}

/// Ordinal of the element that is meant: `the 3rd checkbox`.
pub(super) fn ticked_place(sight: &PageSnapshot<'_>) -> Option<String> {
    sight.of_role("checkbox").nth(first_place(sight.goal)?).and_then(|node| tick(node, true))
}
