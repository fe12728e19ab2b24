//! Encoding of bodies, tokens and log-probabilities.
//!
//! Bodies are compressed with Snappy, which takes a third of the time of zstd's fastest standard level and 1.5 times its space: compression
//! is on the path of every request. Older ledgers have zstd, recognised by its magic number.
//!
//! Ids are written as LEB128 behind a marker byte, since their upper bytes are nearly always zero: about as short as compressed, in a
//! fraction of the time. Older ledgers have zstd here, too. Log-probabilities are stored raw: compression leaves 91 % of them. Measured by
//! `examples/ledger_rate.rs`, with synthetic ids and log-probabilities.

use std::cell::RefCell;

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use crate::LedgerError;

/// Larger than any accepted body: the size in a broken file is not trusted.
const MAX_BYTES: usize = 1 << 30;

/// Magic number of zstd.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Marker of LEB128 ids. zstd starts with 0x28.
const SEVEN_BITS: u8 = 1;
/// Marker of Snappy.
const SNAPPY: u8 = 2;
/// Groups of a 32-bit id.
const MAX_GROUPS: usize = 5;

thread_local! {
    /// Its tables are reused.
    static ENCODER: RefCell<Encoder> = RefCell::new(Encoder::new());
}

/// Compresses a body or a part of one.
pub(crate) fn compress(bytes: &[u8]) -> Result<Vec<u8>, LedgerError> {
    let mut blob = vec![0; 1 + max_compress_len(bytes.len())];
    blob[0] = SNAPPY;
    let length =
        ENCODER.with_borrow_mut(|encoder| encoder.compress(bytes, &mut blob[1..])).map_err(broken)?;
    blob.truncate(1 + length);
    Ok(blob)
}

/// Decompresses a body of any version, or returns an uncompressed one: JSON starts with neither marker.
pub(crate) fn body(blob: Vec<u8>) -> Result<Vec<u8>, LedgerError> {
    match blob.split_first() {
        Some((&SNAPPY, bytes)) => {
            if decompress_len(bytes).map_err(broken)? > MAX_BYTES {
                return Err(LedgerError::Storage("the stored size of a body is too large".to_owned()));
            }
            Decoder::new().decompress_vec(bytes).map_err(broken)
        }
        _ if blob.starts_with(&ZSTD) => decompress(&blob),
        _ => Ok(blob),
    }
}

/// For older ledgers.
fn decompress(bytes: &[u8]) -> Result<Vec<u8>, LedgerError> {
    let decoder = zstd::stream::read::Decoder::new(bytes).map_err(broken)?;
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(decoder, MAX_BYTES as u64), &mut plain)
        .map_err(broken)?;
    Ok(plain)
}

/// Branch-free: the length of the next id is not predictable.
pub(crate) fn ids(ids: &[u32]) -> Vec<u8> {
    const WORD: usize = size_of::<u64>();
    let mut bytes = vec![0; 1 + MAX_GROUPS * ids.len() + WORD];
    bytes[0] = SEVEN_BITS;
    let mut at = 1;
    for &id in ids {
        let id = u64::from(id);
        // One group of 7 bits per byte, with the continuation bit set in all but the last.
        let groups =
            (0..MAX_GROUPS).fold(0, |groups, group| groups | (id >> (7 * group) & 0x7f) << (8 * group));
        let count = (64 + 6 - (id | 1).leading_zeros() as usize) / 7;
        let marks = 0x80_8080_8080 & ((1 << (8 * (count - 1))) - 1);
        bytes[at..at + WORD].copy_from_slice(&u64::to_le_bytes(groups | marks));
        at += count;
    }
    bytes.truncate(at);
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
    LedgerError::Storage("invalid token ids".to_owned())
}

pub(crate) fn logprobs(logprobs: &[f32]) -> Vec<u8> {
    logprobs.iter().flat_map(|logprob| logprob.to_le_bytes()).collect()
}

pub(crate) fn read_logprobs(blob: &[u8]) -> Vec<f32> {
    blob.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn broken(error: impl std::error::Error) -> LedgerError {
    LedgerError::Storage(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tokens: &[u32], probabilities: &[f32]) {
        assert_eq!(read_ids(&ids(tokens)), Ok(tokens.to_vec()));
        // As in older ledgers.
        let bytes: Vec<u8> = tokens.iter().flat_map(|id| id.to_le_bytes()).collect();
        assert_eq!(read_ids(&older(&bytes)), Ok(tokens.to_vec()));
        let read = read_logprobs(&logprobs(probabilities));
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&read), bits(probabilities));
    }

    fn older(bytes: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(bytes, 1).unwrap()
    }

    #[test]
    fn blobs_are_read_back_bit_for_bit() {
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
        let long = "a word, and another word, and ".repeat(100);
        for plain in [b"{}".as_slice(), b"", b" [", long.as_bytes()] {
            assert_eq!(body(plain.to_vec()).as_deref(), Ok(plain));
            assert_eq!(compress(plain).and_then(body).as_deref(), Ok(plain));
            assert_eq!(body(older(plain)).as_deref(), Ok(plain));
        }
        assert!(compress(long.as_bytes()).unwrap().len() < long.len() / 10);
        // Truncated, and with a claimed size of 4 GiB.
        for blob in [[SNAPPY, 5, 0].as_slice(), &[SNAPPY, 0xff, 0xff, 0xff, 0xff, 0x0f], &ZSTD, &[SNAPPY]] {
            assert!(body(blob.to_vec()).is_err_and(|error| error.is_storage()), "{blob:?}");
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
