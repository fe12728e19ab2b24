//! Bodies, tokens and log-probabilities as bytes.
//!
//! Ids are compressed: their upper bytes are nearly always nothing, and 60% is left. Log-probabilities are not: their bits are
//! noise, and 91% would be. Measured by `examples/ledger_rate.rs`, on ids and log-probabilities that it makes up.

use std::cell::RefCell;

use zstd::bulk::Compressor;

use crate::LedgerError;

/// The fastest of the usual ones: everybody waits for who compresses.
const LEVEL: i32 = 1;
/// More than any body that was ever let in: what a broken file claims to hold is not trusted.
const MAX_BYTES: usize = 1 << 30;

thread_local! {
    /// Made at the first use of a thread: to make one costs more than to compress a short body.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

pub(crate) fn compress(bytes: &[u8]) -> Result<Vec<u8>, LedgerError> {
    COMPRESSOR.with_borrow_mut(|kept| {
        let compressor = match kept {
            Some(compressor) => compressor,
            None => kept.insert(Compressor::new(LEVEL).map_err(broken)?),
        };
        compressor.compress(bytes).map_err(broken)
    })
}

pub(crate) fn decompress(bytes: &[u8]) -> Result<Vec<u8>, LedgerError> {
    let decoder = zstd::stream::read::Decoder::new(bytes).map_err(broken)?;
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(decoder, MAX_BYTES as u64), &mut plain)
        .map_err(broken)?;
    Ok(plain)
}

pub(crate) fn ids(ids: &[u32]) -> Result<Vec<u8>, LedgerError> {
    compress(&ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>())
}

pub(crate) fn read_ids(blob: &[u8]) -> Result<Vec<u32>, LedgerError> {
    let bytes = decompress(blob)?;
    Ok(bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
}

pub(crate) fn logprobs(logprobs: &[f32]) -> Vec<u8> {
    logprobs.iter().flat_map(|logprob| logprob.to_le_bytes()).collect()
}

pub(crate) fn read_logprobs(blob: &[u8]) -> Vec<f32> {
    blob.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn broken(error: std::io::Error) -> LedgerError {
    LedgerError::Storage(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tokens: &[u32], probabilities: &[f32]) {
        assert_eq!(ids(tokens).and_then(|blob| read_ids(&blob)), Ok(tokens.to_vec()));
        let read = read_logprobs(&logprobs(probabilities));
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&read), bits(probabilities));
    }

    #[test]
    fn what_is_kept_is_read_back_to_the_same_bits() {
        check(&[], &[]);
        check(&[0, 1, 151_643, u32::MAX], &[0.0, -0.0, -1.5e-7, f32::NEG_INFINITY, f32::NAN]);
    }

    #[test]
    fn broken_blobs_are_errors() {
        assert!(read_ids(b"no zstd").is_err_and(|error| error.is_storage()));
    }
}
