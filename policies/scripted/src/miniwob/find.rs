//! Pages whose target has to be searched for, compared or counted.

use super::snapshot::{PageSnapshot, click, fill, first_place, numbers};
use crate::page::Node;

/// The tab after the one that is open; the first one if none is.
fn next_tab(sight: &PageSnapshot<'_>) -> Option<String> {
    let tabs: Vec<&Node> = sight.of_role("tab").collect();
    let open = tabs.iter().position(|tab| tab.has("expanded") || tab.has("selected"));
    let next = open.map_or(0, |at| at + 1) % tabs.len().max(1);
    tabs.get(next).copied().and_then(click)
}

/// `Switch between the tabs to find and click on the link "ut.".`
pub(super) fn click_tab_2(sight: &PageSnapshot<'_>) -> Option<String> {
    let name = *sight.quoted().first()?;
    let link =
        sight.nodes().iter().find(|node| !node.is("tab") && node.number.is_some() && node.name == name);
    link.and_then(click).or_else(|| next_tab(sight))
}

pub(super) fn click_collapsible_2(sight: &PageSnapshot<'_>) -> Option<String> {
    click_tab_2(sight)
}

/// `Select Xaviera>Laurie>Melinde`: each menu opens beneath the pointer.
pub(super) fn click_menu(sight: &PageSnapshot<'_>) -> Option<String> {
    let path: Vec<&str> = sight.between("Select ", "")?.split('>').collect();
    let item = |name: &str| sight.named(name);
    let last = path.len().checked_sub(1)?;
    if let Some(found) = item(path[last]) {
        return click(found);
    }
    let deepest = path[..last].iter().rev().find_map(|name| item(name))?;
    deepest.number.map(|number| format!("hover {number}"))
}

/// `Navigate through the file tree. Find and click on the folder or file named "Emile".`
pub(super) fn navigate_tree(sight: &PageSnapshot<'_>) -> Option<String> {
    let name = *sight.quoted().first()?;
    if let Some(found) = sight.named(name) {
        return click(found);
    }
    let closed =
        |node: &&Node| node.is_called("expandable-hitarea") || node.is_called("lastExpandable-hitarea");
    sight.nodes().iter().find(closed).and_then(click)
}

/// `Use the textbox to enter "Truman" and press "Search", then find and click the 5th search result.`
pub(super) fn search_engine(sight: &PageSnapshot<'_>) -> Option<String> {
    let field = sight.of_role("textbox").next()?;
    if let Some(typed) = fill(field, sight.quoted().first()?) {
        return Some(typed);
    }
    const A_PAGE: usize = 3;
    let place = first_place(sight.goal)?;
    let is_page =
        |node: &Node| node.name.parse::<usize>().is_ok() || ["<", ">"].contains(&node.name.as_str());
    let links = || {
        sight
            .nodes()
            .iter()
            .filter(|node| node.number.is_some() && matches!(node.role.as_str(), "link" | "clickable"))
    };
    if links().next().is_none() {
        return sight.send();
    }
    let page = (place / A_PAGE + 1).to_string();
    let turn = links().find(|node| node.name == page).and_then(click);
    // Pages are called by their numbers, and results come before them.
    match turn.filter(|line| place >= A_PAGE && sight.said.last() != Some(line)) {
        Some(turn) => Some(turn),
        None => links().filter(|node| !is_page(node)).nth(place % A_PAGE).and_then(click),
    }
}

/// `Find Kara-Lynn in the contact book and click on their address.`
pub(super) fn phone_book(sight: &PageSnapshot<'_>) -> Option<String> {
    let name = sight.between("Find ", " in the contact book")?;
    let what = sight.between("click on their ", ".")?.trim_end_matches(" number");
    let heading = sight.of_role("heading").next()?;
    if heading.name != name {
        return sight.click_named(">");
    }
    let label = sight
        .nodes()
        .iter()
        .position(|node| node.is("text") && node.name.to_lowercase().trim_end_matches(':') == what)?;
    sight.nodes()[label..].iter().find(|node| node.number.is_some()).and_then(click)
}

/// `Buy the ticket with the cheapest cost.`, `... the shortest duration.`
pub(super) fn buy_ticket(sight: &PageSnapshot<'_>) -> Option<String> {
    let by_time = sight.goal.contains("duration");
    let mut minutes = 0;
    let mut tickets: Vec<(i64, &Node)> = Vec::new();
    for node in sight.nodes() {
        if node.is("button") {
            let cost = numbers(&node.name).first().copied().unwrap_or(i64::MAX);
            tickets.push((if by_time { minutes } else { cost }, node));
        } else if let [hours, rest] = numbers(&node.name)[..] {
            minutes = hours * 60 + rest;
        }
    }
    let most =
        ["most expensive", "longest", "greatest", "highest"].iter().any(|word| sight.goal.contains(word));
    let order = |(value, _): &&(i64, &Node)| if most { -*value } else { *value };
    tickets.iter().min_by_key(order).and_then(|(_, node)| click(node))
}

pub(super) fn find_greatest(sight: &PageSnapshot<'_>) -> Option<String> {
    let cards = sight.of_role("clickable").filter_map(|node| Some((node.name.parse::<i64>().ok()?, node)));
    let (_, greatest) = cards.max_by_key(|(value, _)| *value)?;
    sight.once(click(greatest)).or_else(|| sight.send())
}

pub(super) fn odd_or_even(sight: &PageSnapshot<'_>) -> Option<String> {
    let nodes = sight.nodes();
    for (at, node) in nodes.iter().enumerate() {
        let Some(number) = node.name.parse::<i64>().ok().filter(|_| node.is("text")) else { continue };
        let choice =
            if number % 2 == 0 { nodes.get(at + 1) } else { at.checked_sub(1).and_then(|at| nodes.get(at)) };
        if let Some(line) = sight.once(choice.and_then(click)) {
            return Some(line);
        }
    }
    sight.send()
}

/// `Generate a number less than 5, then press submit.`
pub(super) fn generate_number(sight: &PageSnapshot<'_>) -> Option<String> {
    let shown = sight.of_role("text").next().and_then(|node| node.name.parse::<i64>().ok());
    let bound = numbers(sight.goal).first().copied().unwrap_or_default();
    let fits = |number: i64| match sight.goal {
        goal if goal.contains("less than") => number < bound,
        goal if goal.contains("greater than") => number > bound,
        goal => (number % 2 == 0) == goal.contains("even"),
    };
    if shown.is_some_and(fits) { sight.send() } else { sight.click_named("Generate") }
}

/// The feedback says whether the number is higher or lower than the last guess.
pub(super) fn guess_number(sight: &PageSnapshot<'_>) -> Option<String> {
    const FIRST: i64 = 5;
    let feedback =
        sight.of_role("text").find_map(|node| Some((numbers(&node.name).first().copied()?, &node.name)));
    let guess = match feedback {
        Some((last, text)) if text.contains("higher") => last + 1,
        Some((last, _)) => last - 1,
        None => FIRST,
    };
    let field = sight.of_role("spinbutton").next()?;
    fill(field, &guess.to_string()).or_else(|| sight.send())
}

/// Shape in a goal: `a large yellow triangle`, `a small p`, `a rectangle`, `any items`.
struct Query<'a> {
    words: Vec<&'a str>,
}

impl Query<'_> {
    fn fits(&self, node: &Node) -> bool {
        self.words.iter().all(|word| fits(node, word))
    }
}

const COLOURS: [&str; 9] = ["red", "green", "blue", "aqua", "black", "magenta", "yellow", "white", "purple"];

fn fits(node: &Node, word: &str) -> bool {
    let shape = node.role.strip_prefix("svg ").unwrap_or_default();
    let is_text = shape == "text";
    let first = || node.name.chars().next().unwrap_or(' ');
    match word {
        "shape" | "shapes" => !is_text,
        "a" | "an" | "are" | "there" | "item" | "items" => true,
        "small" | "large" => node.says(word),
        "letter" | "letters" => is_text && first().is_alphabetic(),
        "digit" | "digits" | "number" | "numbers" => is_text && first().is_ascii_digit(),
        "rectangle" | "rectangles" | "triangle" | "triangles" | "circle" | "circles" => {
            shape == word.trim_end_matches('s')
        }
        colour if COLOURS.contains(&colour) => node.says(colour),
        // `3s`, `p`
        text => {
            is_text
                && (node.name == text
                    || (text.chars().count() == 2 && text.strip_suffix('s') == Some(node.name.as_str())))
        }
    }
}

/// `Click on a small p`
pub(super) fn click_shape(sight: &PageSnapshot<'_>) -> Option<String> {
    let asked = Query {
        words: sight.between("Click on ", "")?.trim_end_matches('.').split_whitespace().skip(1).collect(),
    };
    sight.nodes().iter().find(|node| node.role.starts_with("svg ") && asked.fits(node)).and_then(click)
}

/// `How many large rectangles are there?`
pub(super) fn count_shape(sight: &PageSnapshot<'_>) -> Option<String> {
    let asked = Query { words: sight.between("How many ", " are there")?.split_whitespace().collect() };
    let count = sight.nodes().iter().filter(|node| node.role.starts_with("svg ") && asked.fits(node)).count();
    sight.of_role("button").find(|node| node.name == count.to_string()).and_then(click)
}

pub(super) fn identify_shape(sight: &PageSnapshot<'_>) -> Option<String> {
    let figure = sight.nodes().iter().find(|node| node.role.starts_with("svg "))?;
    let name = ["Rectangle", "Circle", "Triangle", "Letter", "Number"];
    name.iter().find(|name| fits(figure, &name.to_lowercase())).and_then(|name| sight.click_named(name))
}
