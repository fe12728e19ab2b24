//! A piece: the rows of a few samples, and their predictions.
//!
//! I1. Exactly one row predicts each trained token of a sample, and it sees exactly the tokens before the trained one. I2.
//! Every row either predicts or is attended to by a predicting row. I3. A piece has at most the allowed number of rows, or
//! consists of one sample.
//!
//! Units: tokens. Pure.

use std::ops::Range;

use clawrl_learn::TrainSample;

use super::prefixes::families;
use crate::learner::micro_batch::{
    Derivatives, Part, Predictions, Scores, by_sample, of_predictions, spread,
};

/// Rows that attend causally to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    /// Rows that all own rows attend to.
    pub(super) prefix: Range<usize>,
    /// Rows that attend.
    pub(super) own: Range<usize>,
}

impl Span {
    /// Keys.
    pub(super) fn len(&self) -> usize {
        self.prefix.len() + self.own.len()
    }

    /// Number of keys that the own rows before `end` see.
    pub(super) fn seen(&self, end: usize) -> usize {
        self.prefix.len() + end - self.own.start
    }

    /// Rows of the keys, in order.
    pub(super) fn rows(&self) -> impl Iterator<Item = usize> {
        self.prefix.clone().chain(self.own.clone())
    }

    /// Some columns of the keys' rows.
    pub(super) fn keys<'a>(
        &self,
        matrix: &'a [f32],
        width: usize,
        columns: Range<usize>,
    ) -> impl ExactSizeIterator<Item = &'a [f32]> {
        let (prefix, own) = (self.prefix.clone(), self.own.clone());
        (0..self.len()).map(move |key| {
            let row = match key.checked_sub(prefix.len()) {
                None => prefix.start + key,
                Some(key) => own.start + key,
            };
            &matrix[row * width + columns.start..row * width + columns.end]
        })
    }
}

/// Samples that go through the model together.
#[derive(Debug, Default)]
pub(crate) struct Piece<'a> {
    /// Indices of the samples in the batch.
    pub(crate) indices: Vec<usize>,
    /// Number of tokens of the samples; shared tokens count for each sample.
    pub(crate) tokens: u64,
    /// Token of each row.
    pub(super) ids: Vec<i64>,
    /// Position of each row in its sample.
    pub(super) positions: Vec<usize>,
    pub(super) spans: Vec<Span>,
    /// Predicting row of each prediction.
    pub(super) predicting: Vec<usize>,
    /// Predicted token.
    pub(super) targets: Vec<usize>,
    /// Sampling temperature of the predicted token.
    pub(super) temperatures: Vec<f32>,
    /// Other tokens that are scored.
    pub(super) candidates: Vec<&'a [u32]>,
    parts: Vec<Part<'a>>,
}

impl Piece<'_> {
    /// The scores of the predictions, by sample.
    pub(super) fn scores(&self, predictions: &Predictions) -> Scores {
        by_sample(&self.parts, predictions)
    }

    /// Rows of all predictions, by sample and position.
    pub(super) fn spread<T: Clone + Default>(&self, of_predictions: &[T]) -> Vec<Vec<T>> {
        self.parts.iter().map(|part| spread(part, of_predictions)).collect()
    }

    /// Converts derivatives by sample to derivatives by prediction.
    pub(super) fn derivatives(&self, by_sample: &[Derivatives]) -> Derivatives {
        of_predictions(&self.parts, by_sample)
    }
}

/// Splits the chosen samples into pieces of at most `most_rows` rows. Each sample is in one piece, or in none if it has no
/// trained token.
pub(crate) fn pieces<'a>(samples: &'a [TrainSample], chosen: &[usize], most_rows: usize) -> Vec<Piece<'a>> {
    let chosen: Vec<usize> =
        chosen.iter().copied().filter(|&index| needed(&samples[index]).is_some()).collect();
    let tokens: Vec<&[u32]> = chosen.iter().filter_map(|&index| needed(&samples[index])).collect();
    let mut pieces: Vec<Piece<'a>> = Vec::new();
    for family in families(&tokens) {
        // A family goes into one piece if possible; otherwise as many members as fit go into each.
        let rows: usize = family.members.iter().map(|&member| tokens[member].len() - family.prefix).sum();
        if pieces.last().is_none_or(|piece| piece.ids.len() + family.prefix + rows > most_rows) {
            pieces.push(Piece::default());
        }
        let mut open: Option<Range<usize>> = None;
        for member in family.members {
            let own = tokens[member].len() - family.prefix;
            let prefix = if open.is_none() { family.prefix } else { 0 };
            if pieces
                .last()
                .is_none_or(|piece| !piece.is_empty() && piece.ids.len() + prefix + own > most_rows)
            {
                pieces.push(Piece::default());
                open = None;
            }
            if let Some(piece) = pieces.last_mut() {
                let shared = &tokens[member][..family.prefix];
                let prefix = open.get_or_insert_with(|| piece.add_rows(shared, 0..0)).clone();
                piece.add(chosen[member], &samples[chosen[member]], tokens[member], prefix);
            }
        }
    }
    pieces
}

/// The tokens of a sample up to the one before its last trained one.
fn needed(sample: &TrainSample) -> Option<&[u32]> {
    // Nothing predicts the first token, regardless of its mask.
    let last = sample.segment.mask.iter().rposition(|&trained| trained)?;
    (last > 0).then(|| &sample.segment.ids[..last])
}

impl<'a> Piece<'a> {
    fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Appends rows that attend to the prefix and themselves.
    fn add_rows(&mut self, tokens: &[u32], prefix: Range<usize>) -> Range<usize> {
        let own = self.ids.len()..self.ids.len() + tokens.len();
        self.ids.extend(tokens.iter().map(|&id| i64::from(id)));
        self.positions.extend(prefix.len()..prefix.len() + tokens.len());
        if !own.is_empty() {
            self.spans.push(Span { prefix, own: own.clone() });
        }
        own
    }

    fn add(&mut self, index: usize, sample: &'a TrainSample, tokens: &[u32], prefix: Range<usize>) {
        let own = self.add_rows(&tokens[prefix.len()..], prefix.clone());
        let segment = &sample.segment;
        let positions: Vec<usize> = (1..=tokens.len()).filter(|&at| segment.mask[at]).collect();
        let first = self.predicting.len();
        for &at in &positions {
            let row = match (at - 1).checked_sub(prefix.len()) {
                None => prefix.start + at - 1,
                Some(place) => own.start + place,
            };
            self.predicting.push(row);
            self.targets.push(segment.ids[at] as usize);
            self.temperatures.push(segment.temperatures[at]);
            self.candidates.push(sample.candidates_at(at));
        }
        self.indices.push(index);
        self.tokens += segment.len() as u64;
        self.parts.push(Part { sample, predictions: first..self.predicting.len(), positions });
    }
}
