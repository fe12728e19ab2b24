//! A batch that is filled in order of dispatch.
//!
//! I1. The number of wanted groups is always `batch` plus the groups that are known to have no gradient, up to `budget`. So
//! all other wanted groups fit into the batch, even if all of them are informative. I2. Hence, once all of them are settled, the
//! groups are the shortest stretch of the plan with `batch` informative ones, independent of the order in which they were
//! settled; or `budget` groups; or all that the plan had.

use super::assembly::Settled;

#[derive(Debug)]
pub(crate) struct Filling {
    /// The groups in order of dispatch.
    places: Vec<(u32, Option<Settled>)>,
    batch: usize,
    budget: usize,
}

impl Filling {
    pub(crate) fn new(batch: usize, budget: usize) -> Self {
        Self { places: Vec::new(), batch, budget }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(crate) fn wants_more(&self) -> bool {
        let settled = self.places.iter().filter_map(|(_, settled)| settled.as_ref());
        let taught_nothing = settled.filter(|settled| !settled.is_informative()).count();
        self.places.len() < self.budget.min(self.batch + taught_nothing)
    }

    pub(crate) fn push(&mut self, position: u32) {
        self.places.push((position, None));
    }

    pub(crate) fn settle(&mut self, settled: Settled) {
        if let Some((_, place)) = self.places.iter_mut().find(|(position, _)| *position == settled.position) {
            *place = Some(settled);
        }
    }

    /// Gives up a group; another one may take its place.
    pub(crate) fn remove(&mut self, position: u32) {
        self.places.retain(|(place, _)| *place != position);
    }

    /// Whether all groups are settled. The batch is then complete if the caller added groups whenever it wanted more.
    pub(crate) fn is_whole(&self) -> bool {
        self.places.iter().all(|(_, settled)| settled.is_some())
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.places.iter().filter(|(_, settled)| settled.is_none()).count()
    }

    pub(crate) fn waiting(&self) -> usize {
        let settled = self.places.iter().filter_map(|(_, settled)| settled.as_ref());
        settled.filter(|settled| settled.is_informative()).count()
    }

    pub(crate) fn into_groups(self) -> Vec<Settled> {
        self.places.into_iter().filter_map(|(_, settled)| settled).collect()
    }
}
