//! Checks the workspace of a task: reads fixtures, and verifies limits and the sandbox's support of the settings.

use std::sync::Arc;

use clawrl_core::{FixtureContent, FixtureFile, NetworkPolicy, SandboxKind, SandboxLimits, WorkspaceSpec};

use super::builder::{TaskBuilder, Written, any};
use super::checker::Checker;
use crate::bounds;
use crate::file::{Entries, FileEntry, FilesFile, Located, NetworkFile, SandboxFile, Text, WorkspaceRef};
use crate::problem::Finding;
use crate::value;

impl<'s> TaskBuilder<'_, '_, 's> {
    pub(super) fn workspace(&mut self, file: WorkspaceRef<'s>) -> WorkspaceSpec {
        let sandbox = file.sandbox.map(|sandbox| sandbox.value.into()).unwrap_or_default();
        self.warn_of_open_doors(file, sandbox);
        if let (Some(kind), None, SandboxKind::Container) = (file.sandbox, file.image, sandbox) {
            self.problem(
                kind.span,
                "`sandbox: container` needs an image",
                "nothing to run in it",
                "name one, such as `image: debian:12`, or build one: `image: { build: fixtures/x }`",
            );
        }
        let default = SandboxLimits::default();
        let mib = bounds::MAX_MIB;
        let memory = bounds::MIN_MEMORY_MIB..=mib;
        let pids = bounds::MIN_PIDS..=bounds::MAX_PIDS;
        let cpu = 1..=bounds::MAX_CPU_PERCENT;
        let limits = SandboxLimits {
            memory_mib: self.whole("memory_mib", file.memory_mib, memory, default.memory_mib),
            disk_mib: self.whole("disk_mib", file.disk_mib, 1..=mib, default.disk_mib),
            pids: self.whole("pids", file.pids, pids, default.pids),
            cpu_percent: self.whole("cpu_percent", file.cpu_percent, cpu, default.cpu_percent),
        };
        let vars = file.vars.map_or(&[][..], |vars| &vars.0);
        self.no_secret_for_agents(vars);
        WorkspaceSpec {
            files: file.files.map(|files| self.files(files)).unwrap_or_default(),
            env: self.vars(vars),
            sandbox,
            limits,
            network: file.network.map_or(NetworkPolicy::None, |network| network.value.into()),
            image: file.image.and_then(|image| self.image(image, sandbox)),
            read_only: self.read_only(file.read_only),
        }
    }

    /// Environment variables.
    pub(super) fn vars<T: FromIterator<(String, String)>>(&mut self, vars: &'s [(Text, Text)]) -> T {
        let written = vars.iter().map(|(name, value)| (name, Written::from(value)));
        self.pairs(written, value::env_name, any)
    }

    pub(super) fn files(&mut self, files: &'s Located<FilesFile>) -> Vec<FixtureFile> {
        match &files.value {
            FilesFile::Folder(path) => {
                let path = Text { value: path.clone(), span: files.span };
                self.folder(&path).map(|files| files.to_vec()).unwrap_or_default()
            }
            FilesFile::Map(entries) => self.file_map(entries),
        }
    }

    pub(super) fn file_map(&mut self, entries: &'s Entries<Located<FileEntry>>) -> Vec<FixtureFile> {
        let mut files: Vec<FixtureFile> = Vec::new();
        for (path, entry) in &entries.0 {
            let Some(file) = self.file(path, entry) else { continue };
            let clash = files.iter().find(|other| {
                let (a, b) = (&file.path, &other.path);
                a == b || a.starts_with(&format!("{b}/")) || b.starts_with(&format!("{a}/"))
            });
            if let Some(other) = clash {
                let message = if other.path == file.path {
                    format!("two files are laid out at `{}`", file.path)
                } else {
                    format!("`{}` and `{}` cannot both be files", other.path, file.path)
                };
                self.found(path.span, message, "the second one", "give one of them another path");
            } else {
                files.push(file);
            }
        }
        files
    }

    /// `None` if its path or its source is wrong.
    fn file(&mut self, path: &'s Text, entry: &'s Located<FileEntry>) -> Option<FixtureFile> {
        let rendered = self.ruled(path, value::file_path);
        let fields = match &entry.value {
            FileEntry::Content(scalar) => {
                let content = self.text(self.scalar_text(scalar, entry.span)).unwrap_or_default();
                return Some(FixtureFile {
                    path: rendered?,
                    mode: 0o644,
                    content: FixtureContent::Inline(content),
                });
            }
            FileEntry::Fields(fields) => fields,
        };
        let mode = fields.mode.as_ref().and_then(|mode| {
            let text = self.ruled(mode, |text| value::fixture_mode(text).map(|_| ()))?;
            value::fixture_mode(&text).ok()
        });
        let (content, host_mode) = match (&fields.content, &fields.host) {
            (Some(content), None) => (FixtureContent::Inline(self.text(content).unwrap_or_default()), 0o644),
            (None, Some(host)) => {
                let file = self.fixture(host, value::file_path, |fixtures, path| fixtures.file(path))?;
                (file.content, file.mode)
            }
            _ => {
                self.problem(
                    path.span,
                    format!("the file `{}` needs either `content` or `host`", path.value),
                    "none, or both",
                    "write `{ content: \"text\" }` for text given here, `{ host: fixtures/file.bin }` for a file beside the suite",
                );
                return None;
            }
        };
        Some(FixtureFile { path: rendered?, mode: mode.unwrap_or(host_mode), content })
    }
}

impl Checker {
    fn warn_of_open_doors(&mut self, file: WorkspaceRef<'_>, sandbox: SandboxKind) {
        if let Some(&Located { value: SandboxFile::None, span }) = file.sandbox {
            let finding = Finding {
                message: "this task runs on the host itself, without a sandbox".to_owned(),
                label: "no isolation",
                help: "remove the line unless every command of the policy is trusted".to_owned(),
            };
            self.findings.warn(span, finding);
        }
        if let Some(network) = file.network {
            self.network_fits(network, sandbox, "this task");
        }
    }

    /// Warns of a network that is not empty, and refuses one that the sandbox cannot have.
    pub(super) fn network_fits(&mut self, network: &Located<NetworkFile>, sandbox: SandboxKind, whose: &str) {
        let what = match network.value {
            NetworkFile::None => return,
            NetworkFile::Public if sandbox != SandboxKind::Container => {
                self.problem(
                    network.span,
                    "`network: public` needs `sandbox: container`",
                    "the engine's bridge",
                    "write `sandbox: container`, or `network: host` to give it the network of this machine",
                );
                return;
            }
            NetworkFile::Public => "reaches the world over the container engine's bridge",
            NetworkFile::Host => "has the network of the host",
        };
        let finding = Finding {
            message: format!("{whose} {what}"),
            label: "not isolated",
            help: "remove the line unless the task needs it; the default is no network at all".to_owned(),
        };
        self.findings.warn(network.span, finding);
    }

    pub(super) fn folder(&mut self, path: &Text) -> Option<Arc<[FixtureFile]>> {
        self.fixture(path, value::relative_path, |fixtures, path| fixtures.folder(path))
    }
}
