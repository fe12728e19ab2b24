//! Progress lines of training updates.

use clawrl_runtime::training::UpdateProgress;

/// Success, reward, entropy, staleness, groups and rates of one update.
pub(crate) fn update_line(update: &UpdateProgress) -> String {
    let UpdateProgress { update: number, updates, success_rate, reward_mean, entropy_nats, .. } = update;
    let UpdateProgress { staleness_mean, staleness_max, informative_groups, groups, constant_groups, .. } =
        update;
    let success = success_rate.map_or("-".to_owned(), |rate| format!("{:.0} %", 100.0 * rate));
    let seconds = (update.wait + update.learn).as_secs_f64().max(1e-9);
    format!(
        "update {number:>4}/{updates}  success {success:>5}  reward {reward_mean:>6.3}  entropy {entropy_nats:.3}  \
         stale {staleness_mean:.1} (max {staleness_max})  groups {informative_groups} of {groups} \
         ({constant_groups} constant)  {:.0} tokens/s  {:.0} episodes/s  wait {:.2} s  learn {:.2} s",
        update.tokens as f64 / seconds,
        update.episodes as f64 / seconds,
        update.wait.as_secs_f64(),
        update.learn.as_secs_f64(),
    )
}

/// The warning about skipped optimizer steps.
pub(crate) fn skipped_line(update: &UpdateProgress) -> String {
    format!(
        "{} optimizer steps were skipped, because loss or gradient was not finite: attempts {}",
        update.skipped_steps,
        update.culprits.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn update_line_shows_rates_per_second() {
        let update = UpdateProgress {
            update: 3,
            updates: 40,
            success_rate: Some(0.5),
            reward_mean: 0.25,
            entropy_nats: 1.5,
            staleness_mean: 1.0,
            staleness_max: 1,
            informative_groups: 8,
            groups: 11,
            constant_groups: 3,
            tokens: 3_000,
            episodes: 30,
            wait: Duration::from_secs(1),
            learn: Duration::from_secs(2),
            skipped_steps: 1,
            culprits: vec!["7".to_owned()],
        };
        insta::assert_snapshot!(update_line(&update), @"update    3/40  success  50 %  reward  0.250  entropy 1.500  stale 1.0 (max 1)  groups 8 of 11 (3 constant)  1000 tokens/s  10 episodes/s  wait 1.00 s  learn 2.00 s");
        assert!(skipped_line(&update).ends_with("attempts 7"));
    }
}
