//! A fresh tiny policy in a temporary folder: the weights that both sides load.
//!
//! The vocabulary has the size of a policy made for the suites. It consists of invented words of two syllables, so that it
//! does not change with the rest of the repository.

use std::path::PathBuf;

use clawrl_torch::{Device, ModelFiles, Params, Preset, PresetRequest, init_policy, load_params};
use tempfile::TempDir;

use crate::Failure;

/// Seed of weights and words.
const SEED: u64 = 1;

const CONSONANTS: [&str; 12] = ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t"];
const VOWELS: [&str; 5] = ["a", "e", "i", "o", "u"];
/// Number of words, about as many as in the suites.
const WORDS: usize = 1_200;

/// The policy's folder, deleted on drop.
pub(crate) struct TinyPolicy {
    folder: TempDir,
}

impl TinyPolicy {
    /// Creates the policy.
    pub(crate) fn new() -> Result<Self, Failure> {
        let policy = Self { folder: tempfile::tempdir()? };
        let texts = [words().join(" ")];
        init_policy(
            &policy.path(),
            &PresetRequest { preset: Preset::Tiny, seed: SEED, texts: &texts, positions: None },
        )?;
        Ok(policy)
    }

    /// Folder of the model.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("policy")
    }

    pub(crate) fn params(&self) -> Result<Params, Failure> {
        Ok(load_params(&ModelFiles::of(&self.path()), Device::Cpu)?)
    }
}

fn words() -> Vec<String> {
    let syllables: Vec<String> = CONSONANTS
        .iter()
        .flat_map(|consonant| VOWELS.iter().map(move |vowel| format!("{consonant}{vowel}")))
        .collect();
    let pairs = syllables.iter().flat_map(|first| syllables.iter().map(move |last| format!("{first}{last}")));
    // Every third of the 3,600 pairs: all syllables occur.
    pairs.step_by(3).take(WORDS).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn words_are_distinct() {
        let words = words();
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), WORDS);
    }
}
