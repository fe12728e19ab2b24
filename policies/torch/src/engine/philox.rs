//! Philox4x32-10: random numbers as a function of a key and a counter, without state.
//!
//! Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011), and Random123.

/// Ten rounds over a counter.
fn philox4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let product_0 = u64::from(counter[0]) * 0xD251_1F53;
        let product_1 = u64::from(counter[2]) * 0xCD9E_8D57;
        counter = [
            (product_1 >> 32) as u32 ^ counter[1] ^ key[0],
            product_1 as u32,
            (product_0 >> 32) as u32 ^ counter[3] ^ key[1],
            product_0 as u32,
        ];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

/// A uniform number in [0, 1) with 53 bits, as a function of a seed and a position.
pub(super) fn uniform(seed: u64, position: u64) -> f64 {
    let counter = [position as u32, (position >> 32) as u32, 0, 0];
    let words = philox4x32_10(counter, [seed as u32, (seed >> 32) as u32]);
    let bits = (u64::from(words[1]) << 32 | u64::from(words[0])) >> 11;
    bits as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(counter: [u32; 4], key: [u32; 2], expected: [u32; 4]) {
        assert_eq!(philox4x32_10(counter, key), expected);
    }

    /// The known answers of Random123, `kat_vectors`.
    #[test]
    fn known_answers() {
        check([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        check([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        check(
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        );
    }

    #[test]
    fn uniforms_are_uniform() {
        let mut tenths = [0u32; 10];
        for position in 0..20_000 {
            tenths[(uniform(7, position) * 10.0) as usize] += 1;
        }
        let chi_square: f64 = tenths.iter().map(|&n| (f64::from(n) - 2_000.0).powi(2) / 2_000.0).sum();
        // Nine degrees of freedom: the probability of a value above 27.9 is 0.001.
        assert!(chi_square < 27.9, "{tenths:?}");
    }
}
