//! Bodies of answers.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use bytes::Bytes;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::Frame;

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Bytes of a file held in memory at once.
pub(super) const PIECE: u64 = 64 << 10;

pub(crate) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

pub(super) fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// A part of a file, read while it is sent. A file that ends early is an error.
pub(super) fn part(file: File, start: u64, length: u64) -> Body {
    let pieces = stream::try_unfold((file, start, length), |(file, start, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let length = left.min(PIECE);
        let read = move || read_at(&file, start, length).map(|piece| (piece, file));
        let (piece, file) = tokio::task::spawn_blocking(read).await.map_err(io::Error::other)??;
        Ok(Some((Frame::data(piece), (file, start + length, left - length))))
    });
    StreamBody::new(pieces).boxed_unsync()
}

/// Reads a piece of a file. Blocks.
pub(super) fn read_at(file: &File, start: u64, length: u64) -> io::Result<Bytes> {
    let mut piece = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut piece, start)?;
    Ok(piece.into())
}

/// A page of one line, for errors.
pub(crate) fn page(status: StatusCode, text: &str) -> Response<Body> {
    let mut answer = Response::new(full(format!("{text}\n").into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
