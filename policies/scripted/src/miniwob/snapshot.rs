//! State of a page for a solver, and the lines it can say.

use super::History;
use crate::page::{Node, Page};

/// The current page with the history of the attempt.
pub(super) struct PageSnapshot<'a> {
    pub(super) page: &'a Page,
    /// The goal, which every page of MiniWoB++ shows first.
    pub(super) goal: &'a str,
    /// The page as it was shown first.
    pub(super) first: &'a Page,
    /// Lines that were said, from the first on.
    pub(super) said: &'a [String],
    pub(super) turn: usize,
}

impl<'a> PageSnapshot<'a> {
    pub(super) fn new(page: &'a Page, first: &'a Page, history: &History<'a>) -> Self {
        let goal = page.nodes.first().filter(|node| node.is("text")).map_or("", |node| node.name.as_str());
        Self { page, goal, first, said: history.said, turn: history.turn }
    }

    /// Quoted texts of the goal.
    pub(super) fn quoted(&self) -> Vec<&'a str> {
        self.goal.split('"').skip(1).step_by(2).collect()
    }

    /// The text between two texts of the goal; without an end, all of the rest.
    pub(super) fn between(&self, before: &str, after: &str) -> Option<&'a str> {
        let (_, rest) = self.goal.split_once(before)?;
        if after.is_empty() { Some(rest) } else { rest.split_once(after).map(|(inner, _)| inner) }
    }

    /// Everything but the goal.
    pub(super) fn nodes(&self) -> &'a [Node] {
        self.page.nodes.get(1..).unwrap_or_default()
    }

    pub(super) fn of_role(&self, role: &str) -> impl Iterator<Item = &'a Node> {
        let role = role.to_owned();
        self.nodes().iter().filter(move |node| node.is(&role))
    }

    /// The first one with this name that can be acted on.
    pub(super) fn named(&self, name: &str) -> Option<&'a Node> {
        self.nodes().iter().find(|node| node.number.is_some() && node.name == name)
    }

    /// Clicks the one with this name.
    pub(super) fn click_named(&self, name: &str) -> Option<String> {
        self.named(name).and_then(click)
    }

    /// Clicks the button that submits a form.
    pub(super) fn send(&self) -> Option<String> {
        let words = ["submit", "search", "login", "ok", "order!", "go!"];
        let fits = |node: &&Node| words.contains(&node.name.to_lowercase().as_str());
        self.nodes().iter().rev().filter(|node| node.number.is_some()).find(fits).and_then(click)
    }

    /// Whether this line was said already.
    pub(super) fn has_said(&self, line: &str) -> bool {
        self.said.iter().any(|one| one == line)
    }

    /// The line, unless it has been said.
    pub(super) fn once(&self, line: Option<String>) -> Option<String> {
        line.filter(|line| !self.has_said(line))
    }
}

pub(super) fn click(node: &Node) -> Option<String> {
    node.number.map(|number| format!("click {number}"))
}

/// Types into a field with another content. Of a password only the length is known.
pub(super) fn fill(node: &Node, text: &str) -> Option<String> {
    let held = node.value.as_deref().unwrap_or_default();
    let same = if node.has("password") { held.chars().count() == text.chars().count() } else { held == text };
    if same { None } else { node.number.map(|number| format!("type {number} {text}")) }
}

/// Clicks where a box is not as it has to be.
pub(super) fn tick(node: &Node, wanted: bool) -> Option<String> {
    if node.has("checked") == wanted { None } else { click(node) }
}

/// `3rd` is the third, counted from 0.
pub(super) fn place_of(word: &str) -> Option<usize> {
    let digits: String = word.chars().take_while(char::is_ascii_digit).collect();
    let ends = ["st", "nd", "rd", "th"].contains(&&word[digits.len()..]);
    digits.parse::<usize>().ok().filter(|_| ends)?.checked_sub(1)
}

/// The first ordinal number of a text, counted from 0.
pub(super) fn first_place(text: &str) -> Option<usize> {
    text.split_whitespace().find_map(place_of)
}

/// The whole numbers of a text.
pub(super) fn numbers(text: &str) -> Vec<i64> {
    let mut found = Vec::new();
    let mut digits = String::new();
    for character in text.chars().chain([' ']) {
        if character.is_ascii_digit() || (character == '-' && digits.is_empty()) {
            digits.push(character);
        } else if !digits.is_empty() {
            found.extend(digits.parse::<i64>());
            digits.clear();
            if character == '-' {
                digits.push(character);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_place(word: &str, expected: Option<usize>) {
        assert_eq!(place_of(word), expected, "{word}");
    }

    #[test]
    fn ordinal_numbers_are_counted_from_nought() {
        check_place("1st", Some(0));
        check_place("23rd", Some(22));
        check_place("3", None);
        check_place("0th", None);
        check_place("st", None);
    }

    fn check_numbers(text: &str, expected: &[i64]) {
        assert_eq!(numbers(text), expected, "{text}");
    }

    #[test]
    fn whole_numbers_are_found() {
        check_numbers("[10,-18,5]", &[10, -18, 5]);
        check_numbers("11h 21m", &[11, 21]);
        check_numbers("3-4 and - then 5", &[3, -4, 5]);
        check_numbers("none", &[]);
    }
}
