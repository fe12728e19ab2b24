//! The HTML report of a training, rewritten after every evaluation.

use std::fs;

use clawrl_config::{Schedule, TrainPlan};
use clawrl_record::{HeldOut, Run, TrainingReport, render_training_report};

use super::files::TrainingFiles;
use clawrl_runtime::host::facts;
use clawrl_runtime::training::TrainError;

/// Writes the page from the record.
///
/// # Errors
/// The record cannot be read, or the page cannot be written.
pub(super) fn write(files: &TrainingFiles, plan: &TrainPlan, held_out: &[HeldOut]) -> Result<(), TrainError> {
    let updates = Run::open_read(&files.folder())?.updates()?;
    let train_json = serde_json::to_string_pretty(plan)
        .map_err(|error| TrainError::internal(format!("the train plan cannot be written: {error}")))?;
    let report = TrainingReport {
        name: files.run().as_str(),
        warm_start: &warm_start_words(plan),
        held_out,
        updates: &updates,
        facts: &facts_of(plan),
        train_json: &train_json,
    };
    let path = files.page();
    fs::write(&path, render_training_report(&report))
        .map_err(|error| TrainError::storage(format!("cannot write {}: {error}", path.display())))
}

/// Describes the policy before the first update.
pub(super) fn warm_start_words(plan: &TrainPlan) -> String {
    let Some(warm_start) = &plan.warm_start else {
        return "None: reinforcement learning began from the policy as it was given.".to_owned();
    };
    let mut words = format!(
        "{} supervised steps of {} demonstrations each, out of {} that were recorded in real environments on tasks of \
         the training part. ",
        warm_start.steps, warm_start.batch, warm_start.demonstrations
    );
    words += &match warm_start.oracle_percent {
        100 => "The demonstrator plays each task's solution.".to_owned(),
        percent => format!(
            "The demonstrator is imperfect on purpose: it plays a task's solution with probability {percent} %, else one of \
             the task's typical mistakes, and demonstrations that fail are learned from like the others."
        ),
    };
    if !warm_start.interchangeable.is_empty() {
        let lists = warm_start.interchangeable.join(", ");
        words += &format!(
            " Each time a demonstration was shown, the words of these lists traded places, in all its texts alike: \
             {lists}. No demonstration became one of a held-out instruction that way."
        );
    }
    if warm_start.hinted_percent > 0 {
        words += &format!(
            " In {} % of the showings a demonstration had its own actions as a hint behind the instruction, in {} % of those \
             behind the instruction of another one: what a teacher reads later has to be heeded.",
            warm_start.hinted_percent, warm_start.contradicted_percent
        );
    }
    words
}

fn facts_of(plan: &TrainPlan) -> Vec<(String, String)> {
    let mut list = vec![
        ("program".to_owned(), facts::PROGRAM.to_owned()),
        ("cores".to_owned(), facts::cpus().to_string()),
        ("seed".to_owned(), plan.seed.to_string()),
        ("reproducible".to_owned(), if plan.reproducible { "yes" } else { "no" }.to_owned()),
    ];
    if let Some(rl) = &plan.rl {
        let schedule = match rl.schedule {
            Schedule::Synchronous => "synchronous".to_owned(),
            Schedule::OneStepOff => "one step off".to_owned(),
            Schedule::Asynchronous => format!("asynchronous, at most {} versions stale", rl.max_staleness),
        };
        list.push(("schedule".to_owned(), schedule));
        list.extend(rl.lora.as_ref().map(|lora| ("adapter".to_owned(), lora.to_string())));
        list.extend(rl.judging.as_ref().map(|judging| ("judge of turns".to_owned(), judging.to_string())));
        list.extend(rl.distillation.as_ref().map(|taught| ("teacher".to_owned(), taught.to_string())));
        list.extend(rl.curriculum.map(|curriculum| ("curriculum".to_owned(), curriculum.to_string())));
        list.push(("batch".to_owned(), format!("{} groups of {}", rl.batch_groups, rl.group_size)));
    }
    list.push((
        "held-out tasks".to_owned(),
        "by a hash of family and instruction; never trained on, and greedy decoding".to_owned(),
    ));
    list
}
