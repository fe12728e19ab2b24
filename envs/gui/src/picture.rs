//! Pictures of a tab's window, as PNG.
//!
//! I1. A missing picture is not a fault: the reason is reported, after [`LIMIT`] at the latest.
//! I2. The result is a PNG of at most [`MAX_PIXELS`] and [`MAX_BLOB_BYTES`] bytes, whatever the browser answered.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawrl_core::MAX_BLOB_BYTES;
use serde_json::Value;

use crate::bidi::BidiError;

pub(crate) const MEDIA_TYPE: &str = "image/png";

/// A page that has not drawn itself by then is busy.
const LIMIT: Duration = Duration::from_secs(5);

/// Larger windows have no pictures: the worst one would not fit into a message of the browser.
pub(crate) const MAX_PIXELS: u64 = 6_000_000;

/// Why there is no picture, for the agent and for the record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PictureError {
    #[error("a dialog is open")]
    Dialog,
    #[error("the page did not draw itself in time")]
    Late,
    #[error("the window is too large for one")]
    TooLarge,
    #[error("the browser refused: {0}")]
    Refused(String),
}

/// Waits for the browser's answer to `browsingContext.captureScreenshot`, for a limited time.
pub(crate) async fn taken(
    (width, height): (u16, u16),
    answer: impl Future<Output = Result<Value, BidiError>>,
) -> Result<Vec<u8>, PictureError> {
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(PictureError::TooLarge);
    }
    let answer = match tokio::time::timeout(LIMIT, answer).await {
        Ok(Ok(answer)) => answer,
        Err(_) | Ok(Err(BidiError::Late { .. })) => return Err(PictureError::Late),
        Ok(Err(BidiError::Lost)) => return Err(PictureError::Refused(BidiError::Lost.to_string())),
        Ok(Err(BidiError::Refused { error, message })) => {
            let is_dialog = error == "unexpected alert open";
            let first = message.lines().next().unwrap_or_default().to_owned();
            return Err(if is_dialog { PictureError::Dialog } else { PictureError::Refused(first) });
        }
    };
    let bytes = answer["data"].as_str().and_then(|text| STANDARD.decode(text).ok());
    let bytes = bytes.filter(|bytes| size(bytes).is_some());
    let bytes = bytes.ok_or_else(|| PictureError::Refused("its answer is not a PNG".to_owned()))?;
    let pixels = size(&bytes).map_or(0, |(width, height)| u64::from(width) * u64::from(height));
    if pixels > MAX_PIXELS || bytes.len() > MAX_BLOB_BYTES {
        return Err(PictureError::TooLarge);
    }
    Ok(bytes)
}

/// Width and height of a PNG, from its first chunk.
fn size(bytes: &[u8]) -> Option<(u32, u32)> {
    let header = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR")?;
    let number = |at: usize| Some(u32::from_be_bytes(header.get(at..at + 4)?.try_into().ok()?));
    Some((number(0)?, number(4)?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        [b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".as_slice(), &width.to_be_bytes(), &height.to_be_bytes()].concat()
    }

    async fn answered(answer: Result<Value, BidiError>) -> Result<Vec<u8>, PictureError> {
        taken((1024, 768), std::future::ready(answer)).await
    }

    #[tokio::test]
    async fn i2_only_bounded_pictures_are_returned() {
        let sent = |bytes: &[u8]| Ok(json!({ "data": STANDARD.encode(bytes) }));
        assert_eq!(answered(sent(&png(1024, 768))).await, Ok(png(1024, 768)));
        assert_eq!(answered(sent(&png(60_000, 60_000))).await, Err(PictureError::TooLarge));
        let heavy = [png(10, 10), vec![0; MAX_BLOB_BYTES]].concat();
        assert_eq!(answered(sent(&heavy)).await, Err(PictureError::TooLarge));
        for odd in [sent(b"<svg>"), sent(&png(1, 1)[..20]), Ok(json!({ "data": "?" })), Ok(json!({}))] {
            assert!(matches!(answered(odd).await, Err(PictureError::Refused(_))));
        }
        let never = std::future::pending();
        assert_eq!(taken((4_000, 4_000), never).await, Err(PictureError::TooLarge), "and nobody is asked");
    }

    #[tokio::test(start_paused = true)]
    async fn i1_missing_picture_times_out() {
        let begun = tokio::time::Instant::now();
        assert_eq!(taken((1024, 768), std::future::pending()).await, Err(PictureError::Late));
        assert_eq!(begun.elapsed(), LIMIT);
        let refused =
            |error: &str| Err(BidiError::Refused { error: error.to_owned(), message: "a\nb".to_owned() });
        assert_eq!(answered(refused("unexpected alert open")).await, Err(PictureError::Dialog));
        assert_eq!(answered(refused("unknown error")).await, Err(PictureError::Refused("a".to_owned())));
    }
}
