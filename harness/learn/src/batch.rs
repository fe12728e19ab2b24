//! Episodes, groups and batches: the input of the learner.

use clawrl_core::{AttemptId, GroupId};
use serde::{Deserialize, Serialize};

use crate::Segment;

/// The part of a slot's final attempt that the learner uses.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// The attempt.
    pub attempt: AttemptId,
    /// Return of the episode.
    pub reward: f64,
    /// Process reward of each turn that got one.
    pub process: Vec<Option<f64>>,
    /// The segments in order. An episode of several segments stays one episode.
    pub segments: Vec<Segment>,
    /// The views of the teacher on each segment: one entry for each segment; empty without a teacher.
    pub views: Vec<Vec<TeacherView>>,
}

impl Episode {
    /// Whether a teacher scores any of its tokens.
    #[must_use]
    pub fn is_taught(&self) -> bool {
        self.views.iter().flatten().any(|view| !view.places.is_empty())
    }
}

/// The members of a group that did not fault, and the number that did.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The id of the group, which is also its place in the order of dispatch.
    pub id: GroupId,
    /// Valid members in order of slot. Faulted and cancelled ones are not members.
    pub episodes: Vec<Episode>,
    /// Members that faulted.
    pub faulted: u32,
}

/// The objective of an optimizer step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Clipped policy gradient over sampled tokens.
    PolicyGradient,
    /// Mean negative log-likelihood of the trained tokens.
    Imitation,
}

/// The context in which a teacher scores tokens of a segment: the context of the segment, with an addition that the policy
/// did not see.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TeacherView {
    /// The tokens of the view, up to the last one to be scored.
    pub ids: Vec<u32>,
    /// The tokens to be scored, in ascending order.
    pub places: Vec<ViewPlace>,
    /// Log-probabilities from a remote teacher, one for each token, nats; `None` if the learner runs the teacher itself.
    pub said: Option<Vec<f32>>,
}

/// The position of a token in a view and in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewPlace {
    /// Position in the view; at least 1, because the first token has no prediction.
    pub view: usize,
    /// Position in the segment.
    pub segment: usize,
}

impl TeacherView {
    /// Whether each place is the same token in both and not the first one, and either all places have a score or none has.
    #[must_use]
    pub fn is_of(&self, segment: &Segment) -> bool {
        let ascending = self.places.windows(2).all(|pair| pair[0].view < pair[1].view);
        let said = self.said.as_ref();
        let answered = said.is_none_or(|said| {
            said.len() == self.places.len() && said.iter().all(|logprob| logprob.is_finite())
        });
        ascending
            && answered
            && self.places.iter().all(|place| {
                let (here, there) = (self.ids.get(place.view), segment.ids.get(place.segment));
                place.view > 0 && here.is_some() && here == there
            })
    }

    /// The places of tokens that are trained on: some may have become too old since the view was made.
    pub fn asked(&self, of: &Segment) -> impl Iterator<Item = ViewPlace> {
        self.places.iter().copied().filter(|place| of.mask[place.segment])
    }

    /// The same places, each with the log-probability of a remote teacher.
    pub fn answered(&self, of: &Segment) -> impl Iterator<Item = (ViewPlace, f32)> {
        let said = self.said.as_deref().unwrap_or_default();
        self.places.iter().copied().zip(said.iter().copied()).filter(|(place, _)| of.mask[place.segment])
    }

    /// The view as a segment: its trained tokens are the tokens to be scored, at their sampling temperatures.
    #[must_use]
    pub fn segment(&self, of: &Segment) -> Segment {
        let mut view = Segment::default();
        view.push_context(&self.ids);
        for place in self.asked(of) {
            view.mask[place.view] = true;
            view.temperatures[place.view] = of.temperatures[place.segment];
        }
        view
    }
}

/// One segment with the weight of each trained token.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainSample {
    /// Names the sample in messages and in the manifest of a checkpoint.
    pub attempt: AttemptId,
    /// The tokens.
    pub segment: Segment,
    /// Advantage of each token, shape T; read only where the mask is set.
    pub advantages: Vec<f32>,
    /// Index of the episode within the batch, for aggregation by episode.
    pub episode: u32,
    /// The views of the teacher. A token in no view gets no score. A token in several views gets the score of
    /// the view with the fewest tokens before it; for candidates, of the view with the largest overlap.
    pub teacher: Vec<TeacherView>,
    /// Tokens beside the sampled one whose log-probabilities are scored, at each position: empty, or shape T. A learner that
    /// uses candidates fills it in, because the candidates are the most probable tokens of the policy.
    pub candidates: Vec<Vec<u32>>,
}

impl TrainSample {
    /// The candidates at a position; empty if none were requested.
    #[must_use]
    pub fn candidates_at(&self, position: usize) -> &[u32] {
        self.candidates.get(position).map_or(&[], Vec::as_slice)
    }
}

/// The input of one update.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainBatch {
    /// The objective to minimise.
    pub objective: Objective,
    /// The samples in packing order.
    pub samples: Vec<TrainSample>,
    /// Groups this batch uses up, those without a gradient included.
    pub groups: Vec<GroupId>,
    /// Seed of the split into minibatches.
    pub seed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_asks_about_the_same_tokens() {
        let mut segment = Segment::default();
        segment.push_context(&[1, 2]);
        segment.push_sampled(0, 7, -1.0, 0, 0.5);
        segment.push_sampled(0, 8, -1.0, 0, 0.7);
        let place = |view, segment| ViewPlace { view, segment };
        let view =
            TeacherView { ids: vec![1, 2, 9, 9, 7, 8], places: vec![place(4, 2), place(5, 3)], said: None };
        assert!(view.is_of(&segment));
        let as_segment = view.segment(&segment);
        assert_eq!(as_segment.mask, [false, false, false, false, true, true]);
        assert_eq!(as_segment.temperatures[4..], [0.5, 0.7]);
        for places in
            [vec![place(3, 2)], vec![place(4, 3)], vec![place(5, 3), place(4, 2)], vec![place(9, 2)]]
        {
            assert!(!TeacherView { places, ..view.clone() }.is_of(&segment));
        }
        for (said, fits) in [(vec![-1.0, -0.5], true), (vec![-1.0], false), (vec![-1.0, f32::NAN], false)] {
            assert_eq!(TeacherView { said: Some(said), ..view.clone() }.is_of(&segment), fits);
        }
        let first = TeacherView { ids: vec![7], places: vec![place(0, 2)], said: None };
        assert!(!first.is_of(&segment), "nothing predicts it");
        segment.mask[2] = false;
        assert_eq!(view.segment(&segment).mask, [false, false, false, false, false, true]);
        assert_eq!(view.answered(&segment).count(), 0);
        let answered = TeacherView { said: Some(vec![-1.0, -0.5]), ..view };
        assert_eq!(answered.answered(&segment).collect::<Vec<_>>(), [(place(5, 3), -0.5)]);
    }
}
