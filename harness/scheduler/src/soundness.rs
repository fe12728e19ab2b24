//! Turns invalid scores and rewards into faults of their source, so that they never become rewards.
//!
//! I1. A score is a number from 0 to 1, a process reward is finite. Environments should guarantee this themselves; here
//! it is enforced.
//!
//! Pure; nothing to cancel.

use clawrl_core::{Boundary, Fault, Grade};

/// Name of such a fault.
const BAD_REWARD: &str = "bad-reward";

/// Validates the scores of a grade.
///
/// # Errors
/// A fault that names the invalid score.
pub(crate) fn sound_grade(grade: Grade) -> Result<Grade, Fault> {
    let scores = grade.checks.iter().map(|check| (check.label.as_str(), check.score));
    let unsound = scores.chain([("the grade", grade.score)]).find(|(_, score)| !(0.0..=1.0).contains(score));
    match unsound {
        None => Ok(grade),
        Some((what, score)) => {
            let message = format!("{what} has the score {score}, which is not in [0, 1]");
            Err(Fault::permanent(Boundary::Grader, BAD_REWARD, message))
        }
    }
}

/// A process reward that can be right.
///
/// # Errors
/// The fault that it is instead.
pub(crate) fn sound_process_reward(reward: Option<f64>) -> Result<Option<f64>, Fault> {
    match reward.filter(|reward| !reward.is_finite()) {
        None => Ok(reward),
        Some(reward) => {
            let message = format!("a step has the reward {reward}, which is not finite");
            Err(Fault::permanent(Boundary::Env, BAD_REWARD, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use clawrl_core::CheckReport;

    use super::*;

    #[test]
    fn scores_are_shares() {
        let grade = |score: f64, check: f64| Grade {
            score,
            passed: false,
            checks: vec![CheckReport {
                label: "c".into(),
                score: check,
                weight: 1.0,
                message: String::new(),
            }],
            flags: Vec::new(),
            judge_usage: None,
            patch: None,
        };
        for sound in [0.0, 0.5, 1.0] {
            assert!(sound_grade(grade(sound, 1.0 - sound)).is_ok());
        }
        for unsound in [f64::NAN, f64::INFINITY, -0.1, 1.1] {
            let fault = sound_grade(grade(unsound, 0.5)).unwrap_err();
            assert_eq!((fault.code.as_str(), fault.boundary), (BAD_REWARD, Boundary::Grader), "{unsound}");
            let fault = sound_grade(grade(0.5, unsound)).unwrap_err();
            assert!(fault.message.contains("c has the score"), "{}", fault.message);
        }
    }

    #[test]
    fn process_rewards_are_finite() {
        for sound in [None, Some(-3.0), Some(0.0)] {
            assert_eq!(sound_process_reward(sound).ok(), Some(sound));
        }
        for unsound in [f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(sound_process_reward(Some(unsound)).unwrap_err().boundary, Boundary::Env);
        }
    }
}
