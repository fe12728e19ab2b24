//! Commands of tools with the arguments of a call put in.
//!
//! I1. Text of a call never becomes a placeholder: an entry is taken apart before anything is put in. I2. One entry
//! stays one entry, whatever an argument holds.
//!
//! Errors: [`PlaceholderError`], for texts that a suite would not have let through. Pure; nothing to cancel.

use serde_json::{Map, Value};
use thiserror::Error;

/// A piece of an entry of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandPiece<'a> {
    /// Literal text.
    Text(&'a str),
    /// The argument of this name.
    Argument(&'a str),
}

/// Reason for which a text is not a valid command entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PlaceholderError {
    /// An opening brace without its closing one.
    #[error("a `{{` is not closed")]
    NotClosed,
    /// A closing brace without its opening one.
    #[error("a `}}` was not opened")]
    NotOpened,
    /// Braces around nothing, or around a brace.
    #[error("`{{` and `}}` stand around no name")]
    NoName,
}

/// The pieces of an entry: `{name}` is an argument, `{{` and `}}` are braces.
///
/// # Errors
/// A brace that is neither doubled nor part of a placeholder.
pub fn command_pieces(text: &str) -> Result<Vec<CommandPiece<'_>>, PlaceholderError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, found) = rest.split_at(at);
        if !before.is_empty() {
            pieces.push(CommandPiece::Text(before));
        }
        if found.starts_with("{{") || found.starts_with("}}") {
            pieces.push(CommandPiece::Text(&found[..1]));
            rest = &found[2..];
            continue;
        }
        let inside = found.strip_prefix('{').ok_or(PlaceholderError::NotOpened)?;
        let (name, after) = inside.split_once('}').ok_or(PlaceholderError::NotClosed)?;
        if name.is_empty() || name.contains('{') {
            return Err(PlaceholderError::NoName);
        }
        pieces.push(CommandPiece::Argument(name));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(CommandPiece::Text(rest));
    }
    Ok(pieces)
}

/// Fills an entry, or standard input, with the arguments of a call: strings verbatim, other values as JSON, nothing
/// for a missing argument.
///
/// # Errors
/// As for [`command_pieces`].
pub fn fill_text(text: &str, arguments: &Map<String, Value>) -> Result<String, PlaceholderError> {
    let mut filled = String::with_capacity(text.len());
    for piece in command_pieces(text)? {
        match piece {
            CommandPiece::Text(text) => filled.push_str(text),
            CommandPiece::Argument(name) => match arguments.get(name) {
                Some(Value::String(text)) => filled.push_str(text),
                Some(other) => filled.push_str(&other.to_string()),
                None => {}
            },
        }
    }
    Ok(filled)
}

/// Program and arguments with the arguments of a call. An entry that is one placeholder and nothing else is left out
/// when the call does not have that argument.
///
/// # Errors
/// As [`command_pieces`].
pub fn fill_command(
    argv: &[String],
    arguments: &Map<String, Value>,
) -> Result<Vec<String>, PlaceholderError> {
    let mut filled = Vec::with_capacity(argv.len());
    for entry in argv {
        match command_pieces(entry)?.as_slice() {
            [CommandPiece::Argument(name)] if !arguments.contains_key(*name) => {}
            _ => filled.push(fill_text(entry, arguments)?),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(text: &str, expected: Result<&str, PlaceholderError>) {
        let arguments = json!({ "word": "a {b}", "n": 3, "list": ["x", 1] });
        let filled = fill_text(text, arguments.as_object().expect("an object"));
        assert_eq!(filled.as_deref().map_err(|error| *error), expected, "{text}");
    }

    #[test]
    fn arguments_are_put_in_and_braces_are_doubled() {
        check("plain", Ok("plain"));
        check("<{word}|{n}|{list}>", Ok("<a {b}|3|[\"x\",1]>"));
        check("{{word}} }}{{", Ok("{word} }{"));
        check("{{{n}}}", Ok("{3}"));
        check("-{missing}-", Ok("--"));
        check("", Ok(""));
        check("{word", Err(PlaceholderError::NotClosed));
        check("word}", Err(PlaceholderError::NotOpened));
        check("{}", Err(PlaceholderError::NoName));
        check("{a{n}", Err(PlaceholderError::NoName));
    }

    #[test]
    fn an_entry_of_a_missing_argument_is_left_out() {
        let argv = ["log", "{limit}", "-n{limit}", "{word}"].map(str::to_owned);
        let arguments = json!({ "word": "" });
        let filled = fill_command(&argv, arguments.as_object().expect("an object"));
        assert_eq!(filled, Ok(vec!["log".to_owned(), "-n".to_owned(), String::new()]));
    }

    proptest! {
        /// I1 and I2: every argument arrives verbatim, in its own entry.
        #[test]
        fn arguments_arrive_as_they_are(word in any::<String>()) {
            let argv = ["echo".to_owned(), "{word}".to_owned(), "<{word}>".to_owned()];
            let arguments = Map::from_iter([("word".to_owned(), Value::from(word.as_str()))]);
            let filled = fill_command(&argv, &arguments);
            prop_assert_eq!(filled, Ok(vec!["echo".to_owned(), word.clone(), format!("<{word}>")]));
        }
    }
}
