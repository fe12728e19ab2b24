//! The verifier of a task: its files are there, its time fits into grading's, its sandbox can do what is asked.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{Limit, NetworkPolicy, RewardSource, SandboxKind, Timeouts};

use super::checker::Checker;
use crate::bounds;
use crate::file::{ApartFile, ArtifactFile, CollectFile, Located, RewardSourceFile, Text, VerifierFile};
use crate::row::{ApartRow, ArtifactRow, CollectRow, VerifierRow};
use crate::source::Span;

/// The command when none is given, and the file that it needs.
const DEFAULT_RUN: &str = "bash /tests/test.sh";
const DEFAULT_FILE: &str = "test.sh";

/// Time limits when nothing else is said.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
const DEFAULT_COLLECT_TIMEOUT: Duration = Duration::from_secs(60);

/// What grading takes besides the verifier itself: sandboxes, copies, checks.
const GRADING_BESIDES: Duration = Duration::from_secs(120);

/// What a verifier depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around {
    pub(super) sandbox: SandboxKind,
    pub(super) network: NetworkPolicy,
    /// Whether the limit of grading was written.
    pub(super) grade_given: bool,
}

impl Checker {
    /// The verifier. A limit of grading that nobody wrote is raised to what it takes.
    pub(super) fn verifier(
        &mut self,
        file: Located<VerifierFile>,
        around: Around,
        timeouts: &mut Timeouts,
    ) -> VerifierRow {
        let Located { value: file, span } = file;
        if around.sandbox == SandboxKind::None {
            self.problem(
                span,
                "a verifier needs a sandbox, and this task has `sandbox: none`",
                "it would run on the host",
                "remove `sandbox: none`; command checks run without one",
            );
        }
        let files =
            file.files.as_ref().and_then(|folder| self.folder(folder)).unwrap_or_else(|| Arc::from([]));
        self.has_something_to_run(&file, &files, span);
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
        let apart = file.apart.map(|apart| self.apart(apart.value, around.sandbox));
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
            let span = file.timeout_secs.as_ref().map_or(span, |number| number.span);
            self.problem(span, message, "can never fire", help);
        } else {
            timeout = timeout.min(timeouts.grade.saturating_sub(collecting));
        }
        VerifierRow {
            network: self.verifier_network(file.network.as_ref(), around, apart.is_some()),
            files,
            run: file.run.unwrap_or(Text { value: DEFAULT_RUN.to_owned(), span }),
            vars: file.vars.map(|vars| vars.0).unwrap_or_default(),
            user: file.user,
            timeout,
            reward: match file.reward {
                Some(RewardSourceFile::ExitCode) => RewardSource::ExitCode,
                Some(RewardSourceFile::Pytest) => RewardSource::Pytest,
                Some(RewardSourceFile::Files) | None => RewardSource::Files,
            },
            reward_key: file.reward_key.map(|key| key.value),
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

    fn has_something_to_run(&mut self, file: &VerifierFile, files: &[clawrl_core::FixtureFile], span: Span) {
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
        network: Option<&Located<crate::file::NetworkFile>>,
        around: Around,
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

    fn apart(&mut self, file: ApartFile, sandbox: SandboxKind) -> ApartRow {
        let image = file.image.and_then(|image| self.image(image, sandbox));
        let artifacts = file.artifacts.into_iter().map(|artifact| match artifact.value {
            ArtifactFile::Path(path) => ArtifactRow {
                source: Text { value: path, span: artifact.span },
                destination: None,
                exclude: Vec::new(),
            },
            ArtifactFile::Fields(fields) => ArtifactRow {
                source: fields.source,
                destination: fields.destination,
                exclude: fields.exclude,
            },
        });
        let artifacts = artifacts.collect();
        let collect = file.collect.into_iter().map(|collect| self.collect(collect)).collect();
        ApartRow { image, artifacts, collect }
    }

    fn collect(&mut self, file: CollectFile) -> CollectRow {
        if file.run.trim().is_empty() {
            self.problem(file.run.span, "the command is empty", "nothing to run", "write `run: make dist`");
        }
        let timeout = self.seconds("timeout_secs", file.timeout_secs.as_ref(), bounds::MAX_TIMEOUT_SECS);
        CollectRow { run: file.run, timeout: timeout.unwrap_or(DEFAULT_COLLECT_TIMEOUT) }
    }
}
