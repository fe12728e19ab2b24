//! Words of an instruction: quotes, variables, JSON lists.
//!
//! Source: BuildKit's Dockerfile reference, "Environment replacement". Deviation: a variable that the Dockerfile does
//! not set is an error and not empty: it may be set in the base image, and an unpacked root file system does not hold
//! the variables of its image.

use std::collections::BTreeMap;

use super::lines::Instruction;

/// Splits at white space outside quotes, and keeps the quotes.
pub(super) fn split(text: &str, escape: char) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote: Option<char> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, c) if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            (Some('\''), c) if c == escape => word.push(c),
            (_, c) if c == escape => {
                word.push(c);
                word.extend(characters.next());
            }
            (None, '\'' | '"') => {
                quote = Some(character);
                word.push(character);
            }
            (open, c) => {
                if open == Some(c) {
                    quote = None;
                }
                word.push(c);
            }
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// The texts of a JSON list; `None` for other texts.
pub(super) fn json_list(text: &str) -> Option<Vec<String>> {
    let text = text.trim();
    text.starts_with('[').then(|| serde_json::from_str(text).ok()).flatten()
}

/// Removes the quotes of a word and replaces its variables.
///
/// # Errors
/// A message for the user.
pub(super) fn expand(
    word: &str,
    escape: char,
    variables: &BTreeMap<String, String>,
) -> Result<String, String> {
    let characters: Vec<char> = word.chars().collect();
    let mut expansion = Expansion { characters: &characters, at: 0, escape, variables };
    expansion.until(None)
}

struct Expansion<'a> {
    characters: &'a [char],
    at: usize,
    escape: char,
    variables: &'a BTreeMap<String, String>,
}

impl Expansion<'_> {
    fn next(&mut self) -> Option<char> {
        let character = self.characters.get(self.at).copied();
        self.at += 1;
        character
    }

    fn peek(&self) -> Option<char> {
        self.characters.get(self.at).copied()
    }

    /// Reads up to `end`, which is consumed, or to the end of the word.
    fn until(&mut self, end: Option<char>) -> Result<String, String> {
        let mut text = String::new();
        let mut double = false;
        while let Some(character) = self.next() {
            match character {
                c if Some(c) == end && !double => return Ok(text),
                '\'' if !double => loop {
                    match self.next() {
                        Some('\'') => break,
                        Some(c) => text.push(c),
                        None => return Err("a single quote is not closed".to_owned()),
                    }
                },
                '"' => double = !double,
                c if c == self.escape => match self.next() {
                    Some(c) if double && !matches!(c, '"' | '$') && c != self.escape => {
                        text.extend([self.escape, c])
                    }
                    Some(c) => text.push(c),
                    None => text.push(c),
                },
                '$' => text.push_str(&self.variable()?),
                c => text.push(c),
            }
        }
        match (end, double) {
            (None, false) => Ok(text),
            (Some(end), _) => Err(format!("a `{end}` is missing")),
            (None, true) => Err("a double quote is not closed".to_owned()),
        }
    }

    fn variable(&mut self) -> Result<String, String> {
        if self.peek() != Some('{') {
            let name = self.name();
            if name.is_empty() {
                return Ok("$".to_owned());
            }
            return self.value(&name);
        }
        self.at += 1;
        let name = self.name();
        let set = self.variables.get(&name).cloned();
        match (self.next(), self.peek()) {
            (Some('}'), _) => self.value(&name),
            (Some(':'), Some('-')) => {
                self.at += 1;
                let other = self.until(Some('}'))?;
                Ok(set.filter(|value| !value.is_empty()).unwrap_or(other))
            }
            (Some(':'), Some('+')) => {
                self.at += 1;
                let other = self.until(Some('}'))?;
                Ok(set.filter(|value| !value.is_empty()).map(|_| other).unwrap_or_default())
            }
            (Some('-'), _) => {
                let other = self.until(Some('}'))?;
                Ok(set.unwrap_or(other))
            }
            (Some('+'), _) => {
                let other = self.until(Some('}'))?;
                Ok(set.map(|_| other).unwrap_or_default())
            }
            _ => Err(format!("the form of `${{{name}...}}` is not supported")),
        }
    }

    fn name(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.at += 1;
        }
        self.characters[start..self.at.min(self.characters.len())].iter().collect()
    }

    fn value(&self, name: &str) -> Result<String, String> {
        self.variables.get(name).cloned().ok_or_else(|| {
            format!("`${name}` is not set here; variables that the image sets are not in its unpacked files")
        })
    }
}

/// `key=value` words, or one key and the rest of the line.
///
/// # Errors
/// A message for the user.
pub(super) fn pairs(
    rest: &str,
    escape: char,
    variables: &BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, String> {
    let words = split(rest, escape);
    let Some(first) = words.first() else { return Err("there is no variable".to_owned()) };
    if !first.contains('=') {
        let value = rest.trim_start()[first.len()..].trim();
        if value.is_empty() {
            return Err(format!("`{first}` has no value"));
        }
        return Ok(vec![(first.clone(), expand(value, escape, variables)?)]);
    }
    words
        .iter()
        .map(|word| {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("`{word}` has no value"))?;
            Ok((key.to_owned(), expand(value, escape, variables)?))
        })
        .collect()
}

/// The first image that a Dockerfile names, as written.
pub(crate) fn first_image(instructions: &[Instruction]) -> Option<&Instruction> {
    instructions.iter().find(|instruction| instruction.keyword == "FROM")
}

/// The part of an instruction that needs BuildKit: an engine builds with the classic builder through its API.
pub(crate) fn needs_buildkit(instruction: &Instruction) -> Option<String> {
    if let Some(heredoc) = instruction.heredocs.first() {
        return Some(format!("the here-document `{}`", heredoc.name));
    }
    let only_there =
        ["mount", "network", "security", "chmod", "link", "exclude", "parents", "checksum", "keep-git-dir"];
    let (name, _) = instruction.flags.iter().find(|(name, _)| only_there.contains(&name.as_str()))?;
    Some(format!("`{} --{name}`", instruction.keyword))
}

/// The sources of a COPY or ADD, as written; none for a copy between stages.
pub(crate) fn copied_sources(instruction: &Instruction, escape: char) -> Vec<String> {
    if instruction.flags.iter().any(|(name, _)| name == "from") {
        return Vec::new();
    }
    let mut words = json_list(&instruction.rest).unwrap_or_else(|| split(&instruction.rest, escape));
    words.pop();
    words.retain(|word| !word.starts_with("<<"));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, expected: Result<&str, &str>) {
        let variables =
            [("A", "x y"), ("EMPTY", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let got = expand(word, '\\', &variables.into());
        match expected {
            Ok(expected) => assert_eq!(got.as_deref(), Ok(expected), "{word}"),
            Err(part) => assert!(got.as_ref().is_err_and(|error| error.contains(part)), "{word}: {got:?}"),
        }
    }

    #[test]
    fn variables_are_replaced() {
        check("a$A-b", Ok("ax y-b"));
        check("${A}${EMPTY}", Ok("x y"));
        check("${B:-d$A}", Ok("dx y"));
        check("${EMPTY:-d}${EMPTY-e}", Ok("d"));
        check("${A:+yes}${B:+no}", Ok("yes"));
        check("'$A' \"$A\" \\$A", Ok("$A x y $A"));
        check("\"a\\\"b\\c\"", Ok("a\"b\\c"));
        check("$", Ok("$"));
        check("$B", Err("`$B` is not set here"));
        check("${A#x}", Err("is not supported"));
        check("'a", Err("not closed"));
    }

    #[test]
    fn env_pairs_have_two_forms() {
        let none = BTreeMap::new();
        let check = |rest: &str, expected: &[(&str, &str)]| {
            let expected: Vec<(String, String)> =
                expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            assert_eq!(pairs(rest, '\\', &none), Ok(expected), "{rest}");
        };
        check("A=b C='d e' F=g\\ h", &[("A", "b"), ("C", "d e"), ("F", "g h")]);
        check("A b c", &[("A", "b c")]);
        assert!(pairs("A", '\\', &none).is_err());
    }

    #[test]
    fn only_json_is_a_list() {
        assert_eq!(json_list("[\"a\", \"b c\"]"), Some(vec!["a".to_owned(), "b c".to_owned()]));
        assert_eq!(json_list("a b"), None);
        assert_eq!(json_list("[a]"), None);
    }
}
