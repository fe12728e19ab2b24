//! The workspace of a task: fixtures read, limits within bounds, a sandbox that can have what is asked.

use std::sync::Arc;

use clawrl_core::{FixtureFile, NetworkPolicy, SandboxKind, SandboxLimits};

use super::checker::Checker;
use crate::bounds;
use crate::file::{FileEntry, FilesFile, Located, NetworkFile, SandboxFile, Text, WorkspaceFile};
use crate::fixture::FixtureError;
use crate::problem::Finding;
use crate::row::{FileRow, FileSource, FilesRow, WorkspaceRow};
use crate::source::Span;
use crate::value;

impl Checker {
    pub(super) fn workspace(&mut self, file: WorkspaceFile) -> WorkspaceRow {
        let sandbox = match file.sandbox.as_deref() {
            Some(SandboxFile::None) => SandboxKind::None,
            Some(SandboxFile::Container) => SandboxKind::Container,
            Some(SandboxFile::Bubblewrap) | None => SandboxKind::Bubblewrap,
        };
        self.warn_of_open_doors(&file, sandbox);
        if let (Some(kind), None, SandboxKind::Container) = (&file.sandbox, &file.image, sandbox) {
            self.problem(
                kind.span,
                "`sandbox: container` needs an image",
                "nothing to run in it",
                "name one, such as `image: debian:12`, or build one: `image: { build: fixtures/x }`",
            );
        }
        let default = SandboxLimits::default();
        let mib = bounds::MAX_MIB;
        let limits = SandboxLimits {
            memory_mib: self.whole(
                "memory_mib",
                file.memory_mib.as_ref(),
                bounds::MIN_MEMORY_MIB..=mib,
                default.memory_mib,
            ),
            disk_mib: self.whole("disk_mib", file.disk_mib.as_ref(), 1..=mib, default.disk_mib),
            pids: self.whole("pids", file.pids.as_ref(), bounds::MIN_PIDS..=bounds::MAX_PIDS, default.pids),
            cpu_percent: self.whole(
                "cpu_percent",
                file.cpu_percent.as_ref(),
                1..=bounds::MAX_CPU_PERCENT,
                default.cpu_percent,
            ),
        };
        let vars = file.vars.map(|vars| vars.0).unwrap_or_default();
        self.no_secret_for_agents(&vars);
        WorkspaceRow {
            limits,
            sandbox,
            network: file.network.as_deref().map_or(NetworkPolicy::None, |&network| network.into()),
            image: file.image.and_then(|image| self.image(image, sandbox)),
            files: file.files.map_or_else(|| FilesRow::Map(Vec::new()), |files| self.files(files)),
            read_only: self.read_only(file.read_only),
            vars,
        }
    }

    fn warn_of_open_doors(&mut self, file: &WorkspaceFile, sandbox: SandboxKind) {
        if let Some(Located { value: SandboxFile::None, span }) = file.sandbox {
            let finding = Finding {
                message: "this task runs on the host itself, without a sandbox".to_owned(),
                label: "no isolation",
                help: "remove the line unless every command of the policy is trusted".to_owned(),
            };
            self.findings.warn(span, finding);
        }
        if let Some(network) = &file.network {
            self.network_fits(network, sandbox, "this task");
        }
    }

    /// Warns of a network that is no empty one, and refuses one that the sandbox cannot have.
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

    pub(super) fn files(&mut self, files: Located<FilesFile>) -> FilesRow {
        match files.value {
            FilesFile::Folder(path) => {
                let path = Text { value: path, span: files.span };
                FilesRow::Folder(self.folder(&path).unwrap_or_default())
            }
            FilesFile::Map(entries) => {
                let rows = entries.0.into_iter().filter_map(|(path, entry)| self.entry(path, entry));
                FilesRow::Map(rows.collect())
            }
        }
    }

    pub(super) fn folder(&mut self, path: &Text) -> Option<Arc<[FixtureFile]>> {
        if !self.fixture_path(path, value::relative_path) {
            return None;
        }
        if let Some(known) = self.folders.get(&path.value) {
            return Some(Arc::clone(known));
        }
        match self.fixtures.folder(path) {
            Ok(files) => {
                let files: Arc<[FixtureFile]> = files.into();
                self.folders.insert(path.value.clone(), Arc::clone(&files));
                Some(files)
            }
            Err(error) => {
                self.fixture_problem(path.span, error);
                None
            }
        }
    }

    pub(super) fn entry(&mut self, path: Text, entry: Located<FileEntry>) -> Option<FileRow> {
        let fields = match entry.value {
            FileEntry::Content(scalar) => {
                let content = self.written(Located { value: scalar, span: entry.span });
                return Some(FileRow { path, source: FileSource::Content(content), mode: None });
            }
            FileEntry::Fields(fields) => fields,
        };
        let source = match (fields.content, fields.host) {
            (Some(content), None) => FileSource::Content(content),
            (None, Some(host)) => {
                if !self.fixture_path(&host, value::file_path) {
                    return None;
                }
                match self.fixtures.file(&host) {
                    Ok(file) => FileSource::Host(file),
                    Err(error) => {
                        self.fixture_problem(host.span, error);
                        return None;
                    }
                }
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
        Some(FileRow { path, source, mode: fields.mode })
    }

    pub(super) fn fixture_path(
        &mut self,
        path: &Text,
        rule: fn(&str) -> Result<(), value::BadValue>,
    ) -> bool {
        if !self.plain(path, "the path of a fixture") {
            return false;
        }
        match rule(path) {
            Ok(()) => true,
            Err(bad) => {
                self.bad_value(path.span, bad, "this path");
                false
            }
        }
    }

    pub(super) fn fixture_problem(&mut self, span: Span, error: FixtureError) {
        self.problem(span, error.message, "named here", error.help);
    }
}
