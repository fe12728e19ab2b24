//! Files that a container build does not see: `.dockerignore` and similar files.
//!
//! The module is in `core` because importers and image builders must agree on the rules and do not depend on each other.
//!
//! I1. The last pattern that matches a path, or a folder above it, decides. I2. One file of patterns counts: the
//! Dockerfile's own file takes precedence over that of the folder.
//!
//! Source: `moby/patternmatcher` with its `ignorefile`, and BuildKit for the Dockerfile's own file, which the
//! classic builder does not know. Deviations: none known.

use std::iter::Peekable;
use std::str::Chars;

/// The patterns of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ignored(Vec<Pattern>);

/// The pattern file of a Dockerfile, if there is one: `Dockerfile.dockerignore` beside it, otherwise
/// `.dockerignore` of the build's folder. Paths are relative to that folder.
#[must_use]
pub fn ignore_file(dockerfile: &str, is_there: impl Fn(&str) -> bool) -> Option<String> {
    [format!("{dockerfile}.dockerignore"), Ignored::COMMON_FILE.to_owned()]
        .into_iter()
        .find(|path| is_there(path))
}

impl Ignored {
    /// The patterns for every Dockerfile of a folder that has none of its own.
    pub const COMMON_FILE: &str = ".dockerignore";

    /// Parses a pattern file.
    ///
    /// # Errors
    /// The number of the invalid line, from 1.
    pub fn parse(text: &str) -> Result<Self, usize> {
        let mut patterns = Vec::new();
        for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            // Only at the very beginning of a line, as in the source.
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            patterns.push(Pattern::parse(line.trim()).ok_or(at + 1)?);
        }
        Ok(Self(patterns))
    }

    /// Whether a path, relative and with slashes, is excluded.
    #[must_use]
    pub fn covers(&self, path: &str) -> bool {
        let path: Vec<char> = path.chars().collect();
        self.0.iter().rev().find(|pattern| pattern.matches(&path)).is_some_and(|pattern| !pattern.takes_back)
    }

    /// Whether a later pattern may include something below an excluded folder.
    #[must_use]
    pub fn takes_back(&self) -> bool {
        self.0.iter().any(|pattern| pattern.takes_back)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    takes_back: bool,
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Character(char),
    /// `?`
    NoSlash,
    /// `*`
    NoSlashes,
    /// `**` at the end.
    Everything,
    /// `**` before something: nothing, or whole folders.
    Folders,
    /// `[a-z]`, `[^a-z]`
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Pattern {
    fn parse(line: &str) -> Option<Self> {
        let (takes_back, text) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest.trim()));
        if text.is_empty() {
            return None;
        }
        Some(Self { takes_back, pieces: pieces(&cleaned(text))? })
    }

    /// Whether it matches the path or a folder above it.
    fn matches(&self, path: &[char]) -> bool {
        let len = path.len();
        // Lengths of the path that the pieces so far can match.
        let mut reached = vec![false; len + 1];
        reached[0] = true;
        for piece in &self.pieces {
            let mut next = vec![false; len + 1];
            let mut running = false;
            for at in 0..=len {
                match piece {
                    Piece::NoSlashes | Piece::Everything => {
                        running |= reached[at];
                        next[at] = running;
                        running &= *piece == Piece::Everything || path.get(at) != Some(&'/');
                    }
                    Piece::Folders => {
                        next[at] = reached[at] || (running && path[at - 1] == '/');
                        running |= reached[at];
                    }
                    one => {
                        if at < len && reached[at] && one.takes(path[at]) {
                            next[at + 1] = true;
                        }
                    }
                }
            }
            reached = next;
        }
        reached[len] || (0..len).any(|at| reached[at] && path[at] == '/')
    }
}

impl Piece {
    /// Whether it matches this character.
    fn takes(&self, character: char) -> bool {
        match self {
            Self::Character(own) => *own == character,
            Self::NoSlash => character != '/',
            Self::Set { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)) != *negated
            }
            Self::NoSlashes | Self::Everything | Self::Folders => false,
        }
    }
}

/// Without doubled slashes, `.` and `..`, and without a slash at either end.
fn cleaned(text: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in text.split('/') {
        match (name, names.last()) {
            ("" | ".", _) => {}
            ("..", Some(&last)) if last != ".." => drop(names.pop()),
            // Nothing is above the root.
            ("..", _) if text.starts_with('/') => {}
            _ => names.push(name),
        }
    }
    names.join("/")
}

/// `None` for an invalid pattern.
fn pieces(text: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        pieces.push(match character {
            '*' if rest.next_if_eq(&'*').is_some() => {
                rest.next_if_eq(&'/');
                if rest.peek().is_some() { Piece::Folders } else { Piece::Everything }
            }
            '*' => Piece::NoSlashes,
            '?' => Piece::NoSlash,
            '[' => set(&mut rest)?,
            '\\' => Piece::Character(rest.next()?),
            other => Piece::Character(other),
        });
    }
    Some(pieces)
}

/// The class after a `[`.
fn set(rest: &mut Peekable<Chars<'_>>) -> Option<Piece> {
    let negated = rest.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    while ranges.is_empty() || rest.next_if_eq(&']').is_none() {
        let low = bound(rest)?;
        let high = if rest.next_if_eq(&'-').is_some() { bound(rest)? } else { low };
        if high < low {
            return None;
        }
        ranges.push((low, high));
    }
    Some(Piece::Set { negated, ranges })
}

fn bound(rest: &mut Peekable<Chars<'_>>) -> Option<char> {
    match rest.next()? {
        '\\' => rest.next(),
        '-' | ']' => None,
        other => Some(other),
    }
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
        check("./a//b/../c", "a/c", true);
        check("../a", "a", false);
        check("/../a", "a", true);
        check(".", "a", false);
        check("*.o", "x.o", true);
        check("*.o", "d/x.o", false);
        check("*/*.o", "d/x.o", true);
        check("*/temp?", "x/temp1/y", true);
        check("*/temp?", "x/temp12", false);
        check("?.c", "ab.c", false);
        check("?", "/", false);
        check("a.b", "axb", false);
        check("a\\*", "a*", true);
        check("a\\*", "ab", false);
    }

    #[test]
    fn two_stars_cross_folders() {
        check("**/*.o", "x.o", true);
        check("**/*.o", "d/e/x.o", true);
        check("a**/b", "a/b", true);
        check("a/**/b", "a/b", true);
        check("a/**/b", "a/x/y/b/below", true);
        check("a/**/b", "a/xb", false);
        check("d/**", "d/e/x", true);
        check("d/**", "e/d/x", false);
        check("**", "a/b", true);
    }

    #[test]
    fn sets_stand_for_one_character() {
        check("[ab].c", "b.c", true);
        check("[^ab].c", "b.c", false);
        check("[^ab].c", "c.c", true);
        check("v[0-9x]", "v7", true);
        check("v[0-9x]", "vx", true);
        check("v[0-9x]", "vy", false);
        check("[\\]]", "]", true);
    }

    /// I1.
    #[test]
    fn the_last_line_that_matches_decides() {
        check("*\n!keep", "keep", false);
        check("*\n!keep", "keep/a/b", false);
        check("*\n!keep", "other", true);
        check("!keep\n*", "keep", true);
        check("*\n!keep\nkeep/no", "keep/no/x", true);
        assert!(Ignored::parse("*\n!keep").unwrap().takes_back());
        assert!(!Ignored::parse("*").unwrap().takes_back());
    }

    #[test]
    fn invalid_pattern_error_names_its_line() {
        for wrong in ["[", "[a", "[]", "[b-a]", "[-a]", "a\\", "!"] {
            assert_eq!(Ignored::parse(&format!("# one\n\n{wrong}\n")), Err(3), "{wrong}");
        }
    }

    /// I2.
    #[test]
    fn the_dockerfiles_own_file_comes_first() {
        let check = |dockerfile: &str, there: &[&str], expected: Option<&str>| {
            let found = ignore_file(dockerfile, |path| there.contains(&path));
            assert_eq!(found.as_deref(), expected, "{dockerfile} {there:?}");
        };
        check("Dockerfile", &[".dockerignore", "Dockerfile.dockerignore"], Some("Dockerfile.dockerignore"));
        check("Dockerfile", &[".dockerignore", "Other.dockerignore"], Some(".dockerignore"));
        check("d/Other", &[".dockerignore", "d/Other.dockerignore"], Some("d/Other.dockerignore"));
        check("Dockerfile", &[], None);
    }
}
