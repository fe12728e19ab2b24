//! Which turns of a long attempt the policy still sees.
//!
//! I1. Whole turns only, in order. I2. The last turn is always kept. I3. While everything fits, everything is
//! kept; otherwise the kept turns fit the budget, unless the last alone does not. I4. The head is the
//! longest prefix within 30 % of the budget, the tail the longest suffix within the other 70 %: once a turn
//! is in the head it stays there.
//!
//! Units: characters. Pure; nothing to cancel.

use std::ops::Range;

/// Share of the head, in hundredths.
const HEAD_PERCENT: usize = 30;

/// The turns that stay: those before `left_out` and those after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptTurns {
    /// The turns that are left out; empty when all stay.
    pub(crate) left_out: Range<usize>,
}

/// Chooses by the sizes of the turns.
pub(crate) fn keep_within(sizes: &[usize], budget: usize) -> KeptTurns {
    let all = sizes.iter().sum::<usize>();
    let Some(last) = sizes.len().checked_sub(1).filter(|_| all > budget) else {
        return KeptTurns { left_out: sizes.len()..sizes.len() };
    };
    let head_budget = budget * HEAD_PERCENT / 100;
    let head = fitting(sizes[..last].iter(), head_budget);
    let tail = fitting(sizes.iter().rev(), budget - head_budget).max(1);
    KeptTurns { left_out: head..sizes.len() - tail }
}

/// Number of leading sizes that fit into a budget.
fn fitting<'a>(sizes: impl Iterator<Item = &'a usize>, budget: usize) -> usize {
    let mut used = 0usize;
    sizes
        .take_while(|&&size| {
            used += size;
            used <= budget
        })
        .count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(sizes: &[usize], budget: usize, left_out: Range<usize>) {
        assert_eq!(keep_within(sizes, budget).left_out, left_out, "{sizes:?} within {budget}");
    }

    #[test]
    fn head_and_tail() {
        check(&[], 10, 0..0);
        check(&[5, 5], 10, 2..2);
        check(&[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], 10, 3..5);
        check(&[4, 4, 4], 10, 0..2);
        check(&[3, 9, 3, 4], 10, 1..2);
        check(&[1, 50], 10, 1..1);
        check(&[50], 10, 0..0);
        check(&[2, 8, 50], 10, 1..2);
    }

    proptest! {
        #[test]
        fn keeps_within_the_budget(
            sizes in proptest::collection::vec(0usize..40, 0..60),
            more in 0usize..40,
            budget in 0usize..400,
        ) {
            let KeptTurns { left_out } = keep_within(&sizes, budget);
            prop_assert!(left_out.start <= left_out.end && left_out.end <= sizes.len());
            prop_assert!(sizes.is_empty() || left_out.is_empty() || left_out.end < sizes.len(), "I2");
            let kept: usize = sizes[..left_out.start].iter().chain(&sizes[left_out.end..]).sum();
            let last_alone = sizes.last().copied().unwrap_or(0) > budget * 7 / 10;
            prop_assert!(kept <= budget || last_alone, "I3");
            if sizes.iter().sum::<usize>() <= budget {
                prop_assert!(left_out.is_empty(), "I3");
            } else {
                let mut longer = sizes.clone();
                longer.push(more);
                let later = keep_within(&longer, budget).left_out;
                prop_assert!(later.start >= left_out.start, "I4");
            }
        }
    }
}
