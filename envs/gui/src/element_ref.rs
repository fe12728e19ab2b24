//! References to elements in actions: a number, or a role and name as shown in observations.
//!
//! N1. The output of [`ElementRef`]'s `Display` parses to the same value, whatever follows it.
//! N2. The first character decides the form: a number starts with a digit or a bracket, a role with a letter, a name
//! with a quotation mark.

use std::fmt;

use serde::{Deserialize, Deserializer};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ElementRef {
    /// `3` or `[3]`.
    Number(u32),
    /// `button "Send"`, `"Send"`, `button "Delete" #2`.
    Words {
        /// The role before the name, if given.
        role: Option<String>,
        name: String,
        /// Which of several matches, from 1, in document order.
        place: Option<u32>,
    },
}

impl ElementRef {
    /// Parses the reference at the start of a text; returns the rest without leading white space.
    ///
    /// A `#2` after a name always selects one of several matches: a text that starts like that needs one before it.
    ///
    /// # Errors
    /// The expected form, as a phrase that follows "takes".
    pub(crate) fn read(text: &str) -> Result<(Self, &str), String> {
        const WANTED: &str = "the number of an element, or its role and name in quotation marks";
        if text.starts_with(|c: char| c.is_ascii_digit() || c == '[') {
            let (word, rest) = split_word(text);
            let number = word.trim_matches(['[', ']']).parse().map_err(|_| WANTED.to_owned())?;
            return Ok((Self::Number(number), rest));
        }
        let (role, quoted) = text.split_once('"').ok_or(WANTED)?;
        let role = role.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == ' ' || c == '-';
        let is_role = role.starts_with(|c: char| c.is_ascii_alphabetic()) && role.chars().all(is_part);
        if !is_role && !role.is_empty() {
            return Err(WANTED.to_owned());
        }
        let (name, rest) = unquoted(quoted)?;
        if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
            return Err("a space behind the quotation mark that ends a name".to_owned());
        }
        let (_, rest) = split_word(rest);
        let (place, rest) = match placed(rest)? {
            Some((place, rest)) => (Some(place), rest),
            None => (None, rest),
        };
        Ok((Self::Words { role: Some(role).filter(|role| !role.is_empty()), name, place }, rest))
    }
}

/// The first word, and the rest after one white space.
pub(crate) fn split_word(text: &str) -> (&str, &str) {
    text.split_once(char::is_whitespace).unwrap_or((text, ""))
}

/// A quoted name as in observations, and the rest.
fn unquoted(text: &str) -> Result<(String, &str), String> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Ok((name, &text[at + 1..])),
            '\\' => match characters.next() {
                Some((_, escaped @ ('"' | '\\'))) => name.push(escaped),
                Some((_, 'n')) => name.push('\n'),
                _ => return Err(r#"names in which a quotation mark is \" and a backslash is \\"#.to_owned()),
            },
            c => name.push(c),
        }
    }
    Err("names that end with a quotation mark".to_owned())
}

/// `#2` at the start of a text, and the rest.
fn placed(text: &str) -> Result<Option<(u32, &str)>, String> {
    let (word, rest) = split_word(text);
    let Some(digits) = word.strip_prefix('#').filter(|digits| !digits.is_empty()) else { return Ok(None) };
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Ok(None);
    }
    match digits.parse() {
        Ok(place @ 1..) => Ok(Some((place, rest))),
        _ => Err("a place from `#1` on behind a name".to_owned()),
    }
}

impl fmt::Display for ElementRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Words { role, name, place } => {
                if let Some(role) = role {
                    write!(f, "{role} ")?;
                }
                write!(f, "{}", quoted(name))?;
                place.map_or(Ok(()), |place| write!(f, " #{place}"))
            }
        }
    }
}

/// A name, quoted as in observations.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n"))
}

/// A number, or a text with a role and a name.
impl<'de> Deserialize<'de> for ElementRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "an element is a number, or a text such as `button \"Send\"`")]
        enum Written {
            Number(u32),
            Words(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self::Number(number)),
            Written::Words(text) => match Self::read(text.trim()) {
                Ok((naming @ Self::Words { .. }, "")) => Ok(naming),
                Err(wanted) => Err(serde::de::Error::custom(format!("`{text}`: an element takes {wanted}"))),
                Ok(_) => Err(serde::de::Error::custom(format!(
                    "`{text}` names no element; `button \"Send\"` does, and so does a number"
                ))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(role: &str, name: &str, place: Option<u32>) -> ElementRef {
        ElementRef::Words {
            role: Some(role.to_owned()).filter(|role| !role.is_empty()),
            name: name.to_owned(),
            place,
        }
    }

    #[test]
    fn elements_are_named() {
        let check = |text: &str, naming: ElementRef, rest: &str| {
            assert_eq!(ElementRef::read(text), Ok((naming, rest)), "{text}");
        };
        check("3", ElementRef::Number(3), "");
        check("[3] 4", ElementRef::Number(3), "4");
        check("\"Send\"", words("", "Send", None), "");
        check("button \"Send\"", words("button", "Send", None), "");
        check("button\"Send\" x  y", words("button", "Send", None), "x  y");
        check("svg  circle \"A\"", words("svg circle", "A", None), "");
        check("heading 1 \"A\"", words("heading 1", "A", None), "");
        check(r#"button "Say \"hi\" \\ \n" x"#, words("button", "Say \"hi\" \\ \n", None), "x");
        check("button \"\" x", words("button", "", None), "x");
        check("button \"Delete\" #2", words("button", "Delete", Some(2)), "");
        check("textbox \"Tag\" #2 fan", words("textbox", "Tag", Some(2)), "fan");
        check("textbox \"Tag\" #1 #2", words("textbox", "Tag", Some(1)), "#2");
        // Looks like an index but is not one.
        check("textbox \"Tag\" #fan", words("textbox", "Tag", None), "#fan");
        check("textbox \"Tag\" #2nd", words("textbox", "Tag", None), "#2nd");
        check("textbox \"Tag\"  #2", words("textbox", "Tag", None), " #2");
        check("textbox \"Tag\" #", words("textbox", "Tag", None), "#");
        check("listitem \"a\" listitem \"b\"", words("listitem", "a", None), "listitem \"b\"");
    }

    #[test]
    fn invalid_reference_shows_an_example() {
        let check = |text: &str, part: &str| {
            let why = ElementRef::read(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        };
        check("", "number of an element");
        check("Send", "number of an element");
        check("3x", "number of an element");
        check("99999999999", "number of an element");
        check("(button) \"Send\"", "number of an element");
        check("#3 \"Send\"", "number of an element");
        check("button \"Send", "end with a quotation mark");
        check(r#"button "Send\""#, "end with a quotation mark");
        check(r#"button "C:\dir""#, r"\\");
        check("button \"Send\"now", "a space");
        check("button \"Send\" #0", "from `#1`");
        check("button \"Send\" #99999999999", "from `#1`");
    }

    fn naming() -> impl Strategy<Value = ElementRef> {
        let role = proptest::option::of("[a-z][a-z0-9-]{0,6}( [a-z0-9-]{1,6}){0,2}");
        let words = (role, any::<String>(), proptest::option::of(1u32..))
            .prop_map(|(role, name, place)| ElementRef::Words { role, name, place });
        prop_oneof![any::<u32>().prop_map(ElementRef::Number), words]
    }

    proptest! {
        #[test]
        fn n1_display_parses_back(naming in naming(), rest in any::<String>()) {
            let is_placed = !matches!(naming, ElementRef::Words { place: None, .. });
            prop_assume!(is_placed || !rest.starts_with('#'));
            let text = format!("{naming} {rest}");
            prop_assert_eq!(ElementRef::read(&text), Ok((naming, rest.as_str())));
        }

        #[test]
        fn nothing_that_is_read_panics(text in any::<String>()) {
            if let Ok((naming, rest)) = ElementRef::read(&text) {
                let again = format!("{naming} {rest}");
                let read = ElementRef::read(&again);
                prop_assert_eq!(read, Ok((naming, rest)));
            }
        }
    }
}
