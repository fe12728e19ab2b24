//! Compares the thread pool with autograd, and with itself.

use std::num::NonZeroUsize;
use std::sync::Arc;

use clawrl_core::{AttemptId, SlotId, SplitMix64};
use clawrl_learn::{Segment, TrainSample};
use tch::{Device, Kind};

use super::{Crew, pieces};
use crate::configure_threads;
use crate::learner::backward::{Activations, Gradients};
use crate::learner::micro_batch::{Derivatives, MicroBatch, Scores};
use crate::model::{Adapted, ModelConfig, ParamLayout, Params, Rope, init_params};
use crate::turns::Turns;

const VOCABULARY: u64 = 96;

fn model(heads: i64, key_heads: i64, head_dim: i64, tied: bool) -> Params {
    let mut config = ModelConfig::tiny(VOCABULARY as i64, 1);
    config.num_hidden_layers = 2;
    config.num_attention_heads = heads;
    config.num_key_value_heads = key_heads;
    config.head_dim = head_dim;
    config.hidden_size = 48;
    config.intermediate_size = 72;
    config.tie_word_embeddings = tied;
    let params = init_params(Arc::new(ParamLayout::new(config)), 3, Device::Cpu).unwrap();
    // Norms are all 1 in a fresh model.
    for layer in 0..2 {
        let layer = params.layer(layer).unwrap();
        for (norm, seed) in
            [layer.input_norm, layer.q_norm, layer.k_norm, layer.post_norm].iter_mut().zip(0..)
        {
            let size = norm.size()[0];
            let wave =
                tch::Tensor::f_arange(size, (Kind::Float, Device::Cpu)).unwrap() * 0.7 + f64::from(seed);
            let _ = norm.f_add_(&(wave.sin() * 0.3)).unwrap();
        }
    }
    params
}

/// Groups of samples with one prompt each, and some alone. Replies have gaps, some samples have no trained tokens, and two
/// are equal.
fn samples(seed: u64) -> Vec<TrainSample> {
    let mut random = SplitMix64::new(seed);
    let mut samples = Vec::new();
    for (group, members) in [(0, 5), (1, 1), (2, 3), (3, 1), (4, 2)] {
        let length = [40, 3, 12, 1, 9][group];
        let prompt: Vec<u32> = (0..length).map(|_| random.below(VOCABULARY) as u32).collect();
        for member in 0..members {
            let mut segment = Segment::default();
            segment.push_context(&prompt);
            let reply = random.below(50) + 1;
            for _ in 0..reply {
                let token = random.below(VOCABULARY) as u32;
                match random.below(5) {
                    0 => segment.push_context(&[token]),
                    _ => segment.push_sampled(0, token, -2.0, 0, [0.7, 1.0][member % 2]),
                }
            }
            samples.push(sample(samples.len(), segment));
        }
    }
    samples[2].segment.mask.fill(false);
    let again = samples[1].segment.clone();
    samples.push(sample(samples.len(), again));
    // Some tokens of some samples have candidates, sometimes with the sampled token among them.
    for sample in samples.iter_mut().step_by(2) {
        let mut candidates = vec![Vec::new(); sample.segment.len()];
        for row in candidates.iter_mut().step_by(3) {
            row.extend((0..random.below(4)).map(|_| random.below(VOCABULARY) as u32));
        }
        if let Some(last) = candidates.last_mut() {
            *last = vec![sample.segment.ids[sample.segment.len() - 1], 5];
        }
        sample.candidates = candidates;
    }
    samples
}

fn sample(index: usize, segment: Segment) -> TrainSample {
    TrainSample {
        attempt: AttemptId { slot: SlotId(index as u32), number: 0 },
        advantages: vec![1.0; segment.len()],
        segment,
        episode: index as u32,
        teacher: Vec::new(),
        candidates: Vec::new(),
    }
}

/// Any derivatives that depend on sample, position and log-probability.
fn derive(indices: &[usize], scores: &Scores) -> Vec<Derivatives> {
    let derivative = |index: usize, (at, logprob): (usize, &f32)| ((index * 7 + at) as f32).sin() * logprob;
    let of = |(at, &index): (usize, &usize)| {
        let row = |logprobs: &Vec<f32>, salt: usize| {
            logprobs.iter().enumerate().map(|logprob| derivative(index + salt, logprob)).collect()
        };
        let candidates = scores.candidates.get(at).map_or(&[][..], Vec::as_slice);
        Derivatives {
            by_sampled: row(&scores.logprobs[at], 0),
            by_candidates: candidates
                .iter()
                .enumerate()
                .map(|(at, values)| row(values, 3 * at + 1))
                .collect(),
            by_entropies: row(&scores.entropies[at], 5),
        }
    };
    indices.iter().enumerate().map(of).collect()
}

/// Scores by sample, and gradients.
type Outcome = (Vec<(usize, Vec<f32>, Vec<f32>)>, Params);

fn in_order(scored: Vec<(Vec<usize>, Scores)>) -> Vec<(usize, Vec<f32>, Vec<f32>)> {
    let mut all = Vec::new();
    for (indices, scores) in scored {
        for ((index, logprobs), entropies) in indices.into_iter().zip(scores.logprobs).zip(scores.entropies) {
            all.push((index, logprobs, entropies));
        }
    }
    all.sort_by_key(|&(index, ..)| index);
    all
}

fn by_crew(
    params: &Params,
    samples: &[TrainSample],
    rows: usize,
    threads: usize,
    activations: Activations,
) -> Outcome {
    configure_threads(NonZeroUsize::new(threads).unwrap()).unwrap();
    let rope = Rope::new(params.layout().config(), Device::Cpu).unwrap();
    let gradients = Gradients::zeros(Arc::clone(params.layout()), Device::Cpu).unwrap();
    let crew = Crew::of(params, &rope, activations).unwrap().unwrap();
    let all: Vec<usize> = (0..samples.len()).collect();
    let pieces = pieces(samples, &all, rows);
    // Twice, so that buffers are reused.
    for _ in 0..2 {
        gradients.zero().unwrap();
        crew.descend(params, &pieces, &gradients, |piece, scores| (derive(&piece.indices, &scores), ()))
            .unwrap();
    }
    let scores = crew.score(params, &pieces).unwrap();
    let scored = pieces.iter().map(|piece| piece.indices.clone()).zip(scores).collect();
    (in_order(scored), gradients.params)
}

fn by_autograd(params: &Params, samples: &[TrainSample], activations: Activations) -> Outcome {
    configure_threads(NonZeroUsize::MIN).unwrap();
    let rope = Rope::new(params.layout().config(), Device::Cpu).unwrap();
    let gradients = Gradients::zeros(Arc::clone(params.layout()), Device::Cpu).unwrap();
    let indices: Vec<usize> =
        (0..samples.len()).filter(|&index| samples[index].segment.mask[1..].contains(&true)).collect();
    let members: Vec<&TrainSample> = indices.iter().map(|&index| &samples[index]).collect();
    let batch = MicroBatch::pack(params.layout().config(), &rope, &members, Device::Cpu).unwrap().unwrap();
    batch
        .descend(Adapted::whole(params), activations, &gradients, &Turns::default(), |scores| {
            derive(&indices, &scores)
        })
        .unwrap();
    let scores = tch::no_grad(|| batch.score(Adapted::whole(params), &Turns::default())).unwrap();
    (in_order(vec![(indices, scores)]), gradients.params)
}

#[track_caller]
fn assert_close((scores, gradients): &Outcome, (expected_scores, expected): &Outcome) {
    assert_eq!(scores.len(), expected_scores.len());
    for ((index, logprobs, entropies), (expected_index, expected_logprobs, expected_entropies)) in
        scores.iter().zip(expected_scores)
    {
        assert_eq!(index, expected_index);
        for (got, expected) in [(logprobs, expected_logprobs), (entropies, expected_entropies)] {
            assert_eq!(got.len(), expected.len());
            for (got, expected) in got.iter().zip(expected) {
                assert!((got - expected).abs() <= 2e-5, "sample {index}: {got}, not {expected}");
            }
        }
    }
    for spec in expected.layout().specs() {
        let double = |params: &Params| params.view(spec).unwrap().f_to_kind(Kind::Double).unwrap();
        let (got, expected) = (double(gradients), double(expected));
        let norm = |tensor: &tch::Tensor| f64::try_from(tensor.norm()).unwrap();
        let distance = norm(&(&got - &expected)) / norm(&expected);
        assert!(norm(&expected) > 0.0 && distance <= 1e-5, "{}: {distance:e}", spec.name);
    }
}

#[test]
fn i1_it_is_the_function_that_autograd_derives() {
    for (heads, key_heads, head_dim, tied) in [(4, 2, 16, true), (3, 3, 32, false), (4, 1, 48, true)] {
        let (params, samples) = (model(heads, key_heads, head_dim, tied), samples(5));
        let expected = by_autograd(&params, &samples, Activations::Keep);
        for (rows, threads) in [(4096, 1), (100, 2), (1, 1)] {
            assert_close(&by_crew(&params, &samples, rows, threads, Activations::Keep), &expected);
        }
    }
}

#[test]
fn the_most_probable_are_those_of_autograd() {
    let (params, samples) = (model(4, 2, 16, true), samples(9));
    let rope = Rope::new(params.layout().config(), Device::Cpu).unwrap();
    let crew = Crew::of(&params, &rope, Activations::Keep).unwrap().unwrap();
    let chosen: Vec<usize> = (0..samples.len()).filter(|&index| index != 2).collect();
    let members: Vec<&TrainSample> = chosen.iter().map(|&index| &samples[index]).collect();
    let batch = MicroBatch::pack(params.layout().config(), &rope, &members, Device::Cpu).unwrap().unwrap();
    let expected = batch.most_probable(Adapted::whole(&params), 5, &Turns::default()).unwrap();
    let pieces = pieces(&samples, &chosen, 60);
    let found = crew.most_probable(&params, &pieces, 5).unwrap();
    let mut seen = 0;
    for (piece, found) in pieces.iter().zip(found) {
        for (&index, rows) in piece.indices.iter().zip(found) {
            let place = chosen.iter().position(|&other| other == index).unwrap();
            assert_eq!(rows, expected[place], "sample {index}");
            seen += rows.iter().filter(|row| row.len() == 5).count();
        }
    }
    let trained: usize = chosen.iter().map(|&index| samples[index].segment.trained()).sum();
    assert_eq!(seen, trained);
}

#[test]
fn i2_the_bits_do_not_depend_on_threads() {
    let (params, samples) = (model(4, 2, 16, true), samples(6));
    let one = by_crew(&params, &samples, 60, 1, Activations::Keep);
    for threads in [2, 3, 16] {
        let (scores, gradients) = by_crew(&params, &samples, 60, threads, Activations::Keep);
        assert_eq!(scores, one.0);
        assert!(gradients.flat().equal(one.1.flat()), "{threads} threads");
    }
}

#[test]
fn i3_activations_computed_again_give_the_same_bits() {
    let (params, samples) = (model(4, 2, 16, true), samples(7));
    let crew = |activations| by_crew(&params, &samples, 100, 2, activations);
    let autograd = |activations| by_autograd(&params, &samples, activations);
    for (kept, again) in [
        (crew(Activations::Keep), crew(Activations::Recompute)),
        (autograd(Activations::Keep), autograd(Activations::Recompute)),
    ] {
        assert_eq!(kept.0, again.0);
        assert!(kept.1.flat().equal(again.1.flat()));
    }
}

#[test]
fn shared_prompts_are_computed_once() {
    let samples = samples(8);
    let all: Vec<usize> = (0..samples.len()).collect();
    let rows = |most| pieces(&samples, &all, most).iter().map(|piece| piece.ids.len()).sum::<usize>();
    let alone: usize =
        samples.iter().filter_map(|sample| sample.segment.mask.iter().rposition(|&trained| trained)).sum();
    assert_eq!(rows(1), alone);
    // Group 0 has four members that train, group 2 three, group 4 two, and one sample of group 0 is there twice.
    let twice = samples[1].segment.mask.iter().rposition(|&trained| trained).unwrap();
    assert!(alone - rows(4096) >= 3 * 40 + 2 * 12 + 9, "{} of {alone}", rows(4096));
    assert!(twice > 0);
}

#[test]
fn a_segment_longer_than_the_model_is_an_error() {
    let params = model(4, 2, 16, true);
    let rope = Rope::new(params.layout().config(), Device::Cpu).unwrap();
    let crew = Crew::of(&params, &rope, Activations::Keep).unwrap().unwrap();
    let check = |ids: Vec<u32>, expected: &str| {
        let mut segment = Segment::default();
        segment.push_context(&ids[..ids.len() - 1]);
        segment.push_sampled(0, ids[ids.len() - 1], -1.0, 0, 1.0);
        let samples = [sample(0, segment)];
        let error = crew.score(&params, &pieces(&samples, &[0], 1)).unwrap_err().to_string();
        assert_eq!(error, expected);
    };
    check(vec![1; 2050], "a segment of at least 2049 tokens; 1 to 2048 are possible");
    check(vec![1, 96], "token 96 is none of 96");
}
