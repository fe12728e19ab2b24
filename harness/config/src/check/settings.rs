//! Checks that numbers are within limits and that time limits are consistent.

use std::ops::RangeInclusive;
use std::time::Duration;

use clawrl_core::{Limit, RewardMap, Timeouts};

use super::checker::Checker;
use super::row::Settings;
use crate::bounds;
use crate::file::{Located, SettingsRef};
use crate::problem::Problem;
use crate::source::Span;

impl Checker {
    /// A whole number within bounds, or the default.
    pub(super) fn whole(
        &mut self,
        key: &str,
        number: Option<&Located<i64>>,
        bounds: RangeInclusive<i64>,
        default: u32,
    ) -> u32 {
        self.findings.whole(key, number, bounds, default)
    }

    /// A time in seconds, or `None` if it is missing or invalid.
    pub(super) fn seconds(
        &mut self,
        key: &str,
        number: Option<&Located<f64>>,
        most: f64,
    ) -> Option<Duration> {
        let number = number?;
        if number.value > 0.0 && number.value <= most {
            return Some(Duration::from_secs_f64(number.value));
        }
        let message = format!("`{key}` cannot be {}", number.value);
        let help = format!("write seconds above 0 and up to {most}");
        self.problem(number.span, message, "out of bounds", help);
        None
    }

    /// Maximum characters of an observation.
    pub(super) fn observation_chars(&mut self, number: Option<&Located<i64>>) -> u32 {
        self.whole("observation_chars", number, bounds::MIN_OBSERVATION..=bounds::MAX_OBSERVATION, 4_000)
    }

    pub(super) fn settings(&mut self, file: SettingsRef<'_>) -> Settings {
        Settings {
            group_size: self.whole("group_size", file.group_size, 1..=bounds::MAX_GROUP, 8),
            max_turns: self.whole("max_turns", file.max_turns, 1..=bounds::MAX_TURNS, bounds::DEFAULT_TURNS),
            action_format: file.action_format.map(|format| format.value.into()).unwrap_or_default(),
            reward: self.reward(file),
            timeouts: self.timeouts(file),
        }
    }

    fn reward(&mut self, file: SettingsRef<'_>) -> RewardMap {
        let mut reward = RewardMap::default();
        if let Some(scale) = file.reward_scale {
            reward.scale = scale.value;
            if !(scale.value > 0.0 && scale.value.is_finite()) {
                let message = format!("`scale` cannot be {}", scale.value);
                let help = "write a number above 0: a higher score must mean a higher reward";
                self.problem(scale.span, message, "out of bounds", help);
            }
        }
        if let Some(offset) = file.reward_offset {
            reward.offset = offset.value;
            if !offset.value.is_finite() {
                let message = format!("`offset` cannot be {}", offset.value);
                self.problem(offset.span, message, "out of bounds", "write a finite number, such as -1");
            }
        }
        reward
    }

    /// Every limit has its own clock, but limits within an attempt cannot exceed the attempt's. If only the attempt's limit
    /// is given, the defaults of the others are reduced to it.
    fn timeouts(&mut self, file: SettingsRef<'_>) -> Timeouts {
        let default = Timeouts::default();
        let given = |checker: &mut Self, limit: Limit, number: Option<&Located<f64>>| {
            checker.seconds(limit.key(), number, bounds::MAX_TIMEOUT_SECS)
        };
        let attempt = given(self, Limit::Attempt, file.attempt).unwrap_or(default.attempt);
        let mut within = |limit: Limit, number: Option<&Located<f64>>, default: Duration| {
            let Some(value) = given(self, limit, number) else { return default.min(attempt) };
            if let (Some(number), true) = (number, value > attempt) {
                self.outlasts(limit, number, attempt, file.attempt);
            }
            value
        };
        let setup = within(Limit::Setup, file.setup, default.setup);
        let step = within(Limit::Step, file.step, default.step);
        let policy = within(Limit::Policy, file.policy, default.policy);
        Timeouts {
            lease: given(self, Limit::Lease, file.lease).unwrap_or(default.lease),
            setup,
            step,
            policy,
            grade: given(self, Limit::Grade, file.grade).unwrap_or(default.grade),
            close: given(self, Limit::Close, file.close).unwrap_or(default.close),
            attempt,
        }
    }

    fn outlasts(
        &mut self,
        limit: Limit,
        number: &Located<f64>,
        attempt: Duration,
        attempt_given: Option<&Located<f64>>,
    ) {
        let key = limit.key();
        let attempt = attempt.as_secs_f64();
        let message =
            format!("`{key}` is {} s, longer than the whole attempt may take ({attempt} s)", number.value);
        let help = format!(
            "lower it to at most {attempt}, or write `attempt_timeout_secs: {}` or more",
            number.value
        );
        let problem = Problem::new(message, help).at(&self.findings.source, number.span, "can never fire");
        self.findings.push(match attempt_given {
            Some(attempt) => problem.and_at(attempt.span, "the attempt ends here"),
            None => problem,
        });
    }

    /// Minimum and maximum.
    pub(super) fn times(
        &mut self,
        at_least: Option<&Located<i64>>,
        at_most: Option<&Located<i64>>,
        place: Span,
        what: &str,
    ) -> (u32, Option<u32>) {
        let most = bounds::MAX_CALLS;
        let last = at_most.map(|number| self.whole("at_most", Some(number), 0..=most, u32::MAX));
        // With `at_most: 0`, the default of `at_least` is 0, too.
        let first = self.whole("at_least", at_least, 0..=most, u32::from(last != Some(0)));
        if let (Some(number), Some(last)) = (at_most, last)
            && first > last
        {
            let message = format!("no number of {what} is at least {first} and at most {last}");
            let help = format!("write `at_most: {first}` or more, or lower `at_least`");
            self.problem(number.span, message, "never passes", help);
        }
        if first == 0 && last.is_none() {
            let message = format!("any number of {what} passes this check");
            self.problem(place, message, "nothing is checked", "write `at_least: 1` or more, or `at_most`");
        }
        (first, last)
    }
}
