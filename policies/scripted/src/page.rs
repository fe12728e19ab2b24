//! Parses a page from the text of a GUI observation.
//!
//! I1. Any text parses: lines without the form of a page are ignored, and nothing is guessed. I2. Only what an agent sees
//! is used here.
//!
//! Source: the format of observations, `harness/docs/environments/gui.md`.

/// A page, line by line, with the cells of a row one after another.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Page {
    pub(crate) nodes: Vec<Node>,
}

/// Something that a page shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Node {
    /// Indentation in steps of two; an entry of a list counts as one more.
    pub(crate) depth: usize,
    /// By which it can be acted on.
    pub(crate) number: Option<u32>,
    /// `text`, `button`, `textbox`, `svg circle`, ...
    pub(crate) role: String,
    /// Name of the element; for a text, the text.
    pub(crate) name: String,
    /// Words beside the name: colours, sizes, `#id`, `.class`.
    pub(crate) words: Vec<String>,
    /// Value of a field; for a list, the first selection.
    pub(crate) value: Option<String>,
    /// Options of a list.
    pub(crate) options: Vec<String>,
    /// `checked`, `focused`, ...
    pub(crate) states: Vec<String>,
    /// The middle of it, in pixels.
    pub(crate) at: Option<(i64, i64)>,
    /// Width and height.
    pub(crate) size: Option<(i64, i64)>,
}

impl Node {
    pub(crate) fn is(&self, role: &str) -> bool {
        self.role == role
    }

    pub(crate) fn has(&self, state: &str) -> bool {
        self.states.iter().any(|one| one == state)
    }

    /// Whether a word beside the name is this one.
    pub(crate) fn says(&self, word: &str) -> bool {
        self.words.iter().any(|one| one == word)
    }

    /// Whether it has a class or an id with this name.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let marked = self.words.iter().filter(|word| word.starts_with(['.', '#']));
        marked.flat_map(|word| word.split(['.', '#'])).any(|part| part == name)
    }
}

impl Page {
    pub(crate) fn read(text: &str) -> Self {
        let mut nodes = Vec::new();
        for line in text.lines() {
            let unindented = line.trim_start_matches(' ');
            let mut depth = (line.len() - unindented.len()) / 2;
            let mut rest = unindented;
            while let Some(entry) = rest.strip_prefix("- ") {
                rest = entry;
                depth += 1;
            }
            if depth == 0 && HEADINGS.iter().any(|heading| rest.starts_with(heading)) {
                continue;
            }
            match rest.strip_prefix("text: ") {
                Some(text) => nodes.push(Node {
                    depth,
                    role: "text".to_owned(),
                    name: text.to_owned(),
                    ..Node::default()
                }),
                None => nodes.extend(line_nodes(rest, depth)),
            }
        }
        Self { nodes }
    }

    /// Elements that can be acted on.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.number.is_some())
    }

    pub(crate) fn of_role(&self, role: &str) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |node| node.is(role))
    }
}

/// Lines before a page.
const HEADINGS: [&str; 6] = ["url: ", "title: ", "error: ", "tabs: ", "dialog: ", "downloaded: "];

#[derive(Debug, PartialEq)]
enum Token<'a> {
    Number(u32),
    Quoted(String),
    States(&'a str),
    Word(&'a str),
}

fn tokens(mut rest: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        let Some(first) = rest.chars().next() else { return found };
        let enclosed = match first {
            '"' => quoted(rest).map(|(text, length)| (Token::Quoted(text), length)),
            '(' => rest.find(')').map(|end| (Token::States(&rest[1..end]), end + 1)),
            '[' => {
                rest.find(']').and_then(|end| Some((Token::Number(rest.get(1..end)?.parse().ok()?), end + 1)))
            }
            _ => None,
        };
        let (token, length) = enclosed.unwrap_or_else(|| {
            let end = rest.find(' ').unwrap_or(rest.len());
            (Token::Word(rest[..end].trim_end_matches(',')), end)
        });
        found.push(token);
        rest = &rest[length..];
    }
}

/// A text in quotation marks at the beginning, and its length with them.
fn quoted(rest: &str) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((text, at + 1)),
            '\\' => match characters.next()?.1 {
                'n' => text.push('\n'),
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
    None
}

/// Part of a node that words belong to.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Head,
    Value,
    Options,
}

fn line_nodes(line: &str, depth: usize) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut part = Part::Head;
    let tokens = tokens(line);
    let in_row = tokens.iter().find_map(|token| match token {
        Token::Word(word) => Some(*word == "row"),
        _ => None,
    });
    let mut words = tokens.into_iter().peekable();
    while let Some(token) = words.next() {
        let begins = match &token {
            Token::Number(_) => true,
            Token::Word(word) => {
                nodes.is_empty()
                    || (in_row == Some(true) && part == Part::Head && matches!(*word, "cell" | "header"))
            }
            Token::Quoted(_) => nodes.last().is_some_and(|node| part == Part::Head && !node.name.is_empty()),
            Token::States(_) => false,
        };
        // `[3] row` and `[3] cell` are one node, not two.
        let continues = nodes.last().is_some_and(|node| node.number.is_some() && node.role.is_empty());
        if begins && !(continues && matches!(token, Token::Word(_))) {
            nodes.push(Node { depth: depth + usize::from(!nodes.is_empty()), ..Node::default() });
            part = Part::Head;
        }
        let Some(node) = nodes.last_mut() else { continue };
        match token {
            Token::Number(number) => node.number = Some(number),
            Token::Quoted(text) => match part {
                Part::Head => {
                    if node.role.is_empty() {
                        node.role = "text".to_owned();
                    }
                    node.name = text;
                }
                Part::Value => node.value = Some(node.value.take().unwrap_or(text)),
                Part::Options => node.options.push(text),
            },
            Token::States(states) => {
                if part != Part::Options || states != "disabled" {
                    node.states.extend(states.split(", ").map(str::to_owned));
                }
            }
            Token::Word("=") => part = Part::Value,
            Token::Word("options:") => part = Part::Options,
            Token::Word(key @ ("at" | "size")) if !node.role.is_empty() => {
                let pair = words.next_if(|next| matches!(next, Token::Word(_)));
                match (key, pair) {
                    ("at", Some(Token::Word(pair))) => node.at = pair_of(pair, ','),
                    (_, Some(Token::Word(pair))) => node.size = pair_of(pair, 'x'),
                    _ => {}
                }
            }
            Token::Word(word) => match part {
                Part::Head if node.role.is_empty() => node.role = word.to_owned(),
                Part::Head
                    if matches!(node.role.as_str(), "svg" | "draggable" | "draggable svg")
                        && node.name.is_empty()
                        && is_role(word) =>
                {
                    node.role = format!("{} {word}", node.role);
                }
                Part::Value if node.value.is_none() => node.value = Some(word.to_owned()),
                _ => node.words.push(word.to_owned()),
            },
        }
    }
    nodes
}

/// A word, and no hint.
fn is_role(word: &str) -> bool {
    word.chars().all(|character| character.is_ascii_lowercase())
}

fn pair_of(text: &str, between: char) -> Option<(i64, i64)> {
    let (left, right) = text.split_once(between)?;
    Some((left.parse().ok()?, right.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(line: &str, expected: &[Node]) {
        assert_eq!(Page::read(line).nodes, expected, "{line}");
    }

    fn node(role: &str, name: &str) -> Node {
        Node { role: role.to_owned(), name: name.to_owned(), ..Node::default() }
    }

    fn numbered(number: u32, role: &str, name: &str) -> Node {
        Node { number: Some(number), ..node(role, name) }
    }

    fn words(all: &[&str]) -> Vec<String> {
        all.iter().map(|&one| one.to_owned()).collect()
    }

    #[test]
    fn lines_are_read() {
        check("text: Click [1] \"it\".", &[node("text", "Click [1] \"it\".")]);
        check("[12] button \"Say \\\"no\\\"\"", &[numbered(12, "button", "Say \"no\"")]);
        check("heading 2 \"Primary\"", &[Node { words: words(&["2"]), ..node("heading", "Primary") }]);
        check(
            "[1] textbox #tt = \"a\\nb\" (focused, multiline)",
            &[Node {
                words: words(&["#tt"]),
                value: Some("a\nb".to_owned()),
                states: words(&["focused", "multiline"]),
                ..numbered(1, "textbox", "")
            }],
        );
        check(
            "[1] combobox \"Size\" = \"Small\" options: \"Small\", \"Large, blue\" (disabled)",
            &[Node {
                value: Some("Small".to_owned()),
                options: words(&["Small", "Large, blue"]),
                ..numbered(1, "combobox", "Size")
            }],
        );
        check("[1] slider = 40%", &[Node { value: Some("40%".to_owned()), ..numbered(1, "slider", "") }]);
    }

    #[test]
    fn places_and_shapes_are_read() {
        check(
            "  svg circle blue small at 19,-69 size 7x8",
            &[Node {
                depth: 1,
                words: words(&["blue", "small"]),
                at: Some((19, -69)),
                size: Some((7, 8)),
                ..node("svg circle", "")
            }],
        );
        check(
            "[3] svg text \"at\" red large at 1,2",
            &[Node { words: words(&["red", "large"]), at: Some((1, 2)), ..numbered(3, "svg text", "at") }],
        );
        let handle = Page::read("[2] draggable .ui-handle.ui-n at 66,82");
        assert!(handle.nodes[0].is_called("ui-n") && !handle.nodes[0].is_called("ui"), "{handle:?}");
    }

    #[test]
    fn rows_are_read_cell_by_cell() {
        check(
            "  row header \"Genre\" cell [1] textbox cell \"x\" [2] row",
            &[
                Node { depth: 1, ..node("row", "") },
                Node { depth: 2, ..node("header", "Genre") },
                Node { depth: 2, ..node("cell", "") },
                Node { depth: 2, ..numbered(1, "textbox", "") },
                Node { depth: 2, ..node("cell", "x") },
                Node { depth: 2, ..numbered(2, "row", "") },
            ],
        );
    }

    #[test]
    fn page_headers_are_skipped() {
        check("error: there is no element 9 in this page", &[]);
        check("url: http://a.localhost/\ntitle: A\ntext: url: b", &[node("text", "url: b")]);
        check("- [1] link \"1\"", &[Node { depth: 1, ..numbered(1, "link", "1") }]);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "([\\[\\]\"(),=#. \\\\a-z0-9é-]|text: |\\[1\\] |row |at |size ){0,60}") {
            let _ = Page::read(&text);
        }
    }
}
