//! The treatment of episodes that a limit cut: the token limit of a reply, or a limit of the episode.
//!
//! I1. Masking takes tokens out of training and nothing else: the reward stays in the baseline of its group. I2. The
//! punishment of a length is 0 up to `tokens` before the limit, falls in a straight line, and is -1 at the limit. I3. Of several
//! replies the longest one is punished, once.
//!
//! Units: lengths in tokens; punishments in reward units. Pure; nothing to cancel.
//! Source: soft overlong punishment and overlong filtering: DAPO, arXiv 2503.14476, equation 13 and section 3.4. Deviations: replies
//! are cut at the limit, so that none is longer; an episode has several replies; an episode that a limit on turns or time cut gets
//! the whole punishment.

use crate::Segment;

/// The treatment of episodes that a limit cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overlong {
    /// They are trained on like others.
    #[default]
    Train,
    /// Their tokens are not trained on.
    Mask,
    /// They get a penalty, and so do episodes close to the limit.
    Soft {
        /// Tokens before the limit in which the punishment rises.
        tokens: u32,
    },
}

/// The length of an episode.
#[derive(Debug, Clone, Copy)]
pub struct EpisodeLength<'a> {
    /// Tokens of each reply, by turn, and whether it was cut by the limit.
    pub replies: &'a [(u32, bool)],
    /// Maximum tokens of a reply.
    pub limit: u32,
    /// Whether a limit on turns or time cut the episode.
    pub is_cut: bool,
}

impl EpisodeLength<'_> {
    /// Whether a limit cut any part of the episode.
    #[must_use]
    pub fn is_overlong(&self) -> bool {
        self.is_cut || self.replies.iter().any(|&(_, is_cut)| is_cut)
    }

    /// The penalty on the reward: from -1 to 0.
    #[must_use]
    pub fn punishment(&self, tokens: u32) -> f64 {
        if self.is_overlong() {
            return -1.0;
        }
        let longest = self.replies.iter().map(|&(length, _)| length).max().unwrap_or_default();
        soft_punishment(longest, self.limit, tokens)
    }
}

impl Overlong {
    /// Applies the treatment to the reward of an episode and the masks of its segments. Returns the number of tokens that it masked.
    pub fn apply(self, length: &EpisodeLength<'_>, reward: &mut f64, segments: &mut [Segment]) -> u64 {
        match self {
            Self::Train => 0,
            Self::Mask => {
                let is_masked = |turn: u32| {
                    length.is_cut || length.replies.get(turn as usize).is_some_and(|&(_, is_cut)| is_cut)
                };
                segments.iter_mut().map(|segment| mask(segment, is_masked)).sum()
            }
            Self::Soft { tokens } => {
                *reward += length.punishment(tokens);
                0
            }
        }
    }
}

/// The punishment of a reply's length.
fn soft_punishment(length: u32, limit: u32, tokens: u32) -> f64 {
    let from = limit.saturating_sub(tokens);
    if length <= from {
        return 0.0;
    }
    let beyond = f64::from(length - from) / f64::from(tokens.max(1));
    -beyond.min(1.0)
}

/// Masks the tokens of some turns. Returns the number of masked tokens.
fn mask(segment: &mut Segment, is_masked: impl Fn(u32) -> bool) -> u64 {
    let mut masked = 0;
    for (trained, &turn) in segment.mask.iter_mut().zip(&segment.turns) {
        if *trained && is_masked(turn) {
            *trained = false;
            masked += 1;
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn punishments_by_hand() {
        // DAPO's own numbers: 16384 tokens are free of it, 4096 more are not.
        let check = |length: u32, expected: f64| {
            let found = soft_punishment(length, 20_480, 4_096);
            assert!((found - expected).abs() < 1e-12, "{length}: {found}");
        };
        check(0, 0.0);
        check(16_384, 0.0);
        check(17_408, -0.25);
        check(18_432, -0.5);
        check(20_480, -1.0);
        check(30_000, -1.0);
        assert_eq!(soft_punishment(3, 4, 9), -1.0 / 3.0);
        assert_eq!((soft_punishment(4, 4, 0), soft_punishment(5, 4, 0)), (0.0, -1.0));
    }

    /// Two turns of two tokens each, in one segment.
    fn segment() -> Segment {
        let mut segment = Segment::default();
        segment.push_context(&[1]);
        for turn in [0, 0, 1, 1] {
            segment.push_sampled(turn, 2, -1.0, 0, 1.0);
        }
        segment
    }

    fn check(how: Overlong, (replies, is_cut): (&[(u32, bool)], bool), reward: f64, mask: [bool; 4]) {
        let (mut earned, mut segments) = (1.0, [segment()]);
        let length = EpisodeLength { replies, limit: 8, is_cut };
        let masked = how.apply(&length, &mut earned, &mut segments);
        assert_eq!((earned, &segments[0].mask[1..]), (reward, &mask[..]), "{how:?} {replies:?} {is_cut}");
        assert_eq!(masked, mask.iter().filter(|trained| !**trained).count() as u64);
        let untouched = Segment { mask: segment().mask, ..segments[0].clone() };
        assert_eq!(untouched, segment());
    }

    #[test]
    fn what_becomes_of_them() {
        let (whole, cut) = ([(2, false), (2, false)], [(2, false), (8, true)]);
        let soft = Overlong::Soft { tokens: 4 };
        let all = [true; 4];
        for how in [Overlong::Train, Overlong::Mask, soft] {
            check(how, (&whole, false), 1.0, all);
        }
        check(Overlong::Train, (&cut, true), 1.0, all);
        check(Overlong::Mask, (&cut, false), 1.0, [true, true, false, false]);
        check(Overlong::Mask, (&whole, true), 1.0, [false; 4]);
        check(soft, (&cut, false), 0.0, all);
        check(soft, (&whole, true), 0.0, all);
        // The longest one, once.
        check(soft, (&[(6, false), (7, false)], false), 0.25, all);
        check(soft, (&[(7, false), (5, false)], false), 0.25, all);
    }

    proptest! {
        /// I2.
        #[test]
        fn a_punishment_falls_with_the_length(limit in 1u32..100, tokens in 1u32..100, length in 0u32..120) {
            let at = |length| soft_punishment(length, limit, tokens);
            prop_assert!((-1.0..=0.0).contains(&at(length)));
            prop_assert!(at(length + 1) <= at(length));
            prop_assert_eq!(at(limit.saturating_sub(tokens)), 0.0);
            if tokens <= limit {
                prop_assert_eq!(at(limit), -1.0);
            }
        }
    }
}
