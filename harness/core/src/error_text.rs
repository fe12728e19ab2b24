//! Errors in words.

use std::error::Error;

/// An error with its causes, outermost first. Libraries often put the useful part into the last cause.
#[must_use]
pub fn error_text(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Some errors include their causes already.
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{says}")]
    struct Outer {
        says: &'static str,
        source: io::Error,
    }

    #[test]
    fn causes_follow_once() {
        let check = |says, expected: &str| {
            let error = Outer { says, source: io::Error::other("the disk is on fire") };
            assert_eq!(error_text(&error), expected);
        };
        check("reading failed", "reading failed: the disk is on fire");
        check("reading failed: the disk is on fire", "reading failed: the disk is on fire");
    }
}
