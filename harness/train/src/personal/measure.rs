//! The final measurement of a policy: held-out questions, each asked once in a separate session.
//!
//! I1. The questions and the seeds of the sampling are the same for every persona and arm of a seed.

use clawrl_core::{SplitMix64, derive_seed};
use clawrl_torch::AdapterName;
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};

use super::protocol::{Case, CourseContext, broken};
use super::style::is_wanted;
use super::taught::message;
use super::user::memory;
use super::world::{Item, Part};
use clawrl_runtime::training::TrainError;

/// Counts of replies to held-out questions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HeldOut {
    pub(super) items: u32,
    /// Replies as the persona wants them.
    pub(super) wanted: u32,
    /// Replies with the right answer.
    pub(super) correct: u32,
}

/// Asks all held-out questions, with the memory if there is one.
pub(super) fn measure(
    context: &CourseContext,
    case: Case,
    adapter: Option<AdapterName>,
    remembered: Option<&'static str>,
) -> Result<HeldOut, TrainError> {
    let mut random = SplitMix64::new(derive_seed(case.seed, "held-out", &[]));
    let items: Vec<Item> =
        (0..context.protocol.held_out).map(|_| Item::draw(&mut random, Part::HeldOut)).collect();
    let mut requests = Vec::with_capacity(items.len());
    for (number, item) in (0..).zip(&items) {
        let system = remembered.map(|said| message("system", &memory(said)));
        let messages: Vec<_> = system.into_iter().chain([message("user", &item.ask)]).collect();
        let seed = derive_seed(case.seed, "held-out sampling", &[number]);
        requests.push(context.request(context.prompt(&messages)?, adapter.clone(), seed));
    }
    let asked = requests.into_iter().map(|request| context.model.engine.generate(request));
    let replies = context.runtime.block_on(try_join_all(asked)).map_err(|error| broken(&error))?;
    let mut found = HeldOut { items: context.protocol.held_out, ..HeldOut::default() };
    for (item, reply) in items.iter().zip(&replies) {
        let text = context.text(&reply.ids)?;
        found.wanted += u32::from(is_wanted(case.persona, &text));
        found.correct += u32::from(item.is_answered_by(&text));
    }
    Ok(found)
}
