//! Detects trainings without a learning signal: groups whose members all have the same reward have no gradient.
//!
//! I1. Only consecutive updates count: one informative group restarts the count. I2. The message counts the groups of these
//! updates by result.

use clawrl_learn::StreamCounts;

use clawrl_runtime::training::TrainError;

/// Consecutive updates without an informative group after which a training is aborted, because more of them would teach nothing.
const MAX_UPDATES: u32 = 5;

/// Counts consecutive updates without a learning signal.
#[derive(Debug, Default)]
pub(super) struct NoSignalGuard {
    updates: u32,
    counts: StreamCounts,
}

impl NoSignalGuard {
    /// Adds an update and the results of its groups.
    ///
    /// # Errors
    /// There was no learning signal for too long.
    pub(super) fn after(&mut self, counts: &StreamCounts) -> Result<(), TrainError> {
        if counts.informative > 0 {
            *self = Self::default();
            return Ok(());
        }
        self.updates += 1;
        self.counts += *counts;
        if self.updates < MAX_UPDATES { Ok(()) } else { Err(self.failure()) }
    }

    fn failure(&self) -> TrainError {
        let counts = &self.counts;
        let differ = "rewards that differ within a group help: other tasks, or `reward: score`";
        let causes = [
            (
                counts.constant_failed,
                "failed as a whole",
                "easier tasks help, or a warm start that is right sometimes; `clawrl validate` finds tasks that cannot \
                 be solved",
            ),
            (
                counts.constant_passed,
                "passed as a whole",
                "harder tasks help: these are solved, or prove nothing, which `clawrl validate` finds out",
            ),
            (counts.constant_mixed, "had one reward for all members", differ),
            (
                counts.too_few,
                "had fewer than two members that did not fault",
                "`clawrl show` tells of the faults",
            ),
            (counts.untrainable, "had no token to train on", differ),
            (
                counts.untaught,
                "had no hint for a teacher, without whom nothing counts",
                "more sources of `hints`, a larger `max_hint_tokens` or an `outcome_weight` above 0 helps",
            ),
            (counts.stale, "were too old", "a larger `max_staleness` or a smaller `concurrency` helps"),
        ];
        let told: Vec<String> = causes
            .iter()
            .filter(|(groups, ..)| *groups > 0)
            .map(|(groups, what, _)| format!("{groups} {what}"))
            .collect();
        let message = format!(
            "the training is given up: {} updates in a row had nothing to learn from; of their {} groups, {}",
            self.updates,
            counts.groups(),
            told.join(", ")
        );
        let help = causes.iter().max_by_key(|(groups, ..)| *groups).map_or(differ, |(.., help)| help);
        TrainError::aborted(message).with_help(help)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(updates: &[StreamCounts], expected: Option<&str>) {
        let mut guard = NoSignalGuard::default();
        let failure = updates.iter().find_map(|counts| guard.after(counts).err());
        assert_eq!(matches!(failure, Some(TrainError::Aborted(_))), expected.is_some());
        let text = failure.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(expected.unwrap_or_default()), "{text}");
    }

    #[test]
    fn i1_only_updates_in_a_row_count() {
        let failed = StreamCounts { constant_failed: 2, ..StreamCounts::default() };
        let learned = StreamCounts { informative: 1, constant_failed: 1, ..StreamCounts::default() };
        check(&[failed; 4], None);
        check(&[failed, failed, learned, failed, failed, failed, failed], None);
        check(&[learned, failed, failed, failed, failed, failed], Some("5 updates in a row"));
    }

    #[test]
    fn i2_what_became_of_the_groups_is_told() {
        let counts = StreamCounts { constant_failed: 2, too_few: 1, ..StreamCounts::default() };
        let expected =
            "of their 15 groups, 10 failed as a whole, 5 had fewer than two members that did not fault";
        check(&[counts; 5], Some(expected));
    }
}
