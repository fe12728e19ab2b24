//! Pages where something is to be typed.

use super::snapshot::{PageSnapshot, click, fill, first_place, numbers};
use crate::page::Node;

/// Fills the first field, then sends.
fn answer(sight: &PageSnapshot<'_>, text: &str) -> Option<String> {
    let is_field = |node: &&Node| matches!(node.role.as_str(), "textbox" | "spinbutton");
    let field =
        sight.nodes().iter().filter(|node| node.number.is_some() && !node.has("multiline")).find(is_field)?;
    fill(field, text).or_else(|| sight.send())
}

pub(super) fn enter_text(sight: &PageSnapshot<'_>) -> Option<String> {
    answer(sight, sight.quoted().first()?)
}

/// `Type "tora" in all upper case letters in the text input and press Submit.`
pub(super) fn enter_text_2(sight: &PageSnapshot<'_>) -> Option<String> {
    let text = *sight.quoted().first()?;
    let text = if sight.goal.contains("upper case") { text.to_uppercase() } else { text.to_lowercase() };
    answer(sight, &text)
}

pub(super) fn text_transform(sight: &PageSnapshot<'_>) -> Option<String> {
    answer(sight, &sight.of_role("text").next()?.name)
}

pub(super) fn enter_password(sight: &PageSnapshot<'_>) -> Option<String> {
    let text = *sight.quoted().first()?;
    sight.of_role("textbox").find_map(|field| fill(field, text)).or_else(|| sight.send())
}

/// A popup may come up meanwhile, which leaves the page unless it is cancelled.
pub(super) fn login_user(sight: &PageSnapshot<'_>) -> Option<String> {
    if let Some(cancel) = sight.click_named("Cancel") {
        return Some(cancel);
    }
    let texts = sight.quoted();
    let filled = sight.of_role("textbox").zip(&texts).find_map(|(field, text)| fill(field, text));
    filled.or_else(|| sight.send())
}

/// `Enter 10/20/2017 as the date and hit submit.` Fields of dates take the year first.
pub(super) fn enter_date(sight: &PageSnapshot<'_>) -> Option<String> {
    let date = sight.between("Enter ", " as the date")?;
    let mut parts = date.split('/');
    let (month, day, year) = (parts.next()?, parts.next()?, parts.next()?);
    let field = sight.of_role("date").next()?;
    fill(field, &format!("{year}-{month:0>2}-{day:0>2}")).or_else(|| sight.send())
}

/// `Enter 7:55 PM as the time and press submit.`
pub(super) fn enter_time(sight: &PageSnapshot<'_>) -> Option<String> {
    let (time, half) = sight.between("Enter ", " as the time")?.split_once(' ')?;
    let (hour, minute) = time.split_once(':')?;
    let hour = hour.parse::<u32>().ok()? % 12 + if half == "PM" { 12 } else { 0 };
    let field = sight.of_role("time").next()?;
    fill(field, &format!("{hour:02}:{minute}")).or_else(|| sight.send())
}

/// `Find the 4th word in the paragraph, type that into the textbox and press "Submit".`
pub(super) fn find_word(sight: &PageSnapshot<'_>) -> Option<String> {
    let text = &sight.of_role("text").next()?.name;
    let word = text.split_whitespace().nth(first_place(sight.goal)?)?;
    answer(sight, word.trim_matches(['.', ',']))
}

pub(super) fn simple_arithmetic(sight: &PageSnapshot<'_>) -> Option<String> {
    let problem: Vec<&str> = sight.of_role("text").next()?.name.split_whitespace().collect();
    let (left, right) = (problem.first()?.parse::<i64>().ok()?, problem.get(2)?.parse::<i64>().ok()?);
    answer(sight, &computed(left, problem.get(1)?, right)?.to_string())
}

fn computed(left: i64, operator: &str, right: i64) -> Option<i64> {
    match operator {
        "+" => Some(left + right),
        "-" => Some(left - right),
        "x" => Some(left * right),
        "/" | "÷" => left.checked_div(right),
        _ => None,
    }
}

/// `x + 7 = 5`, `3 - x = 9`
pub(super) fn simple_algebra(sight: &PageSnapshot<'_>) -> Option<String> {
    let problem: Vec<&str> = sight.of_role("text").next()?.name.split_whitespace().collect();
    let result = problem.get(4)?.parse::<i64>().ok()?;
    let known = |at: usize| problem.get(at).and_then(|word| word.parse::<i64>().ok());
    let found = match (known(0), *problem.get(1)?, known(2)) {
        (Some(left), "+", None) => result - left,
        (Some(left), "-", None) => left - result,
        (None, "+", Some(right)) => result - right,
        (None, "-", Some(right)) => result + right,
        _ => return None,
    };
    answer(sight, &found.to_string())
}

/// The cell beside the one with this text.
fn beside<'a>(sight: &PageSnapshot<'a>, label: &str) -> Option<&'a str> {
    let cells: Vec<&Node> = sight.of_role("cell").collect();
    let at = cells.iter().step_by(2).position(|cell| cell.name == label)?;
    cells.get(at * 2 + 1).map(|cell| cell.name.as_str())
}

/// `Enter the value of Language into the text field and press Submit.`
pub(super) fn read_table(sight: &PageSnapshot<'_>) -> Option<String> {
    answer(sight, beside(sight, sight.between("value of ", " into")?)?)
}

/// Each field stands behind its label.
pub(super) fn read_table_2(sight: &PageSnapshot<'_>) -> Option<String> {
    labelled(sight)
        .into_iter()
        .find_map(|(label, field)| fill(field, beside(sight, label)?))
        .or_else(|| sight.send())
}

/// Fields with the text before them; with the text after them if the first field has none before it.
fn labelled<'a>(sight: &PageSnapshot<'a>) -> Vec<(&'a str, &'a Node)> {
    let parts: Vec<&Node> = sight
        .nodes()
        .iter()
        .filter(|node| matches!(node.role.as_str(), "text" | "header" | "textbox"))
        .collect();
    let is_behind = parts.first().is_some_and(|node| node.is("textbox"));
    let pair = |pair: &[&'a Node]| {
        let (label, field) = if is_behind { (pair[1], pair[0]) } else { (pair[0], pair[1]) };
        let fits = field.is("textbox") && !label.is("textbox");
        fits.then(|| (label.name.trim_end_matches(':'), field))
    };
    parts.windows(2).filter_map(pair).collect()
}

/// `Search for surreal movies directed by Baxter from year 1995.`
pub(super) fn search_movies(sight: &PageSnapshot<'_>) -> Option<String> {
    let (genre, director, year) = (
        sight.between("Search for ", " movies")?,
        sight.between("directed by ", " from year")?,
        sight.between("from year ", ".")?,
    );
    let fields = || sight.of_role("textbox").filter(|field| !field.name.is_empty());
    let named = fields().map(|field| (field.name.as_str(), field));
    let filled = named.chain(labelled(sight)).find_map(|(label, field)| {
        let label = label.to_lowercase();
        let text = [("genre", genre), ("director", director), ("year", year), ("date", year)];
        fill(field, text.iter().find(|(key, _)| label.contains(key))?.1)
    });
    filled.or_else(|| sight.send())
}

/// The text ends in a space, which no line can say: it goes by the clipboard.
pub(super) fn copy_paste(sight: &PageSnapshot<'_>) -> Option<String> {
    let texts: Vec<&Node> = sight.of_role("textbox").filter(|node| node.has("multiline")).collect();
    let from = *texts.get(first_place(sight.goal).unwrap_or(0))?;
    let to = sight.of_role("textbox").find(|node| !node.has("multiline"))?;
    match sight.turn {
        0 => click(from),
        1 => Some("press Ctrl+A".to_owned()),
        2 => Some("press Ctrl+C".to_owned()),
        3 => click(to),
        4 => Some("press Ctrl+V".to_owned()),
        5 => sight.send(),
        _ => None,
    }
}

/// `Find the last word in the text area, enter it into the text field and hit Submit.`
pub(super) fn scroll_text(sight: &PageSnapshot<'_>) -> Option<String> {
    let text = sight.of_role("textbox").find(|node| node.has("multiline"))?.value.as_deref()?;
    answer(sight, text.split_whitespace().last()?.trim_matches(['.', ',']))
}

/// `Scroll the textarea to the bottom of the text hit submit.`
pub(super) fn scroll_text_2(sight: &PageSnapshot<'_>) -> Option<String> {
    let area = sight.of_role("textbox").find(|node| node.has("multiline"))?.number?;
    let to_bottom = sight.goal.contains("bottom");
    match sight.turn {
        0 => Some(format!("click {area}")),
        1 => Some(if to_bottom { "press Ctrl+End" } else { "press Ctrl+Home" }.to_owned()),
        2..=5 => Some(format!("scroll {area} {}", if to_bottom { "down" } else { "up" })),
        6 => sight.send(),
        _ => None,
    }
}

/// `Enter an item that starts with "Sa" and ends with "ino".`
pub(super) fn use_autocomplete(sight: &PageSnapshot<'_>) -> Option<String> {
    let texts = sight.quoted();
    let (begin, end) = (*texts.first()?, texts.get(1).copied().unwrap_or_default());
    let field = sight.of_role("textbox").next()?;
    let fits = |text: &str| text.starts_with(begin) && text.ends_with(end);
    if field.value.as_deref().is_some_and(|held| held.len() > begin.len() && fits(held)) {
        return sight.send();
    }
    let offered = |node: &&Node| node.number.is_some() && !node.is("textbox") && fits(&node.name);
    match sight.nodes().iter().find(offered) {
        Some(item) => click(item),
        None => {
            sight.once(field.number.map(|number| format!("type {number} {begin}"))).or_else(|| sight.send())
        }
    }
}

/// Colours by name, as the page writes them.
const COLOURS: [(&str, &str); 19] = [
    ("aqua", "00FFFF"),
    ("black", "000000"),
    ("blue", "0000FF"),
    ("gold", "FFD700"),
    ("gray", "808080"),
    ("green", "008000"),
    ("lime", "00FF00"),
    ("magenta", "FF00FF"),
    ("maroon", "800000"),
    ("navy", "000080"),
    ("olive", "808000"),
    ("orange", "FFA500"),
    ("pink", "FFC0CB"),
    ("purple", "800080"),
    ("red", "FF0000"),
    ("silver", "C0C0C0"),
    ("teal", "008080"),
    ("white", "FFFFFF"),
    ("yellow", "FFFF00"),
];

/// `Select yellow with the color picker and hit Submit.`
pub(super) fn use_colorwheel(sight: &PageSnapshot<'_>) -> Option<String> {
    let name = sight.between("Select ", " with the color")?;
    let (_, code) = COLOURS.iter().find(|(known, _)| *known == name)?;
    answer(sight, code)
}

/// The first whole number of the goal, as a field takes it.
pub(super) fn goal_number(sight: &PageSnapshot<'_>) -> Option<i64> {
    numbers(sight.goal).first().copied()
}
