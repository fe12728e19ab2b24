//! The evaluations of a training: the best one, the weights kept because of it, and the warning about a drop.
//!
//! I1. The weights of version 0 and those of the best evaluation are kept, regardless of `keep_weights`. I2. The kept weights and
//! the warning are a function of the record, so they are the same after a kill.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clawrl_config::TrainPlan;
use clawrl_core::RunId;
use clawrl_record::{HeldOut, Metric, RunStore, UpdateMetrics, best_of, fall_of, fall_text, write_held_out};
use clawrl_torch::ModelFiles;

use super::evaluation::held_out;
use super::files::TrainingFiles;
use super::page;
use super::versions::{Made, VersionLog, checkpoints_of};
use clawrl_runtime::training::{BestVersion, NewestVersion, TrainError, WayBack};

/// The version of the best of these evaluations. `None` if nothing was graded.
pub(super) fn best_version(files: &TrainingFiles, evaluated: &[HeldOut]) -> Option<BestVersion> {
    let best = best_of(evaluated)?;
    let folder = files.model_of(best.version);
    let is_there = ModelFiles::of(&folder).config().exists();
    Some(BestVersion {
        version: best.version,
        updates: best.updates,
        success: best.rate(),
        policy: is_there.then_some(folder),
    })
}

/// Recorded evaluations of the first `updates` updates, in order. An evaluation without stored metrics does not count: a resumed
/// training repeats it, finds its run finished, and stores them.
///
/// # Errors
/// The record cannot be read.
pub(super) fn recorded(
    files: &TrainingFiles,
    plan: &TrainPlan,
    updates: u32,
) -> Result<Vec<HeldOut>, TrainError> {
    let all = plan.rl.as_ref().map_or(0, |rl| rl.updates);
    let store = RunStore::open(files.results())?;
    let figures = store.run(files.run())?.updates()?;
    let log = VersionLog::of(files);
    let (made, branches) = (log.read(), log.branches());
    let line = line_of(&made);
    let mut evaluated = Vec::new();
    for at in 0..=updates {
        let of = figures.iter().find(|figures| figures.update == u64::from(at));
        let has = |metric| of.is_some_and(|of: &UpdateMetrics| of.figures.contains_key(&metric));
        let branch = branches.get(&at).copied();
        let version = branch.unwrap_or_else(|| version_after(at, &made));
        let read = |run: RunId, by_gate: bool| {
            let run = store.run(&run).ok()?;
            run.state()?.finished()?;
            let given_up = !is_of(version, &line, &made);
            Some(HeldOut { by_gate, given_up, ..held_out(&run, at, version) })
        };
        let is_evaluated =
            plan.evaluation.is_due(at, all) && (branch.is_some() || has(Metric::TrainHeldOutSuccessRatio));
        let mut found = if is_evaluated { read(files.evaluation(at, branch)?, false) } else { None };
        // An accepted candidate has been evaluated, too.
        let is_accepted =
            of.and_then(|of| of.get(Metric::TrainVersionsRejectedCount)) == Some(0.0) && branch.is_none();
        if found.is_none() && is_accepted && has(Metric::TrainGateSuccessRatio) {
            found = read(files.gate_evaluation(at)?, true);
        }
        evaluated.extend(found);
    }
    Ok(evaluated)
}

/// The version whose checkpoint was written after so many updates, without versions made by a rollback.
fn version_after(updates: u32, made: &BTreeMap<u64, Made>) -> u64 {
    let own = made.values().rev().find(|made| made.updates == updates && made.instead_of.is_none());
    own.map_or(u64::from(updates), |made| made.version)
}

/// The newest version and its ancestors.
fn line_of(made: &BTreeMap<u64, Made>) -> BTreeSet<u64> {
    let mut line = BTreeSet::new();
    let mut next = made.keys().next_back().copied();
    while let Some(version) = next.filter(|version| line.insert(*version)) {
        next = made.get(&version).and_then(|made| made.parent);
    }
    line
}

/// Whether a version was not abandoned by a rollback. The checkpoint of a rejected version equals its parent's.
fn is_of(version: u64, line: &BTreeSet<u64>, made: &BTreeMap<u64, Made>) -> bool {
    let instead = made.get(&version).filter(|made| made.rejected.is_some()).and_then(|made| made.parent);
    line.contains(&version) || instead.is_some_and(|parent| line.contains(&parent))
}

/// Stores evaluations where `clawrl show` finds them, keeps the weights of the best one and of version 0 (I1), and writes the
/// page.
///
/// # Errors
/// Something cannot be written.
pub(super) fn keep(files: &TrainingFiles, plan: &TrainPlan, evaluated: &[HeldOut]) -> Result<(), TrainError> {
    write_held_out(&files.folder(), evaluated)?;
    let wanted = best_of(evaluated).map(|best| best.version).into_iter().chain([0]).collect();
    checkpoints_of(files, plan.checkpoint)
        .keep_only(&wanted)
        .map_err(|error| TrainError::storage(error.to_string()))?;
    page::write(files, plan, evaluated)
}

/// The warning that the last of these evaluations is a drop, with the kept version.
pub(super) fn warning(files: &TrainingFiles, evaluated: &[HeldOut]) -> Option<String> {
    let words = fall_of(evaluated).map(fall_text)?;
    let Some(BestVersion { version, policy: Some(folder), .. }) = best_version(files, evaluated) else {
        return Some(words);
    };
    Some(format!("{words}; version {version}, the best, is kept in {}", folder.display()))
}

/// The version that an aborted training can be rolled back to. `None` before the first evaluation.
///
/// # Errors
/// The record cannot be read.
pub fn way_back(run: &RunId, results: &Path) -> Result<Option<WayBack>, TrainError> {
    let files = TrainingFiles::new(run.clone(), results.to_owned())?;
    let evaluated = RunStore::open(files.results())?.run(files.run())?.held_out()?;
    let Some(BestVersion { version, updates, success, policy: Some(policy) }) =
        best_version(&files, &evaluated)
    else {
        return Ok(None);
    };
    // The checkpoint of a rejected version equals the one before it.
    let made = VersionLog::of(&files).read();
    let newest = made.values().rev().find(|made| made.rejected.is_none()).map(|made| made.version);
    let newest = newest.filter(|newest| *newest != version).map(|newest| NewestVersion {
        version: newest,
        is_evaluated: evaluated.iter().any(|at| at.version == newest),
    });
    Ok(Some(WayBack { version, updates, success, policy, newest }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(list: &[(u64, Option<u64>, u32, Option<u64>)]) -> BTreeMap<u64, Made> {
        let all = list.iter().map(|&(version, parent, updates, instead_of)| {
            (version, Made { version, parent, updates, t_ms: 0, instead_of, rejected: None })
        });
        all.collect()
    }

    #[test]
    fn a_version_that_was_given_up_is_of_no_line_until_it_is_gone_back_to() {
        let straight = [(0, None, 0, None), (2, Some(0), 2, None), (4, Some(2), 4, None)];
        assert_eq!(line_of(&made(&straight)), BTreeSet::from([0, 2, 4]));
        let back = [&straight[..], &[(5, Some(0), 4, Some(4))]].concat();
        assert_eq!(line_of(&made(&back)), BTreeSet::from([0, 5]));
        let again = [&back[..], &[(6, Some(2), 4, Some(5))]].concat();
        assert_eq!(line_of(&made(&again)), BTreeSet::from([0, 2, 6]));
        assert_eq!(version_after(4, &made(&again)), 4);
        assert_eq!(version_after(3, &made(&again)), 3);
    }

    #[test]
    fn a_rejected_version_has_what_its_parent_has() {
        let mut made = made(&[(0, None, 0, None), (1, Some(0), 1, None), (2, Some(1), 2, None)]);
        made.get_mut(&1).unwrap().rejected = Some("it is no number".to_owned());
        made.get_mut(&2).unwrap().parent = Some(0);
        let line = line_of(&made);
        assert_eq!(line, BTreeSet::from([0, 2]));
        assert!(is_of(1, &line, &made) && !is_of(7, &line, &made));
    }
}
