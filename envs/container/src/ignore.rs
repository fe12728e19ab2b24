//! `.dockerignore`: what of a folder a build does not see.
//!
//! Source: the engine's own rules. A line is a pattern for whole paths and for everything below what it matches: `*` and
//! `?` stay within a name, `**` does not; `!` takes back what an earlier line left out; the last line that matches
//! decides. Deviations: none known.

use regex::Regex;

/// The lines of a file.
#[derive(Debug, Default)]
pub(crate) struct Ignored(Vec<(Regex, bool)>);

impl Ignored {
    /// Reads the text.
    ///
    /// # Errors
    /// The line that is no pattern.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for line in text.trim_start_matches('\u{feff}').lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (left_out, pattern) = match line.strip_prefix('!') {
                Some(pattern) => (false, pattern.trim()),
                None => (true, line),
            };
            let pattern = pattern.trim_matches('/').trim_start_matches("./");
            if pattern.is_empty() || pattern == "." {
                continue;
            }
            rules.push((Regex::new(&expression(pattern)).map_err(|_| line.to_owned())?, left_out));
        }
        Ok(Self(rules))
    }

    /// Whether a path, relative and with slashes, is left out.
    pub(crate) fn covers(&self, path: &str) -> bool {
        self.0.iter().rev().find(|(rule, _)| rule.is_match(path)).is_some_and(|(_, left_out)| *left_out)
    }

    /// Whether something below a folder that is left out may have been taken back.
    pub(crate) fn takes_back(&self) -> bool {
        self.0.iter().any(|(_, left_out)| !left_out)
    }
}

fn expression(pattern: &str) -> String {
    let mut text = "^".to_owned();
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '*' if rest.next_if_eq(&'*').is_some() => {
                if rest.next_if_eq(&'/').is_some() {
                    text += "(?:.*/)?";
                } else {
                    text += ".*";
                }
            }
            '*' => text += "[^/]*",
            '?' => text += "[^/]",
            '[' => {
                text.push('[');
                for c in rest.by_ref() {
                    text.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            '\\' => text += &regex::escape(&rest.next().map(String::from).unwrap_or_default()),
            other => text += &regex::escape(&other.to_string()),
        }
    }
    text + "(?:/.*)?$"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, path: &str, expected: bool) {
        assert_eq!(Ignored::parse(text).unwrap().covers(path), expected, "{path} under {text:?}");
    }

    #[test]
    fn paths_are_left_out_as_an_engine_would() {
        check("", "a", false);
        check("# a\n\na", "a", true);
        check("a", "a/b/c", true);
        check("a", "b/a", false);
        check("/a/", "a", true);
        check("*.o", "x.o", true);
        check("*.o", "d/x.o", false);
        check("*/*.o", "d/x.o", true);
        check("**/*.o", "x.o", true);
        check("**/*.o", "d/e/x.o", true);
        check("d/**", "d/e/x", true);
        check("?.c", "ab.c", false);
        check("[ab].c", "b.c", true);
        check("*\n!keep", "keep", false);
        check("*\n!keep\nkeep/no", "keep/no/x", true);
        check("a.b", "axb", false);
        assert!(Ignored::parse("[b-a]").is_err());
    }
}
