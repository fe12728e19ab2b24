//! Advantages, losses and derivatives against the numbers that `ci/golden` got: `learn.py` from PyTorch, `papers.py` from the
//! formulas of the papers by finite differences, `trl_grpo.py` from TRL.

use clawrl_core::{AttemptId, SlotId};
use clawrl_learn::{
    AdvantageKind, Aggregation, CandidateWeight, Candidates, Clip, Distillation, LossFigures, PolicyLoss,
    Segment, SegmentLoss, StepTotals, Surrogate, Terms, TrainSample, Weighting, advantages, imitation,
    policy_gradient, token_weights, top_k,
};
use serde::Deserialize;
use std::collections::BTreeMap;

const ADVANTAGES: &str = include_str!("../golden/advantage.json");
const LOSSES: &str = include_str!("../golden/loss.json");
const PAPERS: &str = include_str!("../golden/papers.json");
const TRL: &str = include_str!("../golden/trl.json");
const CANDIDATES: &str = include_str!("../golden/candidates.json");
/// Relative to the number, or absolute below 1.
const TOLERANCE: f64 = 1e-6;

#[derive(Deserialize)]
struct AdvantageFile {
    cases: Vec<AdvantageCase>,
}

#[derive(Deserialize)]
struct AdvantageCase {
    kind: AdvantageKind,
    rewards: Vec<f64>,
    advantages: Vec<f64>,
}

#[derive(Deserialize)]
struct LossFile {
    #[serde(default)]
    advantages: Vec<AdvantageCase>,
    steps: BTreeMap<String, Vec<Sample>>,
    cases: Vec<LossCase>,
}

#[derive(Deserialize)]
struct Sample {
    episode: u32,
    mask: Vec<bool>,
    current: Vec<f32>,
    proximal: Vec<f32>,
    behaviour: Vec<f32>,
    advantages: Vec<f32>,
    reference: Vec<f32>,
    teacher: Vec<Option<f32>>,
}

#[derive(Deserialize)]
struct CandidateFile {
    cases: Vec<CandidateCase>,
}

#[derive(Deserialize)]
struct CandidateCase {
    counts: CandidateWeight,
    clip: Clip,
    distillation: Distillation,
    rows: Vec<CandidateRow>,
    loss: f64,
    d_current: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct CandidateRow {
    current: Vec<f32>,
    proximal: Vec<f32>,
    teacher: Vec<f32>,
    weight: f64,
}

#[derive(Deserialize)]
struct LossCase {
    step: String,
    /// None for imitation.
    config: Option<PolicyLoss>,
    loss: f64,
    d_current: Vec<Vec<f64>>,
    dropped: u64,
}

fn check(what: &str, got: f64, expected: f64) {
    let is_close = (got - expected).abs() <= TOLERANCE * expected.abs().max(1.0);
    assert!(is_close, "{what}: {got} is not {expected}");
}

fn train_sample(sample: &Sample) -> TrainSample {
    let mut segment = Segment::default();
    segment.push_context(&vec![0; sample.mask.len()]);
    segment.mask.clone_from(&sample.mask);
    segment.behaviour.clone_from(&sample.behaviour);
    let attempt = AttemptId { slot: SlotId(sample.episode), number: 0 };
    TrainSample {
        attempt,
        segment,
        advantages: sample.advantages.clone(),
        episode: sample.episode,
        teacher: Vec::new(),
        candidates: Vec::new(),
    }
}

fn segment_loss(config: Option<&PolicyLoss>, sample: &Sample, weights: &[f64]) -> SegmentLoss {
    let Some(config) = config else { return imitation(&sample.current, &sample.mask, weights) };
    let terms = Terms {
        current: &sample.current,
        proximal: &sample.proximal,
        behaviour: &sample.behaviour,
        advantages: &sample.advantages,
        mask: &sample.mask,
        weights,
        reference: Some(&sample.reference),
        teacher: Some(&sample.teacher),
    };
    policy_gradient(config, terms)
}

#[test]
fn advantages_are_those_of_pytorch() {
    let file: AdvantageFile = serde_json::from_str(ADVANTAGES).unwrap();
    assert!(file.cases.len() >= 30);
    for AdvantageCase { kind, rewards, advantages: expected } in &file.cases {
        let got = advantages(*kind, rewards).unwrap();
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(expected) {
            check(&format!("{kind:?} of {rewards:?}"), *got, *expected);
        }
    }
}

fn check_losses(text: &str) {
    let file: LossFile = serde_json::from_str(text).unwrap();
    assert!(!file.cases.is_empty());
    for case in &file.cases {
        if let Some(config) = case.config {
            config.check().unwrap();
        }
        let name = format!("{} with {:?}", case.step, case.config);
        let step = &file.steps[&case.step];
        let samples: Vec<TrainSample> = step.iter().map(train_sample).collect();
        let samples: Vec<&TrainSample> = samples.iter().collect();
        let aggregation = case.config.map_or(Aggregation::TokenMean, |config| config.aggregation);
        let weights = token_weights(aggregation, StepTotals::of(&samples), &samples);

        let (mut loss, mut figures) = (0.0, LossFigures::default());
        for ((sample, weights), expected) in step.iter().zip(&weights).zip(&case.d_current) {
            let of_segment = segment_loss(case.config.as_ref(), sample, weights);
            assert_eq!(of_segment.d_current.len(), expected.len());
            for (got, expected) in of_segment.d_current.iter().zip(expected) {
                check(&name, f64::from(*got), *expected);
            }
            loss += of_segment.loss;
            figures += of_segment.figures;
        }
        check(&name, loss, case.loss);
        assert_eq!(figures.dropped_segments, case.dropped, "{name}");
    }
}

#[test]
fn losses_and_derivatives_are_those_of_pytorch() {
    check_losses(LOSSES);
}

#[test]
fn losses_and_derivatives_are_those_of_the_papers() {
    check_losses(PAPERS);
}

#[test]
fn losses_and_derivatives_are_those_of_trl() {
    check_losses(TRL);
}

/// TRL adds more to the standard deviation of a group than we do.
#[test]
fn advantages_are_those_of_trl() {
    let file: LossFile = serde_json::from_str(TRL).unwrap();
    assert!(!file.advantages.is_empty());
    for AdvantageCase { kind, rewards, advantages: expected } in &file.advantages {
        let members = rewards.len() as f64;
        let mean = rewards.iter().sum::<f64>() / members;
        let squares: f64 = rewards.iter().map(|reward| (reward - mean).powi(2)).sum();
        let std = (squares / (members - 1.0)).sqrt();
        let scale = if *kind == AdvantageKind::Grpo { (std + 1e-6) / (std + 1e-4) } else { 1.0 };
        for (got, expected) in advantages(*kind, rewards).unwrap().iter().zip(expected) {
            check(&format!("{kind:?} of {rewards:?}"), got * scale, *expected);
        }
    }
}

#[test]
fn candidates_are_those_of_pytorch() {
    let file: CandidateFile = serde_json::from_str(CANDIDATES).unwrap();
    let mut clipped = 0;
    for case in &file.cases {
        let rows: Vec<Option<Candidates<'_>>> = case
            .rows
            .iter()
            .map(|CandidateRow { current, proximal, teacher, .. }| {
                Some(Candidates { current, proximal, teacher })
            })
            .collect();
        let weights: Vec<f64> = case.rows.iter().map(|row| row.weight).collect();
        let got = top_k(&case.distillation, case.counts, case.clip, &rows, &weights);
        check("loss", got.loss, case.loss);
        for (got, expected) in got.d_current.iter().flatten().zip(case.d_current.iter().flatten()) {
            check("derivative", f64::from(*got), *expected);
            clipped += usize::from(*expected == 0.0);
        }
    }
    assert!(clipped > 5, "{clipped} clipped");
}

/// The numbers are worth nothing if they never leave the flat part of the loss.
#[test]
fn the_numbers_reach_every_branch() {
    let file: LossFile = serde_json::from_str(LOSSES).unwrap();
    let (mut clipped, mut dropped, mut unweighted) = (0, 0, false);
    let (mut sequences, mut cispo, mut kept_near, mut taught) = (0, 0, 0, 0);
    for case in file.cases.iter() {
        let Some(config) = case.config else { continue };
        dropped += case.dropped;
        unweighted |= config.weighting == Weighting::None;
        sequences += usize::from(matches!(config.surrogate, Surrogate::Sequence { .. }));
        cispo += usize::from(matches!(config.surrogate, Surrogate::Cispo { .. }));
        kept_near += usize::from(config.kl.is_some());
        taught += usize::from(config.distillation.is_some());
        for (sample, expected) in file.steps[&case.step].iter().zip(&case.d_current) {
            let trained = sample.mask.iter().zip(expected).filter(|(trained, _)| **trained);
            clipped += trained.filter(|(_, derivative)| **derivative == 0.0).count();
        }
    }
    assert!(clipped > 100 && dropped > 10 && unweighted, "{clipped} clipped, {dropped} dropped");
    assert!(sequences.min(cispo).min(kept_near).min(taught) >= file.steps.len() * 2);
}
