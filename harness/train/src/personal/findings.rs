//! From courses to claims: sessions, compliance and correctness with their intervals, and the conclusions.
//!
//! I1. Arms are compared seed by seed. I2. Users who never adapt are censored at the last session. I3. Nothing is claimed about
//! cases that were not run.
//!
//! Units: sessions; shares. Pure; nothing to cancel.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::arm::Arm;
use super::protocol::Course;
use super::statistics::{Estimate, mean, ratio};
use super::user::Persona;

/// Non-inferiority margin of correctness, as a share.
const MARGIN: f64 = 0.02;
/// Required ratio of compliance without a prompt memory to compliance with one.
const KEPT: f64 = 0.9;

/// Metrics of an arm, over all personas or one.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ArmFigures {
    pub(super) arm: Arm,
    /// Sessions until the third consecutive session whose first reply satisfies.
    pub(super) sessions: Option<Estimate>,
    /// Users to whom the policy adapted.
    pub(super) adapted: u32,
    pub(super) users: u32,
    /// Compliance of held-out replies.
    pub(super) compliance: Option<Estimate>,
    pub(super) correctness: Option<Estimate>,
    pub(super) held_out_items: u32,
    pub(super) replies: u32,
    pub(super) updates: u32,
    pub(super) rejected: u32,
    /// Number of signs of a collapse.
    pub(super) alarms: u32,
    /// Users for whom learning was paused.
    pub(super) paused: u32,
    /// Mean tokens that the memory added to the prompts that contain it.
    pub(super) memory_tokens: f64,
    /// Share of compliant first replies, by session.
    pub(super) curve: Vec<f64>,
}

/// A difference or ratio of two arms.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Comparison {
    pub(super) what: String,
    pub(super) estimate: Estimate,
    /// Whether the interval supports the claim.
    pub(super) holds: bool,
    /// The conclusion in one sentence.
    pub(super) verdict: String,
}

/// All metrics and comparisons.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Findings {
    pub(super) arms: Vec<ArmFigures>,
    pub(super) by_persona: BTreeMap<Persona, Vec<ArmFigures>>,
    pub(super) comparisons: Vec<Comparison>,
}

/// Computes the findings from courses of this many sessions.
pub(super) fn findings(courses: &[Course], sessions: u32) -> Findings {
    let arms: BTreeSet<Arm> = courses.iter().map(|course| course.arm).collect();
    let personas: BTreeSet<Persona> = courses.iter().map(|course| course.persona).collect();
    let all: Vec<&Course> = courses.iter().collect();
    let figures_of = |courses: &[&Course]| -> Vec<ArmFigures> {
        arms.iter().map(|arm| figures(*arm, courses, sessions)).collect()
    };
    let of_persona = |persona: &Persona| {
        let courses: Vec<&Course> = all.iter().copied().filter(|course| course.persona == *persona).collect();
        (*persona, figures_of(&courses))
    };
    Findings {
        arms: figures_of(&all),
        by_persona: personas.iter().map(of_persona).collect(),
        comparisons: comparisons(&all, sessions),
    }
}

/// Sum over the users of each seed.
fn sums(courses: &[&Course], arm: Arm, figure: impl Fn(&Course) -> f64) -> BTreeMap<u64, f64> {
    let mut sums = BTreeMap::new();
    for course in courses.iter().filter(|course| course.arm == arm) {
        *sums.entry(course.seed).or_insert(0.0) += figure(course);
    }
    sums
}

/// The pairs of sums of the seeds that have both.
fn paired(first: &BTreeMap<u64, f64>, second: &BTreeMap<u64, f64>) -> Vec<(f64, f64)> {
    first.iter().filter_map(|(seed, first)| Some((*first, *second.get(seed)?))).collect()
}

fn sessions_of(course: &Course, sessions: u32) -> f64 {
    f64::from(course.adapted_at.unwrap_or(sessions))
}

fn figures(arm: Arm, courses: &[&Course], sessions: u32) -> ArmFigures {
    let own: Vec<&Course> = courses.iter().copied().filter(|course| course.arm == arm).collect();
    let users = sums(&own, arm, |_| 1.0);
    let items = sums(&own, arm, |course| f64::from(course.held_out.items));
    let of_items = |figure: fn(&Course) -> u32| {
        ratio(&paired(&sums(&own, arm, |course| f64::from(figure(course))), &items))
    };
    let total = |figure: fn(&Course) -> u32| own.iter().map(|course| figure(course)).sum::<u32>();
    let share = |session: usize| {
        let wanted = own.iter().filter(|course| course.first.get(session) == Some(&true)).count();
        wanted as f64 / own.len().max(1) as f64
    };
    let memory: u64 = own.iter().map(|course| course.memory_tokens).sum();
    ArmFigures {
        arm,
        sessions: ratio(&paired(&sums(&own, arm, |course| sessions_of(course, sessions)), &users)),
        adapted: total(|course| u32::from(course.adapted_at.is_some())),
        users: own.len() as u32,
        compliance: of_items(|course| course.held_out.wanted),
        correctness: of_items(|course| course.held_out.correct),
        held_out_items: total(|course| course.held_out.items),
        replies: total(|course| course.replies),
        updates: total(|course| course.updates),
        rejected: total(|course| course.rejected),
        alarms: total(|course| course.alarms),
        paused: total(|course| u32::from(course.paused.is_some())),
        memory_tokens: memory as f64 / f64::from(total(|course| course.remembered).max(1)),
        curve: (0..sessions as usize).map(share).collect(),
    }
}

fn comparisons(courses: &[&Course], sessions: u32) -> Vec<Comparison> {
    let mut found = Vec::new();
    found.extend(
        [Arm::Binary, Arm::Opd, Arm::Memory].into_iter().filter_map(|than| sooner(courses, than, sessions)),
    );
    found.extend(kept(courses));
    found.extend([Arm::Binary, Arm::Opd, Arm::Combined].into_iter().filter_map(|arm| no_worse(courses, arm)));
    found
}

/// Compares the combined arm's sessions until adaptation with another arm's.
fn sooner(courses: &[&Course], than: Arm, sessions: u32) -> Option<Comparison> {
    let of = |arm| sums(courses, arm, |course| sessions_of(course, sessions));
    let users = sums(courses, Arm::Combined, |_| 1.0);
    let both = paired(&of(Arm::Combined), &of(than));
    let per_user: Vec<f64> = both
        .iter()
        .zip(users.values())
        .map(|((combined, other), users)| (combined - other) / users)
        .collect();
    let estimate = mean(&per_user)?;
    let name = than.name();
    let verdict = if estimate.high < 0.0 {
        format!("combined adapts in fewer sessions than {name}")
    } else if estimate.low > 0.0 {
        format!("combined takes more sessions than {name}")
    } else {
        format!("whether combined or {name} adapts in fewer sessions is not decided")
    };
    let what = format!("sessions, combined less {name}");
    Some(Comparison { what, estimate, holds: estimate.high < 0.0, verdict })
}

/// Compares the combined arm's compliance, without a memory, with the memory arm's.
fn kept(courses: &[&Course]) -> Option<Comparison> {
    let of = |arm| sums(courses, arm, |course| f64::from(course.held_out.wanted));
    let estimate = ratio(&paired(&of(Arm::Combined), &of(Arm::Memory)))?;
    let verdict = if estimate.low >= KEPT {
        format!("without a memory, combined keeps at least {:.0} % of the compliance with one", 100.0 * KEPT)
    } else if estimate.value >= KEPT {
        format!(
            "combined keeps {:.0} % of the compliance with a memory by its mean, not by the whole interval",
            100.0 * KEPT
        )
    } else {
        format!("combined keeps less than {:.0} % of the compliance with a memory", 100.0 * KEPT)
    };
    let what = "compliance, combined over memory".to_owned();
    Some(Comparison { what, estimate, holds: estimate.low >= KEPT, verdict })
}

/// Tests whether an arm's correctness is not worse than the untrained policy's.
fn no_worse(courses: &[&Course], arm: Arm) -> Option<Comparison> {
    let of = |arm| sums(courses, arm, |course| f64::from(course.held_out.correct));
    let items = sums(courses, arm, |course| f64::from(course.held_out.items));
    let both = paired(&of(arm), &of(Arm::None));
    let shares: Vec<f64> = both
        .iter()
        .zip(items.values())
        .map(|((learned, before), items)| (learned - before) / items)
        .collect();
    let estimate = mean(&shares)?;
    let (name, points) = (arm.name(), 100.0 * MARGIN);
    let holds = estimate.low > -MARGIN;
    let verdict = if holds {
        format!("answers of {name} are not worse by more than {points:.0} points")
    } else if estimate.high < -MARGIN {
        format!("answers of {name} are worse by more than {points:.0} points")
    } else {
        format!("that answers of {name} are not worse by more than {points:.0} points is not shown")
    };
    Some(Comparison { what: format!("correctness, {name} less none"), estimate, holds, verdict })
}

#[cfg(test)]
mod tests {
    use super::super::measure::HeldOut;
    use super::*;

    fn course(seed: u64, arm: Arm, adapted_at: Option<u32>, wanted: u32, correct: u32) -> Course {
        Course {
            seed,
            persona: Persona::Student,
            arm,
            adapted_at,
            first: vec![false, true],
            replies: 3,
            updates: 1,
            rejected: 0,
            alarms: 0,
            paused: None,
            memory_tokens: 0,
            remembered: 0,
            held_out: HeldOut { items: 100, wanted, correct },
        }
    }

    fn all(combined: u32, binary: u32, correct: u32) -> Vec<Course> {
        let of_seed = |seed: u64| {
            let drift = seed as u32 % 2;
            [
                course(seed, Arm::None, None, 17, 99),
                course(seed, Arm::Binary, Some(binary + drift), 60, 99),
                course(seed, Arm::Combined, Some(combined + drift), 95, correct),
                course(seed, Arm::Memory, Some(5), 98, 99),
            ]
        };
        (0..6).flat_map(of_seed).collect()
    }

    fn verdicts(courses: &[Course]) -> Vec<(String, bool)> {
        let found = findings(courses, 72).comparisons;
        found.into_iter().map(|comparison| (comparison.verdict, comparison.holds)).collect()
    }

    #[test]
    fn verdicts_say_who_wins_whoever_it_is() {
        let found = verdicts(&all(10, 20, 99));
        let expected = [
            ("combined adapts in fewer sessions than binary", true),
            ("combined takes more sessions than memory", false),
            ("without a memory, combined keeps at least 90 % of the compliance with one", true),
            ("answers of binary are not worse by more than 2 points", true),
            ("answers of combined are not worse by more than 2 points", true),
        ];
        assert_eq!(found, expected.map(|(verdict, holds)| (verdict.to_owned(), holds)));
        let found = verdicts(&all(30, 20, 90));
        assert_eq!(found[0], ("combined takes more sessions than binary".to_owned(), false));
        assert_eq!(found[4], ("answers of combined are worse by more than 2 points".to_owned(), false));
        let found = verdicts(&all(20, 20, 99));
        assert!(!found[0].1 && found[0].0.contains("not decided"), "{found:?}");
    }

    #[test]
    fn i2_who_was_never_adapted_to_counts_with_the_last_session() {
        let found = findings(&all(10, 20, 99), 72);
        let none = &found.arms[0];
        assert_eq!((none.arm, none.adapted, none.users), (Arm::None, 0, 6));
        assert_eq!(none.sessions.unwrap().value, 72.0);
        assert_eq!(none.curve[..2], [0.0, 1.0]);
        assert_eq!(none.compliance.unwrap().value, 0.17);
        assert_eq!(found.by_persona.len(), 1);
    }
}
