//! Patterns of entries that a copy leaves out.

use serde::{Deserialize, Serialize};

/// Patterns: `*` stands for any characters of one name, `?` for one. A pattern without `/` is matched against every
/// name, one with `/` against the path relative to the copied folder. Excluding a folder excludes its content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exclusions(Vec<Vec<u8>>);

impl Exclusions {
    /// From patterns.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        Self(patterns.into_iter().map(|pattern| pattern.trim_matches('/').as_bytes().to_vec()).collect())
    }

    /// Whether the entry at a path, relative to the copied folder, is excluded.
    pub(super) fn cover(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        self.0.iter().any(|pattern| {
            let held_against = if pattern.contains(&b'/') { path } else { name };
            matches(pattern, held_against)
        })
    }
}

/// Takes time of at most pattern times text: a star that fails is retried one byte further on, and only the last star
/// is ever retried.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                last_star = Some((at, read));
                at += 1;
            }
            Some(b'?') if text[read] != b'/' => (at, read) = (at + 1, read + 1),
            Some(&byte) if byte == text[read] => (at, read) = (at + 1, read + 1),
            _ => match last_star {
                Some((star, from)) if text[from] != b'/' => {
                    last_star = Some((star, from + 1));
                    (at, read) = (star + 1, from + 1);
                }
                _ => return false,
            },
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, path: &str, expected: bool) {
        assert_eq!(Exclusions::new([pattern]).cover(path.as_bytes()), expected, "{pattern} {path}");
    }

    #[test]
    fn names_and_paths() {
        check("*.o", "main.o", true);
        check("*.o", "deep/er/main.o", true);
        check("*.o", "main.c", false);
        check("a?c", "abc", true);
        check("a?c", "ac", false);
        check("build", "x/build", true);
        check("build", "builds", false);
        check("build/", "build", true);
        check("x/*", "x/y", true);
        check("x/*", "z/x/y", false);
        check("x/*", "x/y/z", false);
        check("x/*/z", "x/y/z", true);
        check("*", "anything", true);
        check("**", "anything", true);
        check("a*b*c", "aXbXbXc", true);
        check("a*b*c", "aXbXb", false);
        check("?", "\u{e9}", false);
    }
}
