//! Which answers a browser lays down as files, which it tells over another connection than this one, and later.
//!
//! Source: Fetch Metadata Request Headers for what asked; for types, what Chromium shows by itself. Requests without such
//! headers, which browsers leave out where an origin is not trustworthy, count as none.

use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderMap, Response, StatusCode};

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A page, or what a frame shows.
    Page,
    /// A file: links with `download`.
    File,
    /// Something that a page uses.
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

    /// Whether the browser makes a file of an answer.
    pub(super) fn ends_in_file<B>(self, answer: &Response<B>) -> bool {
        let has_content = !matches!(answer.status(), StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT);
        let is_there = answer.status().is_success() && has_content;
        is_there
            && match self {
                Self::File => true,
                Self::Page => is_attached(answer.headers()) || !is_shown(answer.headers()),
                Self::Part => false,
            }
    }
}

fn is_attached(headers: &HeaderMap) -> bool {
    let disposition =
        headers.get(CONTENT_DISPOSITION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    disposition.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("attachment")
}

/// Whether a page can be of this type, or could be: content without a type is guessed.
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

    fn check(mode: &str, dest: &str, status: u16, headers: &[(&str, &str)], expected: bool) {
        let mut request = HeaderMap::new();
        request.insert("sec-fetch-mode", mode.parse().unwrap());
        request.insert("sec-fetch-dest", dest.parse().unwrap());
        let mut answer = Response::builder().status(status);
        for (name, value) in headers {
            answer = answer.header(*name, *value);
        }
        let ends_in_file = Purpose::of(&request).ends_in_file(&answer.body(()).unwrap());
        assert_eq!(ends_in_file, expected, "{mode} {dest} {status} {headers:?}");
    }

    #[test]
    fn files_are_what_is_asked_for_as_one_or_cannot_be_shown() {
        let html = ("content-type", "text/html; charset=utf-8");
        check("navigate", "empty", 200, &[html], true);
        check("navigate", "empty", 404, &[html], false);
        check("navigate", "document", 200, &[html], false);
        check(
            "navigate",
            "document",
            200,
            &[html, ("content-disposition", "Attachment; filename=a.html")],
            true,
        );
        check("navigate", "document", 200, &[html, ("content-disposition", "inline")], false);
        check("navigate", "iframe", 200, &[("content-type", "application/zip")], true);
        check("navigate", "document", 200, &[("content-type", "TEXT/CSV")], true);
        check("navigate", "document", 204, &[("content-type", "text/csv")], false);
        check("navigate", "document", 302, &[("content-type", "text/csv")], false);
        check("navigate", "document", 200, &[("content-type", "application/ld+json")], false);
        check("navigate", "document", 200, &[], false);
        check("cors", "empty", 200, &[("content-type", "text/csv")], false);
    }

    #[test]
    fn requests_that_do_not_say_what_they_are_for_are_none_for_files() {
        assert_eq!(Purpose::of(&HeaderMap::new()), Purpose::Part);
    }
}
