//! Determines which answers a browser saves as files. The browser reports downloads over another connection, and later.
//!
//! Source: Fetch Metadata Request Headers for the kind of request; for types, what Chromium displays itself. Requests
//! without such headers, which browsers omit if an origin is not trustworthy, do not count.

use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderMap, Response, StatusCode};

/// Number of answers so far that a browser treats as downloads and reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FileAnswers {
    /// Files that came in place of pages.
    pub(crate) unasked: u32,
    /// Answers to requests for files, errors included: the browser reports those as failed downloads.
    pub(crate) asked: u32,
}

impl FileAnswers {
    /// Counts an answer. If a connection ends without one, the browser may repeat the request.
    pub(super) fn count<B>(&mut self, purpose: Purpose, answer: &Response<B>) {
        match purpose {
            Purpose::File if !answer.status().is_redirection() => self.asked += 1,
            Purpose::Page if is_file(answer) => self.unasked += 1,
            _ => {}
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A page, or a frame's content.
    Page,
    /// A file: links with `download`.
    File,
    /// A resource of a page.
    Part,
}

impl Purpose {
    pub(super) fn of(request: &HeaderMap) -> Self {
        let is = |name: &str, value: &str| request.get(name).is_some_and(|given| given == value);
        match (is("sec-fetch-mode", "navigate"), is("sec-fetch-dest", "empty")) {
            (true, true) => Self::File,
            (true, false) => Self::Page,
            (false, _) => Self::Part,
        }
    }
}

/// Whether the browser saves a requested page as a file.
fn is_file<B>(answer: &Response<B>) -> bool {
    let has_content = !matches!(answer.status(), StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT);
    answer.status().is_success()
        && has_content
        && (is_attached(answer.headers()) || !is_shown(answer.headers()))
}

fn is_attached(headers: &HeaderMap) -> bool {
    let disposition =
        headers.get(CONTENT_DISPOSITION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    disposition.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("attachment")
}

/// Whether the browser displays this type, or might: content without a type is guessed.
fn is_shown(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return true };
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.split_once('/') {
        Some(("image" | "audio" | "video" | "multipart", _)) => true,
        Some(("text", kind)) => {
            !["csv", "tab-separated-values", "calendar", "vcard", "x-vcard", "rtf"].contains(&kind)
        }
        Some(("application", kind)) => {
            ["json", "xml", "javascript", "ecmascript", "pdf"].contains(&kind)
                || kind.ends_with("+xml")
                || kind.ends_with("+json")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mode: &str, dest: &str, status: u16, headers: &[(&str, &str)], expected: (u32, u32)) {
        let mut request = HeaderMap::new();
        request.insert("sec-fetch-mode", mode.parse().unwrap());
        request.insert("sec-fetch-dest", dest.parse().unwrap());
        let mut answer = Response::builder().status(status);
        for (name, value) in headers {
            answer = answer.header(*name, *value);
        }
        let mut answers = FileAnswers::default();
        answers.count(Purpose::of(&request), &answer.body(()).unwrap());
        assert_eq!((answers.asked, answers.unasked), expected, "{mode} {dest} {status} {headers:?}");
    }

    const ASKED: (u32, u32) = (1, 0);
    const UNASKED: (u32, u32) = (0, 1);
    const NONE: (u32, u32) = (0, 0);

    #[test]
    fn downloads_and_undisplayable_types_are_files() {
        let html = ("content-type", "text/html; charset=utf-8");
        check("navigate", "empty", 200, &[html], ASKED);
        check("navigate", "empty", 404, &[html], ASKED);
        check("navigate", "empty", 302, &[html], NONE);
        check("navigate", "document", 200, &[html], NONE);
        check(
            "navigate",
            "document",
            200,
            &[html, ("content-disposition", "Attachment; filename=a.html")],
            UNASKED,
        );
        check("navigate", "document", 200, &[html, ("content-disposition", "inline")], NONE);
        check("navigate", "iframe", 200, &[("content-type", "application/zip")], UNASKED);
        check("navigate", "document", 200, &[("content-type", "TEXT/CSV")], UNASKED);
        check("navigate", "document", 404, &[("content-type", "text/csv")], NONE);
        check("navigate", "document", 204, &[("content-type", "text/csv")], NONE);
        check("navigate", "document", 302, &[("content-type", "text/csv")], NONE);
        check("navigate", "document", 200, &[("content-type", "application/ld+json")], NONE);
        check("navigate", "document", 200, &[], NONE);
        check("cors", "empty", 200, &[("content-type", "text/csv")], NONE);
    }

    #[test]
    fn requests_without_metadata_are_not_files() {
        assert_eq!(Purpose::of(&HeaderMap::new()), Purpose::Part);
    }
}
