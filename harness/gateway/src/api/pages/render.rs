//! HTML templates of the dashboard.
//!
//! I1. Values are escaped; only template text goes in unchanged. I2. Control characters are shown as their Unicode pictures, so that they are
//! visible and have no effect. I3. A template that uses an unknown variable fails.
//!
//! A page is a template with up to three macros: `head`, `live` and `foot`, see [`super::document::Page`].

use std::fmt::{self, Write};
use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, Output, State, UndefinedBehavior, context};
use serde::Serialize;

use crate::cut::prefix;

/// Characters of a text that are shown unfolded.
const MAX_UNFOLDED: usize = 1_200;
/// Characters of a text that are shown at all.
const MAX_SHOWN: usize = 40_000;
/// Characters of a folded text in its summary.
const SUMMARY: usize = 200;

/// Templates by name, each behind the shared macros.
macro_rules! templates {
    ($($name:literal: $($file:literal),+;)+) => {
        [$(($name, concat!(include_str!("templates/macros.html"), $(include_str!(concat!("templates/", $file))),+))),+]
    };
}

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let sources = templates! {
        "layout": "layout.html";
        "chats": "chats.html";
        "session": "session.html";
        "turn": "turn_sections.html", "turn.html";
        "versions": "version_sections.html", "versions.html";
        "login": "login.html";
        "deleted": "deleted.html";
        "error": "error.html";
    };
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // The usual delimiters are valid.
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_formatter(write_escaped);
    environment.remove_filter("safe");
    // Of the layout alone, for parts that other templates rendered.
    environment.add_filter("html", |part: String| Value::from_safe_string(part));
    environment.add_filter("moment", moment);
    environment.add_filter("count", count);
    environment.add_filter("fixed", |number: f64, decimals: usize| format!("{number:.decimals$}"));
    environment.add_filter("cut", |text: &str, limit: usize| prefix(text, limit).0.to_owned());
    environment.add_filter("excerpt", excerpt);
    environment.add_filter("folded", folded);
    for (name, source) in sources {
        // A template that does not parse is missing, which every test of its page notices.
        if let Err(error) = environment.add_template(name, source) {
            tracing::error!("template {name}: {error}");
        }
    }
    environment
});

/// The macros `names` of a template, rendered; empty where the template has no such macro.
///
/// # Errors
/// A template that uses an unknown variable.
pub(super) fn render<const N: usize>(
    template: &str,
    names: [&str; N],
    context: &impl Serialize,
) -> Result<[String; N], Error> {
    let mut captured = TEMPLATES.get_template(template)?.render_captured(Serde(context))?;
    let mut parts = [const { String::new() }; N];
    for (part, name) in parts.iter_mut().zip(names) {
        *part = captured.with_state_mut(|state| match state.lookup(name) {
            Some(_) => state.call_macro(name, &[]),
            None => Ok(String::new()),
        })?;
    }
    Ok(parts)
}

/// I1, I2. Numbers are written as Rust writes them, and `none` as nothing.
fn write_escaped(output: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    if value.is_safe() {
        return Ok(output.write_str(value.as_str().unwrap_or_default())?);
    }
    match value.kind() {
        ValueKind::None => Ok(()),
        ValueKind::Number if !value.is_integer() => Ok(write!(output, "{}", f64::try_from(value.clone())?)?),
        _ => Ok(write!(Escaped(output), "{value}")?),
    }
}

struct Escaped<'a, W>(&'a mut W);

impl<W: Write> Write for Escaped<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '&' => self.0.write_str("&amp;")?,
                '<' => self.0.write_str("&lt;")?,
                '>' => self.0.write_str("&gt;")?,
                '"' => self.0.write_str("&quot;")?,
                '\'' => self.0.write_str("&#39;")?,
                '\n' | '\t' => self.0.write_char(character)?,
                '\0'..='\x1f' => {
                    // The pictures are in the order of the characters.
                    let picture = char::from_u32(0x2400 + u32::from(character));
                    self.0.write_char(picture.unwrap_or(char::REPLACEMENT_CHARACTER))?;
                }
                '\x7f' => self.0.write_char('\u{2421}')?,
                other => self.0.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// A time in UTC, from Unix milliseconds: `2026-11-22 08:00:00`.
fn moment(ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms);
    at.map_or_else(|_| ms.to_string(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// A count with its noun: `1 turn`, `2 turns`.
pub(super) fn count(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// The first characters of a text, with an ellipsis if it is longer.
fn excerpt(text: &str, limit: usize) -> String {
    let (text, is_cut) = prefix(text, limit);
    format!("{text}{}", if is_cut { "\u{2026}" } else { "" })
}

/// The parts of a text that is folded because it is long; `none` if it is not.
fn folded(text: &str) -> Value {
    if !prefix(text, MAX_UNFOLDED).1 {
        return Value::from(());
    }
    let (shown, _) = prefix(text, MAX_SHOWN);
    let (summary, _) = prefix(text, SUMMARY);
    context! { summary, bytes => text.len(), shown, hidden => text.len() - shown.len() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_template_parses() {
        for name in ["layout", "chats", "session", "turn", "versions", "login", "deleted", "error"] {
            assert!(TEMPLATES.get_template(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn i1_values_are_escaped() {
        let check = |text: &str, expected: &str| {
            let mut written = String::new();
            write!(Escaped(&mut written), "{text}").unwrap();
            assert_eq!(written, expected);
            let [page] = render("error", ["head"], &json!({"message": text})).unwrap();
            assert!(page.contains(&format!("<h1>{expected}</h1>")), "{page}");
        };
        check("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;");
        check("\" onload='x' &amp;", "&quot; onload=&#39;x&#39; &amp;amp;");
        check("é 👎", "é 👎");
        // I2.
        check("a\0\x1b[31m\r\n\t\x7f", "a\u{2400}\u{241b}[31m\u{240d}\n\t\u{2421}");
    }

    #[test]
    fn i3_unknown_variables_fail() {
        assert!(render("error", ["head"], &json!({})).is_err());
    }

    #[test]
    fn long_texts_are_folded_and_cut() {
        assert!(folded("short").is_none());
        let text = "x".repeat(MAX_SHOWN + 7);
        let folded = folded(&text);
        let field = |name: &str| folded.get_attr(name).unwrap();
        assert_eq!((field("hidden"), field("bytes")), (Value::from(7), Value::from(MAX_SHOWN + 7)));
        assert_eq!(field("summary").as_str().unwrap().len(), SUMMARY);
    }

    #[test]
    fn moments_are_in_utc() {
        assert_eq!(moment(1_795_680_000_123), "2026-11-26 08:00:00");
        assert_eq!(moment(i64::MAX), i64::MAX.to_string());
    }
}
