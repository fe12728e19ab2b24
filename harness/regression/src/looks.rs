//! Looks ahead of the end: how many repeats each sees, and where the run may end.
//!
//! I1. A look only ends a run where the judgement that would be made then says the same: harm and fail, futility and pass. What is not
//! decided goes on. I2. The judgement at the end has what the looks left of alpha: the level of the last boundary. I3. The same record has
//! the same looks, whoever takes them: those that end a run are those that are told of it later.
//!
//! Information. Only the candidate's attempts grow; the baseline's are what they are. The harm has the variance `v/b + v/r` after r repeats
//! against a baseline of b, and its increments are independent of what was seen, so the share of the information at r of R repeats is
//! `(1/b + 1/R) / (1/b + 1/r)`.
//!
//! Errors: [`LookError`]. Pure; nothing to cancel.

use clawrl_gates::{LookError, LookPlan, Looks, Spending};

/// Information between two looks, at least; looks that are closer are left out.
const SHORTEST: f64 = 0.01;

/// When a gate looks, and what stops it.
#[derive(Debug, Clone, PartialEq)]
pub struct LookSchedule {
    /// Repeats of each task by each look, ascending to all of them.
    repeats: Vec<u32>,
    plan: LookPlan,
}

/// What the schedule is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LookSettings {
    /// How many looks, the end included.
    pub looks: u32,
    /// Repeats of the candidate by the end.
    pub repeats: u32,
    /// Attempts a task that the baseline has, on average.
    pub baseline_repeats: f64,
    /// Probability of a stop for harm where there is none.
    pub alpha: f64,
    /// Probability of no stop for futility where the drop is what matters.
    pub power: f64,
}

impl LookSchedule {
    /// Lays out the looks, as evenly over the repeats as whole ones allow; `None` where there is only the end.
    ///
    /// # Errors
    /// [`LookError`] where alpha or power is no probability.
    pub fn new(settings: LookSettings) -> Result<Option<Self>, LookError> {
        let LookSettings { looks, repeats, alpha, power, .. } = settings;
        let mut at: Vec<(u32, f64)> = Vec::new();
        for look in 1..looks {
            let seen = (u64::from(repeats) * u64::from(look)).div_ceil(u64::from(looks)) as u32;
            let share = settings.information(seen);
            let before = at.last().map_or(0.0, |(_, share)| *share);
            if seen < repeats && share - before >= SHORTEST && 1.0 - share >= SHORTEST {
                at.push((seen, share));
            }
        }
        if at.is_empty() {
            return Ok(None);
        }
        at.push((repeats, 1.0));
        let fractions = at.iter().map(|(_, share)| *share).collect();
        let spending = Spending::ObrienFleming;
        let futility = Some((1.0 - power, spending));
        let plan = Looks { fractions, alpha, spending, futility }.plan()?;
        Ok(Some(Self { repeats: at.into_iter().map(|(seen, _)| seen).collect(), plan }))
    }

    /// Repeats of each task by each look, the last one being all.
    #[must_use]
    pub fn repeats(&self) -> &[u32] {
        &self.repeats
    }

    /// The boundaries.
    #[must_use]
    pub fn plan(&self) -> &LookPlan {
        &self.plan
    }

    /// The level that is left for the judgement at the end (I2).
    #[must_use]
    pub fn final_level(&self, alpha: f64) -> f64 {
        self.plan.boundaries.last().map_or(alpha, |boundary| boundary.level().min(alpha))
    }
}

impl LookSettings {
    fn information(self, seen: u32) -> f64 {
        let noise = |repeats: f64| 1.0 / self.baseline_repeats.max(1.0) + 1.0 / repeats;
        noise(f64::from(self.repeats)) / noise(f64::from(seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(looks: u32, repeats: u32, baseline_repeats: f64) -> LookSettings {
        LookSettings { looks, repeats, baseline_repeats, alpha: 0.05, power: 0.9 }
    }

    #[test]
    fn looks_are_spread_over_the_repeats() {
        let check = |looks, repeats, baseline, expected: &[u32]| {
            let found = LookSchedule::new(settings(looks, repeats, baseline)).unwrap();
            let found = found.map_or(Vec::new(), |schedule| schedule.repeats().to_vec());
            assert_eq!(found, expected, "{looks} looks at {repeats} repeats");
        };
        check(1, 8, 8.0, &[]);
        check(2, 1, 8.0, &[]);
        check(4, 8, 8.0, &[2, 4, 6, 8]);
        check(4, 3, 3.0, &[1, 2, 3]);
        check(3, 10, 1_000.0, &[4, 7, 10]);
        // A baseline of one attempt has all the noise: after 50 repeats there is nothing to gain.
        check(4, 100, 1.0, &[25, 100]);
    }

    #[test]
    fn information_of_a_baseline_that_stays() {
        let check = |baseline, seen, expected: f64| {
            let found = settings(4, 8, baseline).information(seen);
            assert!((found - expected).abs() < 1e-3, "{found} is not {expected}");
        };
        check(8.0, 2, 0.4);
        check(8.0, 8, 1.0);
        // With all the baseline there could be, it is the share of the repeats.
        check(1e9, 2, 0.25);
    }

    /// I2.
    #[test]
    fn the_end_has_what_is_left_of_alpha() {
        let schedule = LookSchedule::new(settings(4, 8, 8.0)).unwrap().unwrap();
        let level = schedule.final_level(0.05);
        assert!(level < 0.05 && level > 0.03, "{level}");
        let early = schedule.plan().boundaries[0].level();
        assert!(early < 0.01, "{early}");
    }
}
