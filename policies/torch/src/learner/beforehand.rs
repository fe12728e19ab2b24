//! Log-probabilities of a batch before its first step: under the present parameters, the reference and the teacher.
//!
//! I1. They are constant during all steps of the batch. I2. The teacher scores a token at its sampling temperature, and the
//! first token of a reply like every other: from the row before it. I3. If several views contain a token, the one with the
//! shortest context counts; for candidates, the one that has most of them among its most probable tokens.
//!
//! Shapes: T tokens of a sample, K candidates of each.

use clawrl_learn::{
    DistillationForm, Learner as _, Objective, TeacherView, TrainBatch, TrainSample, ViewPlace,
};

use super::micro_batch::Scores;
use super::targets::Teacher;
use super::torch_learner::TorchLearner;
use crate::error::TorchError;
use crate::model::Params;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Beforehand {
    /// Under the parameters at the start of the batch, if these are not the present ones; T for each sample.
    pub(super) proximal: Option<Vec<Vec<f32>>>,
    /// Under the reference; T for each sample.
    pub(super) reference: Option<Vec<Vec<f32>>>,
    /// Under the teacher, for the sampled tokens that its views contain; T for each sample.
    pub(super) teacher: Option<Vec<Vec<Option<f32>>>>,
    /// Present if the loss learns from candidates.
    pub(super) candidates: Option<CandidateScores>,
}

/// The samples with their candidates, and the teacher's log-probabilities of these: T x K for each sample, empty rows for
/// tokens in no view.
#[derive(Debug)]
pub(super) struct CandidateScores {
    samples: Vec<TrainSample>,
    pub(super) proximal: Vec<Vec<Vec<f32>>>,
    pub(super) teacher: Vec<Vec<Vec<f32>>>,
}

impl Beforehand {
    /// The samples of a batch as its steps score them.
    pub(super) fn samples<'a>(&'a self, batch: &'a TrainBatch) -> &'a [TrainSample] {
        self.candidates.as_ref().map_or(&batch.samples, |candidates| &candidates.samples)
    }
}

/// A view, and the sample whose tokens it contains.
#[derive(Debug, Clone, Copy)]
struct Asked<'a> {
    index: usize,
    view: &'a TeacherView,
}

impl TorchLearner {
    /// See the module. `several`: whether the batch has more than one step.
    pub(super) fn beforehand(&self, batch: &TrainBatch, several: bool) -> Result<Beforehand, TorchError> {
        let mut beforehand = Beforehand::default();
        if batch.objective == Objective::Imitation {
            return Ok(beforehand);
        }
        let samples = &batch.samples;
        if let Some(reference) = self.targets.reference().filter(|_| self.config.loss.kl.is_some()) {
            beforehand.reference = Some(self.score(reference, samples)?.logprobs);
        }
        let distillation = self.config().loss.at(self.version()).distillation;
        if let Some((teacher, distillation)) = self.targets.teacher(&self.params).zip(distillation) {
            let asked = asked(samples)?;
            match distillation.form {
                DistillationForm::Sampled => {
                    beforehand.teacher = Some(self.ask_about_sampled(teacher, samples, &asked)?);
                }
                DistillationForm::TopK { k, .. } if !asked.is_empty() => {
                    let (candidates, proximal) =
                        self.ask_about_candidates(teacher, samples, &asked, k.get() as usize)?;
                    beforehand.candidates = Some(candidates);
                    beforehand.proximal = Some(proximal).filter(|_| several);
                }
                DistillationForm::TopK { .. } => {}
            }
        }
        if self.config.teacher == Some(Teacher::Elsewhere) {
            beforehand.teacher = Some(said_elsewhere(samples)?);
        }
        // With one step the present log-probabilities are the proximal ones, so no forward pass is needed.
        if several && beforehand.proximal.is_none() {
            beforehand.proximal = Some(self.score(&self.params, samples)?.logprobs);
        }
        Ok(beforehand)
    }

    fn ask_about_sampled(
        &self,
        teacher: &Params,
        samples: &[TrainSample],
        asked: &[Asked<'_>],
    ) -> Result<Vec<Vec<Option<f32>>>, TorchError> {
        let views: Vec<TrainSample> = asked.iter().map(|asked| as_sample(samples, *asked, None)).collect();
        let scores = self.score(teacher, &views)?.logprobs;
        let mut said = Said::nothing(samples);
        for (&Asked { index, view }, scores) in asked.iter().zip(scores) {
            for place in view.asked(&samples[index].segment) {
                said.add(index, place, scores[place.view]);
            }
        }
        Ok(said.logprobs)
    }

    /// The second value has the form of [`Beforehand::proximal`].
    fn ask_about_candidates(
        &self,
        teacher: &Params,
        samples: &[TrainSample],
        asked: &[Asked<'_>],
        k: usize,
    ) -> Result<(CandidateScores, Vec<Vec<f32>>), TorchError> {
        let mut samples = samples.to_vec();
        let found = self.most_probable(&self.params, &samples, k)?;
        for (sample, candidates) in samples.iter_mut().zip(found) {
            sample.candidates = candidates;
        }
        let plain: Vec<TrainSample> = asked.iter().map(|asked| as_sample(&samples, *asked, None)).collect();
        let several = is_asked_twice(&samples, asked);
        let favourites = if several { self.most_probable(teacher, &plain, k)? } else { Vec::new() };
        let views: Vec<TrainSample> =
            asked.iter().map(|asked| as_sample(&samples, *asked, Some(&samples[asked.index]))).collect();
        let scores = self.score(teacher, &views)?.candidates;

        let rows = |sample: &TrainSample| vec![Vec::new(); sample.segment.len()];
        let mut said: Vec<Vec<Vec<f32>>> = samples.iter().map(rows).collect();
        let mut overlaps: Vec<Vec<usize>> =
            samples.iter().map(|sample| vec![0; sample.segment.len()]).collect();
        for (at, (&Asked { index, view }, scores)) in asked.iter().zip(&scores).enumerate() {
            for place in view.asked(&samples[index].segment) {
                let candidates = samples[index].candidates_at(place.segment);
                let overlap = favourites.get(at).map_or(0, |favourites| {
                    candidates.iter().filter(|candidate| favourites[place.view].contains(candidate)).count()
                });
                let (best, row) = (&mut overlaps[index][place.segment], &mut said[index][place.segment]);
                if row.is_empty() || overlap > *best {
                    *best = overlap;
                    row.clone_from(&scores[place.view]);
                }
            }
        }
        // A token in no view has no candidates to learn from.
        for (sample, said) in samples.iter_mut().zip(&said) {
            for (candidates, said) in sample.candidates.iter_mut().zip(said) {
                if said.is_empty() {
                    candidates.clear();
                }
            }
        }
        let Scores { logprobs, candidates: proximal, .. } = self.score(&self.params, &samples)?;
        Ok((CandidateScores { samples, proximal, teacher: said }, logprobs))
    }
}

/// The teacher's log-probabilities of sampled tokens, T for each sample (I3).
struct Said {
    logprobs: Vec<Vec<Option<f32>>>,
    /// Length of the context in the chosen view.
    lengths: Vec<Vec<usize>>,
}

impl Said {
    fn nothing(samples: &[TrainSample]) -> Self {
        Self {
            logprobs: samples.iter().map(|sample| vec![None; sample.segment.len()]).collect(),
            lengths: samples.iter().map(|sample| vec![usize::MAX; sample.segment.len()]).collect(),
        }
    }

    fn add(&mut self, index: usize, place: ViewPlace, logprob: f32) {
        let shortest = &mut self.lengths[index][place.segment];
        if place.view < *shortest {
            *shortest = place.view;
            self.logprobs[index][place.segment] = Some(logprob);
        }
    }
}

/// The log-probabilities that came with the views.
fn said_elsewhere(samples: &[TrainSample]) -> Result<Vec<Vec<Option<f32>>>, TorchError> {
    let mut said = Said::nothing(samples);
    for Asked { index, view } in asked(samples)? {
        view.answered(&samples[index].segment).for_each(|(place, logprob)| said.add(index, place, logprob));
    }
    Ok(said.logprobs)
}

/// All views of all samples.
fn asked(samples: &[TrainSample]) -> Result<Vec<Asked<'_>>, TorchError> {
    let mut asked = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        for view in &sample.teacher {
            if !view.is_of(&sample.segment) {
                let attempt = sample.attempt;
                return Err(TorchError::Model(format!("a teacher's view of {attempt} is of other tokens")));
            }
            asked.push(Asked { index, view });
        }
    }
    Ok(asked)
}

fn is_asked_twice(samples: &[TrainSample], asked: &[Asked<'_>]) -> bool {
    let mut seen: Vec<Vec<bool>> = samples.iter().map(|sample| vec![false; sample.segment.len()]).collect();
    asked.iter().any(|&Asked { index, view }| {
        let mut places = view.asked(&samples[index].segment);
        places.any(|place| std::mem::replace(&mut seen[index][place.segment], true))
    })
}

/// A view as a sample that can be scored, with the candidates of its own sample, if they are to be scored.
fn as_sample(samples: &[TrainSample], asked: Asked<'_>, of: Option<&TrainSample>) -> TrainSample {
    let Asked { index, view } = asked;
    let segment = view.segment(&samples[index].segment);
    let mut candidates = Vec::new();
    if let Some(of) = of {
        candidates = vec![Vec::new(); segment.len()];
        for ViewPlace { view, segment } in view.asked(&of.segment) {
            candidates[view] = of.candidates_at(segment).to_vec();
        }
    }
    TrainSample {
        attempt: samples[index].attempt,
        advantages: Vec::new(),
        segment,
        episode: samples[index].episode,
        teacher: Vec::new(),
        candidates,
    }
}
