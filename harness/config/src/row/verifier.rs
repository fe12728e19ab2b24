//! A program that grades.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{FixtureFile, NetworkPolicy, RewardSource};

use super::terminal::ImageRow;
use super::text::{Visit, pairs, texts};
use crate::file::Text;

/// A program that grades.
#[derive(Debug)]
pub(crate) struct VerifierRow {
    pub(crate) files: Arc<[FixtureFile]>,
    pub(crate) run: Text,
    pub(crate) vars: Vec<(Text, Text)>,
    pub(crate) user: Option<Text>,
    pub(crate) timeout: Duration,
    pub(crate) network: NetworkPolicy,
    pub(crate) reward: RewardSource,
    pub(crate) reward_key: Option<String>,
    pub(crate) apart: Option<ApartRow>,
}

/// A verifier's own environment.
#[derive(Debug)]
pub(crate) struct ApartRow {
    pub(crate) image: Option<ImageRow>,
    pub(crate) artifacts: Vec<ArtifactRow>,
    pub(crate) collect: Vec<CollectRow>,
}

#[derive(Debug)]
pub(crate) struct ArtifactRow {
    pub(crate) source: Text,
    pub(crate) destination: Option<Text>,
    pub(crate) exclude: Vec<Text>,
}

#[derive(Debug)]
pub(crate) struct CollectRow {
    pub(crate) run: Text,
    pub(crate) timeout: Duration,
}

impl VerifierRow {
    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        texts([&self.run], visit);
        pairs(&self.vars, visit);
        texts(&self.user, visit);
        let Some(apart) = &self.apart else { return };
        apart.image.iter().for_each(|image| image.each_text(visit));
        for artifact in &apart.artifacts {
            texts([&artifact.source], visit);
            texts(artifact.destination.iter().chain(&artifact.exclude), visit);
        }
        texts(apart.collect.iter().map(|collect| &collect.run), visit);
    }
}
