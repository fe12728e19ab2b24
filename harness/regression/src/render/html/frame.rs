//! Common parts of the pages of gates and comparisons.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clawrl_core::printable;
use clawrl_record::{PAGE_STYLE, escape_html};
use clawrl_report::STATS_STYLE;
use sha2::{Digest, Sha256};

use crate::assessment::Outcome;

const STYLE: &str = include_str!("style.css");

/// A page around its content.
pub(crate) struct Frame {
    page: String,
}

impl Frame {
    /// The head, with a title that is text.
    pub(crate) fn new(title: &str) -> Self {
        Self::of_class(title, "")
    }

    /// A page with room for two columns of text.
    pub(crate) fn broad(title: &str) -> Self {
        Self::of_class(title, " class=\"broad\"")
    }

    fn of_class(title: &str, class: &str) -> Self {
        let style = format!("{PAGE_STYLE}\n{STATS_STYLE}\n{STYLE}");
        let hash = STANDARD.encode(Sha256::digest(style.as_bytes()));
        Self {
            page: format!(
                "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
                 <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{hash}'; \
                 base-uri 'none'; form-action 'none'\">\
                 <meta name=\"referrer\" content=\"no-referrer\"><meta name=\"viewport\" content=\"width=device-width\">\
                 <title>{}</title>\n<style>{style}</style></head><body><main{class}>\n",
                text(title)
            ),
        }
    }

    /// Adds HTML.
    pub(crate) fn push(&mut self, html: &str) {
        self.page.push_str(html);
    }

    /// Appends formatted HTML.
    pub(crate) fn add(&mut self, html: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.page.write_fmt(html);
    }

    /// The whole document.
    pub(crate) fn finish(mut self) -> String {
        self.page.push_str("</main></body></html>\n");
        self.page
    }
}

/// Foreign text between tags and in attributes: never markup, and without invisible or direction-changing characters.
pub(crate) fn text(text: &str) -> String {
    escape_html(&printable(text))
}

/// An outcome as a coloured word.
pub(crate) fn word(outcome: Outcome) -> String {
    let class = match outcome {
        Outcome::Pass => "passed",
        Outcome::Inconclusive => "fault",
        Outcome::Fail => "failed",
    };
    format!("<b class=\"{class}\">{}</b>", outcome.name())
}
