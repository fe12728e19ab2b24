//! A fresh tiny policy in a folder of its own: the weights that both sides of an area load.
//!
//! The vocabulary is as large as the one of a policy made for the suites: invented words of two syllables, so that
//! it changes with nothing else in the repository.

use std::path::PathBuf;
use std::sync::Arc;

use clawrl_core::SplitMix64;
use clawrl_torch::{Chat, Device, ModelFiles, Params, Preset, PresetRequest, init_policy, load_params};
use tempfile::TempDir;

use crate::Failure;

/// Decides weights and words.
const SEED: u64 = 1;

const CONSONANTS: [&str; 12] = ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t"];
const VOWELS: [&str; 5] = ["a", "e", "i", "o", "u"];
/// Different words in the policy's text, about as many as the suites have.
const WORDS: usize = 1_200;

/// The folder, deleted at the end.
pub(crate) struct TinyPolicy {
    folder: TempDir,
}

impl TinyPolicy {
    /// Makes it.
    pub(crate) fn new() -> Result<Self, Failure> {
        let policy = Self { folder: tempfile::tempdir()? };
        let texts = [words().join(" ")];
        init_policy(
            &policy.path(),
            &PresetRequest { preset: Preset::Tiny, seed: SEED, texts: &texts, positions: None },
        )?;
        Ok(policy)
    }

    /// The model's folder.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("policy")
    }

    /// A folder for other things, deleted with it.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn params(&self) -> Result<Params, Failure> {
        Ok(load_params(&ModelFiles::of(&self.path()), Device::Cpu)?)
    }

    pub(crate) fn chat(&self) -> Result<Arc<Chat>, Failure> {
        Ok(Arc::new(Chat::load(&ModelFiles::of(&self.path()))?))
    }
}

/// Instructions of so many different words each, which the policy has a token for.
pub(crate) fn instructions(count: usize, length: usize, seed: u64) -> Vec<String> {
    let (words, mut random) = (words(), SplitMix64::new(seed));
    let mut instruction = || {
        let chosen: Vec<&str> =
            (0..length).map(|_| words[random.below(words.len() as u64) as usize].as_str()).collect();
        chosen.join(" ")
    };
    (0..count).map(|_| instruction()).collect()
}

fn words() -> Vec<String> {
    let syllables: Vec<String> = CONSONANTS
        .iter()
        .flat_map(|consonant| VOWELS.iter().map(move |vowel| format!("{consonant}{vowel}")))
        .collect();
    let pairs = syllables.iter().flat_map(|first| syllables.iter().map(move |last| format!("{first}{last}")));
    // Of the 3,600 pairs, every third: all syllables occur.
    pairs.step_by(3).take(WORDS).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_word_is_another_one() {
        let words = words();
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), WORDS);
    }

    #[test]
    fn instructions_are_a_function_of_their_seed() {
        let check = |seed: u64| instructions(2, 5, seed);
        assert_eq!(check(1), check(1));
        assert_ne!(check(1), check(2));
        assert!(check(1).iter().all(|instruction| instruction.split(' ').count() == 5));
    }
}
