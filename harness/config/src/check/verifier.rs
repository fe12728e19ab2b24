//! Checks the verifier of a task: its files exist, its time fits into grading's, its sandbox supports the settings.

use std::time::Duration;

use clawrl_core::{
    ArtifactSpec, CollectSpec, FixtureFile, ImageSpec, Limit, NetworkPolicy, SandboxKind, Timeouts,
    VerifierApart, VerifierSpec, absolute_problem,
};

use super::builder::{TaskBuilder, Written};
use super::image::user;
use crate::bounds;
use crate::file::{
    ApartFile, ArtifactFile, CollectFile, Located, NetworkFile, RewardSourceFile, Text, VerifierFile,
};
use crate::source::Span;
use crate::value::{self, BadValue};

/// Default command, and the file that it needs.
const DEFAULT_RUN: &str = "bash /tests/test.sh";
const DEFAULT_FILE: &str = "test.sh";

/// Default time limits.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
const DEFAULT_COLLECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for grading besides the verifier: sandboxes, copies, checks.
const GRADING_BESIDES: Duration = Duration::from_secs(120);

/// Workspace of a sandbox without an image.
const PLAIN_WORKSPACE: &str = "/work";
/// Paths that a sandbox with an image keeps, besides its workspace.
const KEPT_WITH_IMAGE: &[&str] = &["/home/agent", "/tmp", "/logs", "/dev/shm"];

/// Settings of the task that the verifier depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) sandbox: SandboxKind,
    pub(super) network: NetworkPolicy,
    /// The agent's.
    pub(super) image: Option<&'a ImageSpec>,
    /// Whether the file contains the time limit of grading.
    pub(super) grade_given: bool,
}

impl<'s> TaskBuilder<'_, '_, 's> {
    /// The verifier. A default limit of grading is raised to the required time.
    pub(super) fn verifier(
        &mut self,
        file: &'s Located<VerifierFile>,
        around: Around<'_>,
        timeouts: &mut Timeouts,
    ) -> VerifierSpec {
        let Located { value: file, span } = file;
        if around.sandbox == SandboxKind::None {
            self.problem(
                *span,
                "a verifier needs a sandbox, and this task has `sandbox: none`",
                "it would run on the host",
                "remove `sandbox: none`; command checks run without one",
            );
        }
        let files = file.files.as_ref().and_then(|folder| self.folder(folder));
        let files = files.map(|files| files.to_vec()).unwrap_or_default();
        self.has_something_to_run(file, &files, *span);
        if let (Some(user), false) = (&file.user, around.sandbox == SandboxKind::Container) {
            let help =
                "remove it: in bubblewrap there is the agent's user only; or write `sandbox: container`";
            self.problem(user.span, "`user` needs `sandbox: container`", "no other user here", help);
        }
        if let Some(key) = &file.reward_key {
            self.reward_key_fits(key, file.reward);
        }
        let timeout = self.seconds("timeout_secs", file.timeout_secs.as_ref(), bounds::MAX_TIMEOUT_SECS);
        let timeout_given = timeout.is_some();
        let mut timeout = timeout.unwrap_or(DEFAULT_TIMEOUT);
        let apart = file.apart.as_ref().map(|apart| self.apart(&apart.value, around));
        let collecting: Duration =
            apart.iter().flat_map(|apart| &apart.collect).map(|collect| collect.timeout).sum();
        let needed = timeout + collecting;
        if !around.grade_given {
            timeouts.grade = timeouts.grade.max(needed + GRADING_BESIDES);
        } else if timeout_given && needed > timeouts.grade {
            let grade = timeouts.grade.as_secs_f64();
            let needed = needed.as_secs_f64();
            let message = format!("the verifier may take {needed} s, all of grading only {grade} s");
            let help = format!("lower `timeout_secs`, or write `{}: {needed}` or more", Limit::Grade.key());
            let span = file.timeout_secs.as_ref().map_or(*span, |number| number.span);
            self.problem(span, message, "can never fire", help);
        } else {
            timeout = timeout.min(timeouts.grade.saturating_sub(collecting));
        }
        let run = match &file.run {
            Some(run) => self.text(run).unwrap_or_default(),
            None => DEFAULT_RUN.to_owned(),
        };
        VerifierSpec {
            files,
            run,
            env: self.vars(file.vars.as_ref().map_or(&[][..], |vars| &vars.0)),
            user: file.user.as_ref().and_then(|text| self.ruled(text, user)),
            timeout,
            network: self.verifier_network(file.network.as_ref(), around, apart.is_some()),
            reward: file.reward.map(Into::into).unwrap_or_default(),
            reward_key: file.reward_key.as_ref().map(|key| key.value.clone()),
            apart,
        }
    }

    fn reward_key_fits(&mut self, key: &Text, reward: Option<RewardSourceFile>) {
        if matches!(reward, Some(RewardSourceFile::ExitCode | RewardSourceFile::Pytest)) {
            let help = "remove it, or write `reward: files`";
            self.problem(key.span, "`reward_key` needs `reward: files`", "no file is read", help);
        }
        if key.trim().is_empty() {
            let help = "name a key of reward.json, such as `reward_key: accuracy`";
            self.problem(key.span, "`reward_key` is empty", "no key", help);
        }
    }

    fn has_something_to_run(&mut self, file: &VerifierFile, files: &[FixtureFile], span: Span) {
        match (&file.run, &file.files) {
            (Some(run), _) if run.trim().is_empty() => {
                self.problem(
                    run.span,
                    "the verifier's command is empty",
                    "nothing to run",
                    "write `run: pytest /tests`",
                );
            }
            (Some(_), _) => {}
            (None, None) => self.problem(
                span,
                "the verifier has neither `files` nor `run`",
                "nothing to run",
                "name a folder with a test.sh, `files: fixtures/tests`, or write `run: test -s out.txt`",
            ),
            (None, Some(folder))
                if !files.is_empty() && files.iter().all(|file| file.path != DEFAULT_FILE) =>
            {
                let message = format!("`{}` has no {DEFAULT_FILE}, which `{DEFAULT_RUN}` runs", folder.value);
                self.problem(
                    folder.span,
                    message,
                    "nothing to run",
                    "add the file, or say what runs: `run: pytest /tests`",
                );
            }
            (None, Some(_)) => {}
        }
    }

    fn verifier_network(
        &mut self,
        network: Option<&Located<NetworkFile>>,
        around: Around<'_>,
        apart: bool,
    ) -> NetworkPolicy {
        let in_place = around.sandbox == SandboxKind::Container && !apart;
        let Some(network) = network else {
            return if in_place { around.network } else { NetworkPolicy::None };
        };
        let policy = NetworkPolicy::from(network.value);
        self.network_fits(network, around.sandbox, "the verifier");
        if in_place && policy != around.network {
            self.problem(
                network.span,
                "the verifier runs in the agent's container, which has another network",
                "one container, one network",
                "give both the same, or the verifier an environment of its own: `apart: {}`",
            );
        }
        policy
    }

    fn apart(&mut self, file: &'s ApartFile, around: Around<'_>) -> VerifierApart {
        let image = file.image.as_ref().and_then(|image| self.image(image, around.sandbox));
        let own = image.as_ref().or(around.image);
        let artifacts = file.artifacts.iter().map(|artifact| self.artifact(artifact, around, own)).collect();
        let collect = file.collect.iter().map(|collect| self.collect(collect)).collect();
        VerifierApart { image, artifacts, collect }
    }

    /// `own` is the verifier's image.
    fn artifact(
        &mut self,
        file: &'s Located<ArtifactFile>,
        around: Around<'_>,
        own: Option<&ImageSpec>,
    ) -> ArtifactSpec {
        let (source, destination, exclude): (Written<'s>, Option<&'s Text>, &'s [Text]) = match &file.value {
            ArtifactFile::Path(path) => (Written::new(path, file.span), None, &[]),
            ArtifactFile::Fields(fields) => {
                ((&fields.source).into(), fields.destination.as_ref(), &fields.exclude)
            }
        };
        let found = self.ruled(source, absolute);
        let found_destination = destination.and_then(|text| self.ruled(text, absolute));
        let exclude = self.all_ruled(exclude, pattern_rule);
        if let (Some(path), SandboxKind::Bubblewrap) = (&found, around.sandbox)
            && destination.is_some() == found_destination.is_some()
            && self.kept(source.span, path, around.image, "the agent's sandbox")
        {
            let span = destination.map_or(source.span, |text| text.span);
            let path = found_destination.as_ref().unwrap_or(path);
            self.kept(span, path, own, "the verifier's sandbox");
        }
        ArtifactSpec { source: found.unwrap_or_default(), destination: found_destination, exclude }
    }

    /// A sandbox by bubblewrap is written to in few places, and only those are brought over.
    fn kept(&mut self, span: Span, path: &str, image: Option<&ImageSpec>, whose: &str) -> bool {
        let workspace = match image {
            Some(image) => image.workdir.as_deref().unwrap_or(ImageSpec::DEFAULT_WORKDIR),
            None => PLAIN_WORKSPACE,
        };
        let others = if image.is_some() { KEPT_WITH_IMAGE } else { &[] };
        let places: Vec<&str> = [workspace].into_iter().chain(others.iter().copied()).collect();
        let inside = |place: &&str| path == *place || path.starts_with(&format!("{place}/"));
        if places.iter().any(inside) {
            return true;
        }
        let message = format!("`{path}` is in no place of {whose} that can be written to");
        let help = format!("name something in {}", crate::suggest::listed(places));
        self.found(span, message, "only read there", &help);
        false
    }

    fn collect(&mut self, file: &'s CollectFile) -> CollectSpec {
        if file.run.trim().is_empty() {
            self.problem(file.run.span, "the command is empty", "nothing to run", "write `run: make dist`");
        }
        let timeout = self.seconds("timeout_secs", file.timeout_secs.as_ref(), bounds::MAX_TIMEOUT_SECS);
        CollectSpec {
            run: self.text(&file.run).unwrap_or_default(),
            timeout: timeout.unwrap_or(DEFAULT_COLLECT_TIMEOUT),
        }
    }
}

fn absolute(text: &str) -> Result<(), BadValue> {
    let problem = absolute_problem(text).or_else(|| (text == "/").then(|| "is everything".to_owned()));
    value::refused(
        text,
        problem,
        "write an absolute path without `.`, `..` or a `/` at its end, such as `/app/out`",
    )
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
