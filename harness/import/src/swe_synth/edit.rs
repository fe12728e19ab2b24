//! An edit of a file as a unified diff.

use std::fmt::Write;

/// Context lines.
const CONTEXT: usize = 3;

/// The text with bytes replaced; `None` if the range is not valid.
pub(super) fn edited(text: &str, start: usize, end: usize, new: &str) -> Option<String> {
    let (before, after) = (text.get(..start)?, text.get(end..)?);
    text.get(start..end)?;
    Some(format!("{before}{new}{after}"))
}

/// The diff between two texts of a file, with one hunk; `None` for equal texts.
pub(super) fn diff(path: &str, old: &str, new: &str) -> Option<String> {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let same = |a: &[&str], b: &[&str]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let first = same(&old, &new);
    if first == old.len() && first == new.len() {
        return None;
    }
    let last = old[first..].iter().rev().zip(new[first..].iter().rev()).take_while(|(a, b)| a == b).count();
    let from = first.saturating_sub(CONTEXT);
    let (old_end, new_end) = (old.len() - last, new.len() - last);
    let after = &old[old_end..(old_end + CONTEXT).min(old.len())];
    let count = |end: usize| end - from + after.len();
    let range =
        |length: usize| if length == 0 { format!("{from},0") } else { format!("{},{length}", from + 1) };
    let mut text = format!("diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n");
    // Writing to a string does not fail.
    let _ = writeln!(text, "@@ -{} +{} @@", range(count(old_end)), range(count(new_end)));
    let parts =
        [(' ', &old[from..first]), ('-', &old[first..old_end]), ('+', &new[first..new_end]), (' ', after)];
    for (mark, lines) in parts {
        for line in lines {
            text.push(mark);
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expected: &str) {
        let found = diff("x.py", old, new).unwrap_or_default();
        let head = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n";
        assert_eq!(found.strip_prefix(head).unwrap_or_default(), expected);
    }

    #[test]
    fn diff_has_context_lines() {
        check(
            "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
            "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n",
        );
        check("1\n2\n", "1\n", "@@ -1,2 +1,1 @@\n 1\n-2\n");
        check(
            "a",
            "b",
            "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n",
        );
        check("a\n", "a\n", "");
    }

    #[test]
    fn edit_replaces_bytes() {
        assert_eq!(edited("é < b", 3, 4, "<="), Some("é <= b".to_owned()));
        assert_eq!(edited("é < b", 1, 4, "<="), None);
        assert_eq!(edited("a", 0, 9, ""), None);
    }
}
