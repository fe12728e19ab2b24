//! JUnit XML for CI systems: runs here, gates in another crate.
//!
//! J1. The output is well-formed XML that matches Jenkins' schema, whatever names and texts are. J2. The counts of a suite are those of
//! its cases.
//!
//! Units: seconds of wall clock. Pure; nothing to cancel.
//! Source: the schema `junit-10.xsd` of Jenkins' xUnit plugin; `ci/golden/junit.py` shows snapshots to junitparser.

use std::fmt::Write;

use clawrl_core::printable;

/// A suite of cases.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JunitSuite {
    /// Name of the suite.
    pub name: String,
    /// Duration of the suite.
    pub seconds: f64,
    /// Facts: names and values.
    pub properties: Vec<(String, String)>,
    /// Cases in order.
    pub cases: Vec<JunitCase>,
}

/// A case.
#[derive(Debug, Clone, PartialEq)]
pub struct JunitCase {
    /// Class of the case, with dots between its parts.
    pub class: String,
    /// Name of the case.
    pub name: String,
    /// Duration of the case.
    pub seconds: f64,
    /// Result of the case.
    pub end: JunitEnd,
    /// The reason or the observation.
    pub said: String,
}

/// Result of a case, with a word for the kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JunitEnd {
    /// The case passed.
    Passed,
    /// The case failed.
    Failure(&'static str),
    /// The result is unknown.
    Error(&'static str),
    /// The case was skipped.
    Skipped,
}

/// The file.
#[must_use]
pub fn junit_xml(name: &str, suites: &[JunitSuite]) -> String {
    let sum = |of: fn(&JunitSuite) -> usize| suites.iter().map(of).sum::<usize>();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3}\">\n",
        xml(name),
        sum(|suite| suite.cases.len()),
        sum(JunitSuite::failures),
        sum(JunitSuite::errors),
        suites.iter().map(|suite| suite.seconds).sum::<f64>(),
    );
    suites.iter().for_each(|suite| suite.write(&mut text));
    text.push_str("</testsuites>\n");
    text
}

impl JunitSuite {
    fn failures(&self) -> usize {
        self.cases.iter().filter(|case| matches!(case.end, JunitEnd::Failure(_))).count()
    }

    fn errors(&self) -> usize {
        self.cases.iter().filter(|case| matches!(case.end, JunitEnd::Error(_))).count()
    }

    fn write(&self, text: &mut String) {
        // Writing to a string does not fail, here and below.
        let _ = write!(
            text,
            " <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\">\n  <properties>\n",
            xml(&self.name),
            self.cases.len(),
            self.failures(),
            self.errors(),
            self.cases.iter().filter(|case| case.end == JunitEnd::Skipped).count(),
            self.seconds,
        );
        for (name, value) in &self.properties {
            let _ = writeln!(text, "   <property name=\"{}\" value=\"{}\"/>", xml(name), xml(value));
        }
        text.push_str("  </properties>\n");
        self.cases.iter().for_each(|case| case.write(text));
        text.push_str(" </testsuite>\n");
    }
}

impl JunitCase {
    fn write(&self, text: &mut String) {
        let (class, name, said) = (xml(&self.class), xml(&self.name), xml(&self.said));
        let seconds = self.seconds;
        let _ = write!(text, "  <testcase classname=\"{class}\" name=\"{name}\" time=\"{seconds:.3}\">");
        let _ = match self.end {
            JunitEnd::Passed => write!(text, "<system-out>{said}</system-out>"),
            JunitEnd::Failure(kind) => {
                write!(text, "<failure type=\"{kind}\" message=\"{said}\">{said}</failure>")
            }
            JunitEnd::Error(kind) => write!(text, "<error type=\"{kind}\" message=\"{said}\">{said}</error>"),
            JunitEnd::Skipped => write!(text, "<skipped message=\"{said}\"/>"),
        };
        text.push_str("</testcase>\n");
    }
}

/// Text between tags and in attributes between double quotes.
fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Readers make a blank of these in attributes.
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            '\u{fffe}' | '\u{ffff}' => escaped.extend(c.escape_unicode()),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn xml_keeps_allowed_characters() {
        let check = |text: &str, expected: &str| assert_eq!(xml(text), expected);
        check("a < b && \"c\"", "a &lt; b &amp;&amp; &quot;c&quot;");
        check("]]>\n\tx", "]]&gt;&#10;&#9;x");
        check("\0\u{1b}[m\u{ffff}", r"\0\u{1b}[m\u{ffff}");
    }

    /// Text as an XML parser returns it.
    fn read_xml(escaped: &str) -> String {
        let entities =
            [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#10;", "\n"), ("&#9;", "\t"), ("&amp;", "&")];
        entities.iter().fold(escaped.to_owned(), |text, (entity, c)| text.replace(entity, c))
    }

    proptest! {
        /// J1.
        #[test]
        fn no_text_is_structure(text in "([ -~]|\\PC|\n){0,60}") {
            prop_assert!(!xml(&text).contains(['<', '>', '"', '\n', '\r']));
        }

        #[test]
        fn xml_reads_as_the_text(text in "[ -~\\n\\t\u{e9}\u{732b}]{0,60}") {
            prop_assert_eq!(read_xml(&xml(&text)), text);
        }
    }
}
