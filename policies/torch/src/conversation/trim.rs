//! Detects and applies a chat template's stripping of message content.
//!
//! A template that writes `{{ content | trim }}` is followed by stripping the content before it is encoded. Which kind
//! of blanks a template takes is read off a probe: a content surrounded by line ends and spaces.
//!
//! Pure; nothing to cancel.

/// Line ends outside, so that the two kinds of stripping differ; the same on both sides.
const BLANKS: &str = "\n \n";

/// Stripping on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Side {
    #[default]
    Nothing,
    LineEnds,
    Blanks,
}

/// Stripping on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ContentTrim {
    start: Side,
    end: Side,
}

impl ContentTrim {
    /// The content as the template leaves it.
    pub(crate) fn apply(self, content: &str) -> &str {
        let content = match self.start {
            Side::Nothing => content,
            Side::LineEnds => content.trim_start_matches('\n'),
            Side::Blanks => content.trim_start(),
        };
        match self.end {
            Side::Nothing => content,
            Side::LineEnds => content.trim_end_matches('\n'),
            Side::Blanks => content.trim_end(),
        }
    }
}

/// A content whose remaining blanks show how it was stripped.
pub(crate) fn probe_text(stand_in: &str) -> String {
    format!("{BLANKS}{stand_in}{BLANKS}")
}

/// Text before and after a content.
pub(crate) type Surroundings<'a> = (&'a str, &'a str);

/// Compares the surroundings of a content without blanks and one with blanks. `None` if the template did anything other
/// than stripping.
pub(crate) fn trim_done(plain: Surroundings<'_>, probed: Surroundings<'_>) -> Option<ContentTrim> {
    let left_before = probed.0.strip_prefix(plain.0)?;
    let left_after = probed.1.strip_suffix(plain.1)?;
    let side = |left: &str, without_line_ends: &str| match left {
        BLANKS => Some(Side::Nothing),
        "" => Some(Side::Blanks),
        _ if left == without_line_ends => Some(Side::LineEnds),
        _ => None,
    };
    Some(ContentTrim { start: side(left_before, " \n")?, end: side(left_after, "\n ")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(probed: Surroundings<'_>, expected: Option<&str>) {
        let got = trim_done(("<", ">"), probed);
        assert_eq!(got.map(|trim| trim.apply("\n\t a \n").to_owned()).as_deref(), expected, "{probed:?}");
    }

    #[test]
    fn stripping_is_read_off_a_probe() {
        check(("<\n \n", "\n \n>"), Some("\n\t a \n"));
        check(("<", ">"), Some("a"));
        check(("< \n", "\n >"), Some("\t a "));
        check(("<\n \n", ">"), Some("\n\t a"));
        check(("< ", ">"), None);
        check(("[", ">"), None);
    }
}
