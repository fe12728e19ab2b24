//! Images and verifiers.

use clawrl_core::{
    ArtifactSpec, CollectSpec, ImageSource, ImageSpec, SandboxKind, VerifierApart, VerifierSpec,
    absolute_problem, workdir_problem,
};
use minijinja::Value;

use super::filler::Filler;
use crate::file::Text;
use crate::row::{ApartRow, ArtifactRow, ImageRow, ImageSourceRow, VerifierRow};
use crate::value::{self, BadValue};

/// Where a sandbox without an image has its workspace, and what one with an image keeps besides.
const PLAIN_WORKSPACE: &str = "/work";
const KEPT_WITH_IMAGE: &[&str] = &["/home/agent", "/tmp", "/logs", "/dev/shm"];

impl<'s> Filler<'_, '_, 's> {
    pub(super) fn image(&mut self, row: &'s ImageRow, values: &Value) -> Option<ImageSpec> {
        let source = match &row.source {
            ImageSourceRow::Name(name) => self.ruled(name, values, image_name).map(ImageSource::Name),
            ImageSourceRow::Build { context, dockerfile, timeout } => Some(ImageSource::Build {
                context: context.clone(),
                dockerfile: dockerfile.clone(),
                timeout: *timeout,
            }),
            ImageSourceRow::Rootfs(folder) => Some(ImageSource::Rootfs(folder.clone())),
        };
        let workdir = self.optional_ruled(row.workdir.as_ref(), values, workdir);
        let user = self.optional_ruled(row.user.as_ref(), values, user);
        Some(ImageSpec { source: source?, workdir: workdir?, user: user? })
    }

    pub(super) fn verifier(
        &mut self,
        row: &'s VerifierRow,
        sandbox: SandboxKind,
        image: Option<&ImageSpec>,
        values: &Value,
    ) -> Option<VerifierSpec> {
        let run = self.text(&row.run, values);
        let env: Vec<_> = row
            .vars
            .iter()
            .map(|(name, value)| {
                Some((self.ruled(name, values, value::env_name)?, self.text(value, values)?))
            })
            .collect();
        let user = self.optional_ruled(row.user.as_ref(), values, user);
        let apart = match &row.apart {
            Some(apart) => self.apart(apart, sandbox, image, values).map(Some),
            None => Some(None),
        };
        Some(VerifierSpec {
            files: row.files.to_vec(),
            run: run?,
            env: env.into_iter().collect::<Option<_>>()?,
            user: user?,
            timeout: row.timeout,
            network: row.network,
            reward: row.reward,
            reward_key: row.reward_key.clone(),
            apart: apart?,
        })
    }

    fn apart(
        &mut self,
        row: &'s ApartRow,
        sandbox: SandboxKind,
        agents: Option<&ImageSpec>,
        values: &Value,
    ) -> Option<VerifierApart> {
        let own = match &row.image {
            Some(image) => Some(self.image(image, values)?),
            None => None,
        };
        let verifiers = own.as_ref().or(agents);
        let artifacts: Vec<_> =
            row.artifacts.iter().map(|row| self.artifact(row, sandbox, agents, verifiers, values)).collect();
        let collect: Vec<_> = row
            .collect
            .iter()
            .map(|row| Some(CollectSpec { run: self.text(&row.run, values)?, timeout: row.timeout }))
            .collect();
        Some(VerifierApart {
            artifacts: artifacts.into_iter().collect::<Option<_>>()?,
            collect: collect.into_iter().collect::<Option<_>>()?,
            image: own,
        })
    }

    fn artifact(
        &mut self,
        row: &'s ArtifactRow,
        sandbox: SandboxKind,
        agents: Option<&ImageSpec>,
        verifiers: Option<&ImageSpec>,
        values: &Value,
    ) -> Option<ArtifactSpec> {
        let source = self.ruled(&row.source, values, absolute);
        let destination = self.optional_ruled(row.destination.as_ref(), values, absolute);
        let exclude: Vec<_> =
            row.exclude.iter().map(|pattern| self.ruled(pattern, values, pattern_rule)).collect();
        let (source, destination) = (source?, destination?);
        if sandbox == SandboxKind::Bubblewrap {
            self.kept(&row.source, &source, agents, "the agent's sandbox")?;
            let (text, path) =
                (row.destination.as_ref().unwrap_or(&row.source), destination.as_ref().unwrap_or(&source));
            self.kept(text, path, verifiers, "the verifier's sandbox")?;
        }
        Some(ArtifactSpec { source, destination, exclude: exclude.into_iter().collect::<Option<_>>()? })
    }

    /// A sandbox by bubblewrap is written to in few places, and only those are brought over.
    fn kept(&mut self, text: &Text, path: &str, image: Option<&ImageSpec>, whose: &str) -> Option<()> {
        let workspace = match image {
            Some(image) => image.workdir.as_deref().unwrap_or(ImageSpec::DEFAULT_WORKDIR),
            None => PLAIN_WORKSPACE,
        };
        let others = if image.is_some() { KEPT_WITH_IMAGE } else { &[] };
        let places: Vec<&str> = [workspace].into_iter().chain(others.iter().copied()).collect();
        let inside = |place: &&str| path == *place || path.starts_with(&format!("{place}/"));
        if places.iter().any(inside) {
            return Some(());
        }
        let message = format!("`{path}` is in no place of {whose} that can be written to");
        let help = format!("name something in {}", crate::suggest::listed(places));
        self.found(text.span, message, "only read there", &help);
        None
    }

    fn optional_ruled(
        &mut self,
        text: Option<&'s Text>,
        values: &Value,
        rule: super::filler::Rule,
    ) -> Option<Option<String>> {
        match text {
            Some(text) => self.ruled(text, values, rule).map(Some),
            None => Some(None),
        }
    }
}

fn workdir(text: &str) -> Result<(), BadValue> {
    refused(text, workdir_problem(text), "name a folder of its own, such as `workdir: /app`")
}

fn absolute(text: &str) -> Result<(), BadValue> {
    let problem = absolute_problem(text).or_else(|| (text == "/").then(|| "is everything".to_owned()));
    refused(text, problem, "write an absolute path without `.`, `..` or a `/` at its end, such as `/app/out`")
}

fn refused(text: &str, problem: Option<String>, help: &str) -> Result<(), BadValue> {
    match problem {
        None => Ok(()),
        Some(problem) => Err(BadValue { message: format!("`{text}` {problem}"), help: help.to_owned() }),
    }
}

/// What engines take: registry, path, tag or digest.
fn image_name(text: &str) -> Result<(), BadValue> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '@');
    if !text.is_empty()
        && text.len() <= 512
        && text.chars().all(allowed)
        && !text.starts_with(['-', '/', ':'])
    {
        return Ok(());
    }
    Err(BadValue {
        message: format!("`{text}` is not the name of an image"),
        help: "write it as the engine knows it, such as `image: debian:12`; a folder goes under `rootfs:` or `build:`"
            .to_owned(),
    })
}

fn user(text: &str) -> Result<(), BadValue> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':');
    if !text.is_empty() && text.len() <= 64 && text.chars().all(allowed) && !text.starts_with(['-', ':']) {
        return Ok(());
    }
    Err(BadValue {
        message: format!("`{text}` is not a user"),
        help: "write a name or a number, with a group if need be: `user: root`, `user: \"1000:1000\"`"
            .to_owned(),
    })
}

fn pattern_rule(text: &str) -> Result<(), BadValue> {
    if !text.trim_matches('/').is_empty() {
        return Ok(());
    }
    Err(BadValue {
        message: "the pattern is empty".to_owned(),
        help: "write one such as `\"*.o\"`".to_owned(),
    })
}
