//! Answers that serve files.

use std::io;

use http::header::{ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};

use super::body::{Body, PIECE, empty, full, page, part, read_at};
use super::content::{Content, Opened};
use super::range::{Span, span};

#[derive(Debug, Clone)]
pub(super) struct FileRequest {
    /// Metadata only.
    pub(super) is_head: bool,
    /// The `range` header, if it applies.
    pub(super) range: Option<String>,
}

/// Serves a file, or the requested part of it.
///
/// # Errors
/// When it cannot be read or has changed.
pub(super) async fn file(
    content: Content,
    kind: &'static str,
    wanted: FileRequest,
) -> io::Result<Response<Body>> {
    let range = wanted.range.clone();
    let read = match content {
        Content::Memory(bytes) => read(Opened::Memory(bytes), range.as_deref(), wanted.is_head)?,
        content => {
            let look = move || read(content.open()?, range.as_deref(), wanted.is_head);
            tokio::task::spawn_blocking(look).await.map_err(io::Error::other)??
        }
    };
    let Read { span, length, body } = read;
    let mut answer = match span {
        Span::Beyond => page(StatusCode::RANGE_NOT_SATISFIABLE, "there is no such part"),
        Span::Whole | Span::Part { .. } => Response::new(body),
    };
    let headers = answer.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let number = |text: String| HeaderValue::try_from(text).map_err(io::Error::other);
    match span {
        Span::Beyond => {
            headers.insert(CONTENT_RANGE, number(format!("bytes */{length}"))?);
        }
        Span::Whole => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            headers.insert(CONTENT_LENGTH, length.into());
        }
        Span::Part { start, length: taken } => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            headers.insert(CONTENT_LENGTH, taken.into());
            headers.insert(CONTENT_RANGE, number(format!("bytes {start}-{}/{length}", start + taken - 1))?);
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
    }
    Ok(answer)
}

struct Read {
    span: Span,
    length: u64,
    body: Body,
}

/// Reads small content at once, and prepares the rest. Blocks on files.
fn read(opened: Opened, range: Option<&str>, is_head: bool) -> io::Result<Read> {
    let length = opened.length();
    let span = span(range, length);
    let (start, taken) = match span {
        Span::Whole => (0, length),
        Span::Part { start, length } => (start, length),
        Span::Beyond => (0, 0),
    };
    let body = match opened {
        _ if is_head || taken == 0 => empty(),
        Opened::Memory(bytes) => {
            let place = |place: u64| usize::try_from(place).map_err(io::Error::other);
            full(bytes.slice(place(start)?..place(start + taken)?))
        }
        Opened::File(file, _) if taken <= PIECE => full(read_at(&file, start, taken)?),
        Opened::File(file, _) => part(file, start, taken),
    };
    Ok(Read { span, length, body })
}
