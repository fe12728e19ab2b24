//! Bodies, tokens and log-probabilities as bytes.
//!
//! Ids are written in groups of 7 bits (LEB128) behind a mark, since their upper bytes are nearly always nothing: about as short as
//! compressed, in a fraction of the time. Those of older ledgers are compressed, and told by zstd's own mark. Log-probabilities are
//! as they are: their bits are noise, and compressing leaves 91%. Measured by `examples/ledger_rate.rs`, on ids and
//! log-probabilities that it makes up.

use std::cell::RefCell;

use zstd::bulk::Compressor;

use crate::LedgerError;

/// The fastest of the usual ones: everybody waits for who compresses.
const LEVEL: i32 = 1;
/// More than any body that was ever let in: what a broken file claims to hold is not trusted.
const MAX_BYTES: usize = 1 << 30;

/// What zstd begins a frame with.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Of ids in groups of 7 bits. Compressed ones begin with 0x28.
const SEVEN_BITS: u8 = 1;

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

/// A body that may be as it is: JSON begins with no byte that zstd begins with.
pub(crate) fn body(blob: Vec<u8>) -> Result<Vec<u8>, LedgerError> {
    if blob.starts_with(&ZSTD) { decompress(&blob) } else { Ok(blob) }
}

pub(crate) fn ids(ids: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + 3 * ids.len());
    bytes.push(SEVEN_BITS);
    for id in ids {
        let mut left = *id;
        while left >= 0x80 {
            bytes.push(left as u8 | 0x80);
            left >>= 7;
        }
        bytes.push(left as u8);
    }
    bytes
}

pub(crate) fn read_ids(blob: &[u8]) -> Result<Vec<u32>, LedgerError> {
    let Some((&SEVEN_BITS, groups)) = blob.split_first() else {
        let bytes = decompress(blob)?;
        return Ok(bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect());
    };
    let mut ids = Vec::with_capacity(groups.len() / 2);
    let (mut id, mut shift) = (0u64, 0);
    for byte in groups {
        id |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            ids.push(u32::try_from(id).map_err(|_| no_ids())?);
            (id, shift) = (0, 0);
        } else if shift > 28 {
            return Err(no_ids());
        }
    }
    if shift == 0 { Ok(ids) } else { Err(no_ids()) }
}

fn no_ids() -> LedgerError {
    LedgerError::Storage("a blob of ids has no ids in it".to_owned())
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
        assert_eq!(read_ids(&ids(tokens)), Ok(tokens.to_vec()));
        // As older ledgers have them.
        let bytes: Vec<u8> = tokens.iter().flat_map(|id| id.to_le_bytes()).collect();
        assert_eq!(compress(&bytes).and_then(|blob| read_ids(&blob)), Ok(tokens.to_vec()));
        let read = read_logprobs(&logprobs(probabilities));
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&read), bits(probabilities));
    }

    #[test]
    fn what_is_kept_is_read_back_to_the_same_bits() {
        check(&[], &[]);
        check(
            &[
                0,
                1,
                127,
                128,
                16_383,
                16_384,
                151_643,
                (1 << 21) - 1,
                1 << 21,
                (1 << 28) - 1,
                1 << 28,
                u32::MAX,
            ],
            &[0.0, -0.0, -1.5e-7, f32::NEG_INFINITY, f32::NAN],
        );
    }

    #[test]
    fn bodies_are_compressed_or_not() {
        for plain in [b"{}".as_slice(), b"", b" ["] {
            assert_eq!(body(plain.to_vec()).as_deref(), Ok(plain));
            assert_eq!(compress(plain).and_then(body).as_deref(), Ok(plain));
        }
    }

    #[test]
    fn broken_blobs_are_errors() {
        let too_long = [SEVEN_BITS, 0x80, 0x80, 0x80, 0x80, 0x80, 0];
        let too_large = [SEVEN_BITS, 0xff, 0xff, 0xff, 0xff, 0x7f];
        for blob in [b"no zstd".as_slice(), &[SEVEN_BITS, 0x80], &too_long, &too_large, &[]] {
            assert!(read_ids(blob).is_err_and(|error| error.is_storage()), "{blob:?}");
        }
    }
}
