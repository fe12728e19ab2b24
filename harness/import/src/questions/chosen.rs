//! Selects rows.

use clawrl_core::SplitMix64;

use super::options::RowChoice;

/// Called once for each row, in order.
pub(crate) struct RowSelector {
    at: usize,
    wanted: Option<Vec<bool>>,
    max: usize,
}

impl RowSelector {
    pub(crate) fn new(choice: RowChoice, total: usize) -> Self {
        match choice {
            RowChoice::All => Self { at: 0, wanted: None, max: usize::MAX },
            RowChoice::First(max) => Self { at: 0, wanted: None, max },
            RowChoice::Some { count, seed } => {
                let mut places: Vec<usize> = (0..total).collect();
                let mut stream = SplitMix64::new(seed);
                let count = count.min(total);
                let mut wanted = vec![false; total];
                for index in 0..count {
                    let other = index + stream.below((total - index) as u64) as usize;
                    places.swap(index, other);
                    wanted[places[index]] = true;
                }
                Self { at: 0, wanted: Some(wanted), max: usize::MAX }
            }
        }
    }

    pub(crate) fn takes(&mut self) -> bool {
        let at = self.at;
        self.at += 1;
        at < self.max && self.wanted.as_ref().is_none_or(|wanted| wanted[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(choice: RowChoice, expected: usize) {
        let taken = |choice| {
            let mut chosen = RowSelector::new(choice, 100);
            (0..100).filter(|_| chosen.takes()).collect::<Vec<_>>()
        };
        assert_eq!(taken(choice).len(), expected, "{choice:?}");
        assert_eq!(taken(choice), taken(choice));
    }

    #[test]
    fn rows_are_chosen() {
        check(RowChoice::All, 100);
        check(RowChoice::First(7), 7);
        check(RowChoice::First(700), 100);
        check(RowChoice::Some { count: 7, seed: 3 }, 7);
        check(RowChoice::Some { count: 700, seed: 3 }, 100);
    }
}
