//! Answers of the last hour by user, for the dashboard.
//!
//! I1. In memory only, bounded by the number of users with keys; a restart clears it. I2. Of other users, a user sees only the sum.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::UserId;

const MINUTES: usize = 60;

/// For each user, a ring of the minutes of an hour.
#[derive(Debug)]
pub(super) struct Activity {
    start: Instant,
    users: Mutex<HashMap<UserId, [Minute; MINUTES]>>,
}

/// A minute since the server's start, and its answers.
#[derive(Debug, Clone, Copy, Default)]
struct Minute {
    minute: u64,
    answers: u64,
    tokens: u64,
}

/// Totals of the last hour, or since the start.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub(super) struct HourTotals {
    pub(super) answers: u64,
    /// Tokens of these answers.
    pub(super) tokens: u64,
    /// Tokens per second.
    pub(super) rate: f64,
}

impl Default for Activity {
    fn default() -> Self {
        Self { start: Instant::now(), users: Mutex::default() }
    }
}

impl Activity {
    /// Adds an answer of a user.
    pub(super) fn add(&self, user: &UserId, tokens: u64) {
        let now = self.start.elapsed().as_secs() / 60;
        // No code that can panic runs under the lock.
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if !users.contains_key(user) {
            users.insert(user.clone(), [Minute::default(); MINUTES]);
        }
        let Some(minutes) = users.get_mut(user) else { return };
        let place = &mut minutes[now as usize % MINUTES];
        if place.minute != now {
            *place = Minute { minute: now, ..Minute::default() };
        }
        place.answers += 1;
        place.tokens += tokens;
    }

    /// Of one user, or of all.
    pub(super) fn last_hour(&self, user: Option<&UserId>) -> HourTotals {
        let age = self.start.elapsed().as_secs();
        let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let selected = users.iter().filter(|(name, _)| user.is_none_or(|user| *name == user));
        let minutes = selected.flat_map(|(_, minutes)| minutes);
        let recent = minutes.filter(|minute| minute.minute + MINUTES as u64 > age / 60);
        let (answers, tokens) = recent
            .fold((0, 0), |(answers, tokens), minute| (answers + minute.answers, tokens + minute.tokens));
        HourTotals { answers, tokens, rate: tokens as f64 / (age + 1).min(60 * MINUTES as u64) as f64 }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn i2_users_have_their_own_totals_and_the_sum() {
        let activity = Activity::default();
        let (ada, bob) = (UserId("ada".to_owned()), UserId("bob".to_owned()));
        let check = |user: Option<&UserId>, answers, tokens, rate| {
            assert_eq!(activity.last_hour(user), HourTotals { answers, tokens, rate }, "{user:?}");
        };
        check(None, 0, 0, 0.0);
        activity.add(&ada, 30);
        tokio::time::advance(Duration::from_secs(59)).await;
        activity.add(&ada, 30);
        activity.add(&bob, 60);
        check(Some(&ada), 2, 60, 1.0);
        check(Some(&bob), 1, 60, 1.0);
        check(None, 3, 120, 2.0);
        tokio::time::advance(Duration::from_secs(3_540)).await;
        activity.add(&ada, 36);
        check(Some(&ada), 3, 96, 96.0 / 3_600.0);
        tokio::time::advance(Duration::from_secs(1)).await;
        check(Some(&ada), 1, 36, 0.01);
        check(Some(&bob), 0, 0, 0.0);
        tokio::time::advance(Duration::from_secs(3_600)).await;
        check(None, 0, 0, 0.0);
    }
}
