//! Attempts as blocks of text inside a page: JSON, gzipped, in base64.
//!
//! I1. A block consists of letters, digits, `+`, `/` and `=` only, so that no text of an attempt can end the element
//! that contains it. I2. Blocks stay within their budget: terminal recordings and thumbnails are dropped first, then
//! attempts, both from the end. I3. The choice does not depend on timing, as long as blocks arrive in order.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use crate::error::ReportError;

/// Above this, a tenth of the bytes costs twice the time.
const LEVEL: u32 = 3;

/// The value as a block.
pub(crate) fn compressed(what: &str, value: &impl Serialize) -> Result<String, ReportError> {
    let failed = |source| ReportError::NotJson { what: what.to_owned(), source };
    let json = serde_json::to_vec(value).map_err(failed)?;
    let mut encoder = GzEncoder::new(Vec::with_capacity(json.len() / 4), Compression::new(LEVEL));
    // Writing to memory does not fail.
    let bytes = encoder.write_all(&json).and_then(|()| encoder.finish());
    bytes.map(|bytes| STANDARD.encode(bytes)).map_err(|error| failed(serde_json::Error::io(error)))
}

/// The blocks of a page.
#[derive(Debug)]
pub(crate) struct Blocks {
    budget: u64,
    details: Vec<String>,
    extras: Vec<Extras>,
    /// For every attempt, in order, whether it has a recording.
    has_cast: Vec<bool>,
    details_bytes: u64,
    extras_bytes: u64,
    wanted: SpaceLeft,
}

/// Recordings and pictures of a chunk's attempts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    /// Terminal recordings.
    pub(crate) casts: Option<String>,
    /// Small pictures.
    pub(crate) films: Option<String>,
}

impl Extras {
    pub(crate) fn len(&self) -> usize {
        [&self.casts, &self.films].into_iter().flatten().map(String::len).sum()
    }
}

/// Whether more blocks may still fit. Threads that make blocks may check it; the value may be outdated.
#[derive(Debug, Clone)]
pub(crate) struct SpaceLeft {
    details: Arc<AtomicBool>,
    extras: Arc<AtomicBool>,
}

impl SpaceLeft {
    pub(crate) fn details(&self) -> bool {
        self.details.load(Ordering::Relaxed)
    }

    pub(crate) fn extras(&self) -> bool {
        self.extras.load(Ordering::Relaxed)
    }
}

impl Blocks {
    pub(crate) fn new(budget: u64) -> Self {
        let yes = || Arc::new(AtomicBool::new(true));
        let wanted = SpaceLeft { details: yes(), extras: yes() };
        Self {
            budget,
            details: Vec::new(),
            extras: Vec::new(),
            has_cast: Vec::new(),
            details_bytes: 0,
            extras_bytes: 0,
            wanted,
        }
    }

    pub(crate) fn wanted(&self) -> SpaceLeft {
        self.wanted.clone()
    }

    /// Takes the next chunk's.
    pub(crate) fn push(&mut self, details: Option<String>, extras: Extras, has_cast: Vec<bool>) {
        self.has_cast.extend(has_cast);
        let size = |block: &Option<String>| block.as_ref().map_or(0, |text| text.len() as u64);
        if self.wanted.details() {
            let bytes = self.details_bytes + size(&details);
            match details {
                // Recordings and pictures make room below.
                Some(details) if bytes <= self.budget => {
                    self.details_bytes = bytes;
                    self.details.push(details);
                }
                _ => self.stop_details(),
            }
        }
        if self.wanted.extras() && self.wanted.details() {
            self.extras_bytes += extras.len() as u64;
            self.extras.push(extras);
        }
        while self.details_bytes + self.extras_bytes > self.budget {
            self.wanted.extras.store(false, Ordering::Relaxed);
            match self.extras.pop() {
                Some(extras) => self.extras_bytes -= extras.len() as u64,
                None => break,
            }
        }
    }

    fn stop_details(&mut self) {
        self.wanted.details.store(false, Ordering::Relaxed);
        self.wanted.extras.store(false, Ordering::Relaxed);
    }

    /// Blocks of the chunks that were kept.
    pub(crate) fn details(&self) -> &[String] {
        &self.details
    }

    /// Recordings and pictures of the chunks that were kept with them.
    pub(crate) fn extras(&self) -> &[Extras] {
        &self.extras
    }

    /// Whether the attempt at this position has a recording.
    pub(crate) fn has_cast(&self, place: usize) -> bool {
        self.has_cast.get(place).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    fn block(length: usize) -> Option<String> {
        Some("x".repeat(length))
    }

    #[test]
    fn i1_attempt_text_cannot_end_its_element() {
        let hostile = ["</script><script>alert(1)</script>", "\u{2028}<!--", "\0\x1b]0;x\x07"];
        let text = compressed("hostile", &hostile).unwrap();
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)), "{text}");
        let mut json = String::new();
        GzDecoder::new(&*STANDARD.decode(text).unwrap()).read_to_string(&mut json).unwrap();
        assert_eq!(serde_json::from_str::<Vec<String>>(&json).unwrap(), hostile);
    }

    fn check(budget: u64, chunks: &[(usize, usize)], kept: (usize, usize)) {
        let mut blocks = Blocks::new(budget);
        for &(details, casts) in chunks {
            // Recordings and pictures count alike.
            let extras = Extras { casts: block(casts / 2), films: block(casts - casts / 2) };
            blocks.push(block(details), extras, vec![true]);
        }
        assert_eq!((blocks.details().len(), blocks.extras().len()), kept, "{budget} {chunks:?}");
        let size = |text: &String| text.len() as u64;
        let bytes: u64 = blocks.details().iter().map(size).sum::<u64>()
            + blocks.extras().iter().map(|extras| extras.len() as u64).sum::<u64>();
        assert!(bytes <= budget);
    }

    #[test]
    fn i2_recordings_go_first_then_attempts() {
        check(100, &[(10, 20), (10, 20), (10, 20)], (3, 3));
        check(89, &[(10, 20), (10, 20), (10, 20)], (3, 2));
        check(50, &[(10, 20), (10, 20), (10, 20)], (3, 1));
        check(30, &[(10, 20), (10, 20), (10, 20)], (3, 0));
        check(29, &[(10, 20), (10, 20), (10, 20)], (2, 0));
        check(0, &[(10, 20), (10, 20)], (0, 0));
        check(35, &[(10, 5), (40, 5), (10, 5)], (1, 1));
    }
}
