//! "Did you mean": the nearest of the names that would have been right.

/// The nearest candidate, if one is near enough to be meant.
pub(crate) fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong_lower = wrong.to_lowercase().replace('-', "_");
    let limit = (wrong.chars().count() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let lower = candidate.to_lowercase().replace('-', "_");
        let mut distance = edit_distance(&wrong_lower, &lower);
        // A part of the name is a common slip: `timeout` for `timeout_secs`.
        let is_part = lower.split('_').any(|part| part == wrong_lower) || lower.starts_with(&wrong_lower);
        if is_part && wrong_lower.len() >= 3 {
            distance = distance.min(limit);
        }
        if distance <= limit && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// ``did you mean `x`? `` with a trailing space, or nothing.
pub(crate) fn did_you_mean<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wrong, candidates).map(|name| format!("did you mean `{name}`? ")).unwrap_or_default()
}

/// Names in backticks, joined by commas.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replace.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wrong: &str, expected: Option<&str>) {
        let names = ["max_turns", "instruction", "step_timeout_secs", "id", "env", "group_size"];
        assert_eq!(nearest(wrong, names), expected, "{wrong}");
    }

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        check("max_turn", Some("max_turns"));
        check("max-turns", Some("max_turns"));
        check("instrucion", Some("instruction"));
        check("evn", Some("env"));
        check("timeout", Some("step_timeout_secs"));
        check("GroupSize", Some("group_size"));
        check("banana", None);
        check("", None);
    }
}
