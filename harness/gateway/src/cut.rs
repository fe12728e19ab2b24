//! Texts cut to a readable length.

/// The first `limit` characters of a text, and whether there are more.
pub(crate) fn prefix(text: &str, limit: usize) -> (&str, bool) {
    match text.char_indices().nth(limit) {
        Some((end, _)) => (&text[..end], true),
        None => (text, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_cuts_between_characters() {
        assert_eq!(prefix("éé👎", 2), ("éé", true));
        assert_eq!(prefix("éé👎", 3), ("éé👎", false));
        assert_eq!(prefix("", 0), ("", false));
    }
}
