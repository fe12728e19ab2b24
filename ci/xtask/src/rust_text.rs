//! Splits Rust source into code and comments, so that a rule about code does not match comments.
//!
//! I1. `code` and `comments` have as many lines as the source; every character keeps its column.
//! I2. String and character literals, quotes included, are in neither.
//!
//! Not a parser: raw strings, nested block comments, lifetimes and byte literals are distinguished, macros are not
//! expanded.

/// The two halves of a Rust file.
pub(crate) struct RustText {
    code: String,
    comments: String,
}

#[derive(Clone, Copy)]
enum State {
    Code,
    LineComment,
    BlockComment { depth: usize },
    Text { end: char },
    RawText { hashes: usize },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Code,
    Comment,
    Literal,
}

impl RustText {
    pub(crate) fn new(source: &str) -> Self {
        let chars: Vec<char> = source.chars().collect();
        let mut halves = Self { code: String::new(), comments: String::new() };
        let mut state = State::Code;
        let mut at = 0;
        while at < chars.len() {
            let (half, length, next) = piece(state, &chars, at);
            for &c in chars.iter().skip(at).take(length) {
                let kept_in = |wanted: Half| if half == wanted || c == '\n' { c } else { ' ' };
                halves.code.push(kept_in(Half::Code));
                halves.comments.push(kept_in(Half::Comment));
            }
            at += length;
            state = next;
        }
        halves
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// (line number, code, comment) of each line; lines count from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str, &str)> {
        let lines = self.code.lines().zip(self.comments.lines());
        lines.enumerate().map(|(index, (code, comment))| (index + 1, code, comment))
    }
}

/// Kind and length of the piece that starts at `at`, and the state after it.
fn piece(state: State, chars: &[char], at: usize) -> (Half, usize, State) {
    let c = chars[at];
    let next = chars.get(at + 1).copied();
    match state {
        State::Code => match (c, next) {
            ('/', Some('/')) => (Half::Comment, 2, State::LineComment),
            ('/', Some('*')) => (Half::Comment, 2, State::BlockComment { depth: 1 }),
            ('"', _) => (Half::Literal, 1, State::Text { end: '"' }),
            ('r', _) if starts_literal(chars, at) => match raw_hashes(&chars[at + 1..]) {
                Some(hashes) => (Half::Literal, hashes + 2, State::RawText { hashes }),
                None => (Half::Code, 1, State::Code),
            },
            // 'x' is a character, and so is '\n'; 'x without the second quote is a lifetime.
            ('\'', Some('\\')) => (Half::Literal, 1, State::Text { end: '\'' }),
            ('\'', Some(_)) if chars.get(at + 2) == Some(&'\'') => (Half::Literal, 3, State::Code),
            _ => (Half::Code, 1, State::Code),
        },
        State::LineComment if c == '\n' => (Half::Comment, 1, State::Code),
        State::LineComment => (Half::Comment, 1, State::LineComment),
        State::BlockComment { depth } => match (c, next) {
            ('/', Some('*')) => (Half::Comment, 2, State::BlockComment { depth: depth + 1 }),
            ('*', Some('/')) if depth == 1 => (Half::Comment, 2, State::Code),
            ('*', Some('/')) => (Half::Comment, 2, State::BlockComment { depth: depth - 1 }),
            _ => (Half::Comment, 1, state),
        },
        State::Text { .. } if c == '\\' && next.is_some() => (Half::Literal, 2, state),
        State::Text { end } if c == end => (Half::Literal, 1, State::Code),
        State::RawText { hashes } if c == '"' && closes(&chars[at + 1..], hashes) => {
            (Half::Literal, hashes + 1, State::Code)
        }
        State::Text { .. } | State::RawText { .. } => (Half::Literal, 1, state),
    }
}

/// Can the `r` at `at` open a raw string, alone or after the `b` or `c` of a byte or C string?
fn starts_literal(chars: &[char], at: usize) -> bool {
    let is_word = |index: usize| chars.get(index).is_some_and(|&c| c.is_alphanumeric() || c == '_');
    match at.checked_sub(1) {
        None => true,
        Some(before) if matches!(chars[before], 'b' | 'c') => before == 0 || !is_word(before - 1),
        Some(before) => !is_word(before),
    }
}

/// The number of `#` before the opening quote, if this is a raw string and not an identifier.
fn raw_hashes(rest: &[char]) -> Option<usize> {
    let hashes = rest.iter().take_while(|&&c| c == '#').count();
    (rest.get(hashes) == Some(&'"')).then_some(hashes)
}

fn closes(rest: &[char], hashes: usize) -> bool {
    rest.len() >= hashes && rest.iter().take(hashes).all(|&c| c == '#')
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn check(source: &str, code: &str, comments: &str) {
        let text = RustText::new(source);
        let squeeze = |half: &str| half.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeeze(&text.code), code, "code of {source:?}");
        assert_eq!(squeeze(&text.comments), comments, "comments of {source:?}");
        assert_eq!(text.code.chars().count(), source.chars().count(), "I1 for {source:?}");
        assert_eq!(text.lines().count(), source.lines().count(), "I1 for {source:?}");
    }

    #[test]
    fn comments_of_every_kind_are_no_code() {
        check("a(); // b()\nc();", "a(); c();", "// b()");
        check("/* a /* b */ c */ d", "d", "/* a /* b */ c */");
        check("//! todo!\nx", "x", "//! todo!");
    }

    #[test]
    fn literals_are_neither() {
        check(r#"f("sleep(1) // x") // y"#, "f( )", "// y");
        check(r#"f("a\"b", c)"#, "f( , c)", "");
        check("f(r#\"a\"b // \"#, c)", "f( , c)", "");
        check("f(br\"a\\\", c)", "f(b , c)", "");
        check("f('\"', '\\'', b'x', c)", "f( , , b , c)", "");
    }

    #[test]
    fn lifetimes_and_raw_identifiers_are_code() {
        check("fn f<'a>(x: &'a str) { r#loop() }", "fn f<'a>(x: &'a str) { r#loop() }", "");
        check("raw_for\"x\"", "raw_for", "");
    }

    proptest! {
        /// I1 for any text: the pieces that open and close things, in any order.
        #[test]
        fn every_character_keeps_its_place(source in "([rb#'\"/*\\\\\na ]|.){0,40}") {
            let text = RustText::new(&source);
            for half in [&text.code, &text.comments] {
                prop_assert_eq!(half.chars().count(), source.chars().count());
                let kept = half.chars().zip(source.chars()).all(|(kept, c)| kept == c || (kept == ' ' && c != '\n'));
                prop_assert!(kept, "{:?} gives {:?}", source, half);
            }
            let twice = text.code.chars().zip(text.comments.chars()).any(|(a, b)| !a.is_whitespace() && !b.is_whitespace());
            prop_assert!(!twice, "{:?} is code and comment", source);
        }
    }
}
