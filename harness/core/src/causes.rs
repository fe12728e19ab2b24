//! Errors in words.

use std::error::Error;

/// An error with its causes, the outermost first: what libraries say of themselves is often in the last one alone.
#[must_use]
pub fn spelled_out(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Some tell their causes themselves.
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
            assert_eq!(spelled_out(&error), expected);
        };
        check("reading failed", "reading failed: the disk is on fire");
        check("reading failed: the disk is on fire", "reading failed: the disk is on fire");
    }
}
