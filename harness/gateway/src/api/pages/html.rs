//! Pages as text.
//!
//! I1. What was not written in this program is escaped: only literals go in as they are. I2. Control characters are shown as pictures of
//! themselves, so that they are seen and do nothing.

use std::fmt::{self, Display, Write};

pub(super) use crate::beginning::beginning;

/// A page, or a part of one.
#[derive(Debug, Clone, Default)]
pub(super) struct Html(String);

impl Html {
    /// Our own words and tags.
    pub(super) fn raw(&mut self, literal: &'static str) -> &mut Self {
        self.0.push_str(literal);
        self
    }

    /// Anything else, as it may stand between tags and in attributes between double quotes.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Self {
        // A string takes everything.
        let _ = write!(Escaped(&mut self.0), "{text}");
        self
    }

    /// Another part.
    pub(super) fn part(&mut self, part: &Self) -> &mut Self {
        self.0.push_str(&part.0);
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' | '\t' => self.0.push(character),
                '\0'..='\x1f' => {
                    // The pictures stand in the order of the characters.
                    self.0.extend(char::from_u32(0x2400 + u32::from(character)));
                }
                '\x7f' => self.0.push('\u{2421}'),
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

/// A moment: `2026-11-22 08:00:00`, in UTC.
pub(super) fn moment(ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms);
    at.map_or_else(|_| ms.to_string(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// `1 turn`, `2 turns`.
pub(super) fn counted(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(Html::default().text(text).clone().into_string(), expected);
    }

    #[test]
    fn i1_nothing_of_others_is_markup() {
        check("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;");
        check("\" onload='x' &amp;", "&quot; onload=&#39;x&#39; &amp;amp;");
        check("é 👎", "é 👎");
    }

    #[test]
    fn i2_control_characters_are_seen() {
        check("a\0\x1b[31m\r\n\t\x7f", "a\u{2400}\u{241b}[31m\u{240d}\n\t\u{2421}");
    }

    #[test]
    fn moments_are_in_utc() {
        assert_eq!(moment(1_795_680_000_123), "2026-11-26 08:00:00");
        assert_eq!(moment(i64::MAX), i64::MAX.to_string());
    }
}
