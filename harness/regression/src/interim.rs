//! The schedule of interim analyses: repeats at each analysis, and boundaries for stopping.
//!
//! I1. An interim analysis stops a run only if the verdict at this point agrees: fail for harm, pass for futility. Otherwise the run
//! continues. I2. The final analysis has the rest of alpha: the level of the last boundary. I3. Equal records give equal
//! analyses, in the run and in later assessments.
//!
//! Information. Only the candidate's attempts grow; those of the baseline are fixed. The harm has the variance `v/b + v/r` after r repeats
//! against a baseline of b, and its increments are independent of earlier data, so the information fraction at r of R repeats is
//! `(1/b + 1/R) / (1/b + 1/r)`.
//!
//! Errors: [`InterimPlanError`]. Pure; nothing to cancel.

use clawrl_gates::{InterimAnalyses, InterimPlan, InterimPlanError, Spending};

/// Minimum information between two analyses; closer analyses are omitted.
const MIN_STEP: f64 = 0.01;

/// Interim analyses of a gate with their boundaries.
#[derive(Debug, Clone, PartialEq)]
pub struct InterimSchedule {
    /// Repeats of each task by each look, ascending to all of them.
    repeats: Vec<u32>,
    plan: InterimPlan,
}

/// Input of the schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InterimSettings {
    /// Number of analyses, the final one included.
    pub looks: u32,
    /// Repeats of the candidate by the end.
    pub repeats: u32,
    /// Attempts a task that the baseline has, on average.
    pub baseline_repeats: f64,
    /// Probability of stopping for harm without harm.
    pub alpha: f64,
    /// Probability of not stopping for futility at a drop of `min_effect`.
    pub power: f64,
}

impl InterimSchedule {
    /// Places the analyses as evenly over the repeats as possible; `None` if only the final one remains.
    ///
    /// # Errors
    /// [`InterimPlanError`] for an invalid alpha or power.
    pub fn new(settings: InterimSettings) -> Result<Option<Self>, InterimPlanError> {
        let InterimSettings { looks, repeats, alpha, power, .. } = settings;
        let mut at: Vec<(u32, f64)> = Vec::new();
        for look in 1..looks {
            let seen = (u64::from(repeats) * u64::from(look)).div_ceil(u64::from(looks)) as u32;
            let share = settings.information(seen);
            let before = at.last().map_or(0.0, |(_, share)| *share);
            if seen < repeats && share - before >= MIN_STEP && 1.0 - share >= MIN_STEP {
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
        let plan = InterimAnalyses { fractions, alpha, spending, futility }.plan()?;
        Ok(Some(Self { repeats: at.into_iter().map(|(seen, _)| seen).collect(), plan }))
    }

    /// Repeats of each task by each look, the last one being all.
    #[must_use]
    pub fn repeats(&self) -> &[u32] {
        &self.repeats
    }

    /// The boundaries.
    #[must_use]
    pub fn plan(&self) -> &InterimPlan {
        &self.plan
    }

    /// The level that is left for the judgement at the end (I2).
    #[must_use]
    pub fn final_level(&self, alpha: f64) -> f64 {
        self.plan.boundaries.last().map_or(alpha, |boundary| boundary.level().min(alpha))
    }
}

impl InterimSettings {
    fn information(self, seen: u32) -> f64 {
        let noise = |repeats: f64| 1.0 / self.baseline_repeats.max(1.0) + 1.0 / repeats;
        noise(f64::from(self.repeats)) / noise(f64::from(seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(looks: u32, repeats: u32, baseline_repeats: f64) -> InterimSettings {
        InterimSettings { looks, repeats, baseline_repeats, alpha: 0.05, power: 0.9 }
    }

    #[test]
    fn looks_are_spread_over_the_repeats() {
        let check = |looks, repeats, baseline, expected: &[u32]| {
            let found = InterimSchedule::new(settings(looks, repeats, baseline)).unwrap();
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
    fn final_analysis_has_the_rest_of_alpha() {
        let schedule = InterimSchedule::new(settings(4, 8, 8.0)).unwrap().unwrap();
        let level = schedule.final_level(0.05);
        assert!(level < 0.05 && level > 0.03, "{level}");
        let early = schedule.plan().boundaries[0].level();
        assert!(early < 0.01, "{early}");
    }
}
