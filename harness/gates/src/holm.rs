//! Holm's adjustment of p-values, for several metrics at one gate.
//!
//! I1. An adjusted p-value is in [p, 1]. I2. Adjusting keeps the order. I3. It does not depend on the order in which they are given.
//!
//! Shapes: as many as given, in the same places. Pure; nothing to cancel.
//! Source: Holm (1979). Deviations: none.

/// The adjusted p-values: rejecting those up to alpha keeps the probability of any false rejection at alpha.
#[must_use]
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut ascending: Vec<usize> = (0..p_values.len()).collect();
    ascending.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut largest = 0.0f64;
    for (rank, place) in ascending.into_iter().enumerate() {
        let left = (p_values.len() - rank) as f64;
        largest = largest.max(left * p_values[place]).min(1.0);
        adjusted[place] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn adjusted_by_hand() {
        let check = |given: &[f64], expected: &[f64]| {
            let found = holm(given);
            let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15);
            assert!(close && found.len() == expected.len(), "{found:?} is not {expected:?}");
        };
        check(&[], &[]);
        check(&[0.03], &[0.03]);
        check(&[0.04, 0.01, 0.03], &[0.06, 0.03, 0.06]);
        check(&[0.6, 0.7], &[1.0, 1.0]);
    }

    proptest! {
        /// I1, I2, I3.
        #[test]
        fn order_is_kept(given in prop::collection::vec(0.0f64..=1.0, 1..12)) {
            let adjusted = holm(&given);
            for (a, p) in adjusted.iter().zip(&given) {
                prop_assert!(p <= a && *a <= 1.0);
                for (b, q) in adjusted.iter().zip(&given) {
                    prop_assert!(p >= q || a <= b);
                }
            }
            let backwards: Vec<f64> = given.iter().rev().copied().collect();
            let mut again = holm(&backwards);
            again.reverse();
            prop_assert_eq!(adjusted, again);
        }
    }
}
