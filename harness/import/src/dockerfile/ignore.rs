//! `.dockerignore`: which files of a build's folder a Dockerfile does not see.
//!
//! Source: the reference of `.dockerignore`: patterns match from the folder's root, a later one wins, `!` takes
//! back, and what is below a folder that matches is left out with it.

/// The patterns of one file.
#[derive(Debug, Clone, Default)]
pub(crate) struct IgnoreRules {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    takes_back: bool,
    parts: Vec<String>,
}

impl IgnoreRules {
    /// Reads them.
    ///
    /// # Errors
    /// The line, from 1, of a pattern with a set of characters, which is not supported.
    pub(crate) fn parse(text: &str) -> Result<Self, usize> {
        let mut rules = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (takes_back, pattern) =
                line.strip_prefix('!').map_or((false, line), |rest| (true, rest.trim()));
            if pattern.contains(['[', '\\']) {
                return Err(at + 1);
            }
            let parts: Vec<String> = pattern
                .split('/')
                .filter(|part| !part.is_empty() && *part != ".")
                .map(str::to_owned)
                .collect();
            if !parts.is_empty() {
                rules.push(Rule { takes_back, parts });
            }
        }
        Ok(Self { rules })
    }

    /// Whether a file is left out.
    pub(crate) fn leaves_out(&self, path: &str) -> bool {
        let names: Vec<&str> = path.split('/').collect();
        let mut out = false;
        for rule in &self.rules {
            let applies = (1..=names.len()).any(|len| matches(&rule.parts, &names[..len]));
            if applies {
                out = !rule.takes_back;
            }
        }
        out
    }
}

fn matches(parts: &[String], names: &[&str]) -> bool {
    match (parts.split_first(), names.split_first()) {
        (None, None) => true,
        (Some((part, rest)), _) if part == "**" => {
            (0..=names.len()).any(|skipped| matches(rest, &names[skipped..]))
        }
        (Some((part, rest)), Some((name, below))) => name_matches(part, name) && matches(rest, below),
        _ => false,
    }
}

/// `*` and `?` within one name.
pub(super) fn name_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // Where the last `*` stood, and how much of the name it has taken.
    let (mut at, mut taken, mut star) = (0, 0, None);
    while taken < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, taken));
                at += 1;
            }
            Some(c) if *c == '?' || *c == name[taken] => {
                at += 1;
                taken += 1;
            }
            _ => match star {
                Some((star_at, from)) => {
                    star = Some((star_at, from + 1));
                    at = star_at + 1;
                    taken = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &str, path: &str, expected: bool) {
        assert_eq!(IgnoreRules::parse(rules).unwrap().leaves_out(path), expected, "{rules:?} {path}");
    }

    #[test]
    fn patterns_are_those_of_docker() {
        check("*.md", "a.md", true);
        check("*.md", "sub/a.md", false);
        check("**/*.md", "sub/deep/a.md", true);
        check("**/*.md", "a.md", true);
        check("sub", "sub/deep/a.md", true);
        check("/sub/", "sub/a", true);
        check("*\n!keep", "keep", false);
        check("*\n!keep", "other", true);
        check("!keep\n*", "keep", true);
        check("# a\n\n*/temp?", "x/temp1", true);
        check("*/temp?", "x/temp12", false);
        assert_eq!(IgnoreRules::parse("a\n[b]").unwrap_err(), 2);
    }
}
