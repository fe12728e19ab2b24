//! Texts cut to a length that is read at a glance.

/// The first `most` characters of a text, and whether there are more.
pub(crate) fn beginning(text: &str, most: usize) -> (&str, bool) {
    match text.char_indices().nth(most) {
        Some((end, _)) => (&text[..end], true),
        None => (text, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(beginning("éé👎", 2), ("éé", true));
        assert_eq!(beginning("éé👎", 3), ("éé👎", false));
        assert_eq!(beginning("", 0), ("", false));
    }
}
