//! A terminal environment, the workspace that it shares with others, and images.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{FixtureFile, NetworkPolicy, SandboxKind, SandboxLimits};

use super::text::{Visit, pairs, texts};
use crate::file::Text;
use crate::fixture::HostFile;

/// A terminal environment.
#[derive(Debug)]
pub(crate) struct TerminalRow {
    pub(crate) shell: Option<Text>,
    pub(crate) setup: Vec<Text>,
    pub(crate) size: (u16, u16),
    pub(crate) idle: Duration,
    pub(crate) observation_chars: u32,
    pub(crate) workspace: WorkspaceRow,
}

/// A sandbox with a workspace.
#[derive(Debug)]
pub(crate) struct WorkspaceRow {
    pub(crate) files: FilesRow,
    pub(crate) vars: Vec<(Text, Text)>,
    pub(crate) sandbox: SandboxKind,
    pub(crate) limits: SandboxLimits,
    pub(crate) network: NetworkPolicy,
    pub(crate) image: Option<ImageRow>,
    /// Never templates.
    pub(crate) read_only: Vec<PathBuf>,
}

/// A root file system.
#[derive(Debug)]
pub(crate) struct ImageRow {
    pub(crate) source: ImageSourceRow,
    pub(crate) workdir: Option<Text>,
    pub(crate) user: Option<Text>,
}

#[derive(Debug)]
pub(crate) enum ImageSourceRow {
    Name(Text),
    Build { context: PathBuf, dockerfile: String, timeout: Duration },
    Rootfs(PathBuf),
}

/// Files of the workspace.
#[derive(Debug)]
pub(crate) enum FilesRow {
    /// Copied as they are, shared by all rows that name the folder.
    Folder(Arc<[FixtureFile]>),
    /// One by one.
    Map(Vec<FileRow>),
}

#[derive(Debug)]
pub(crate) struct FileRow {
    pub(crate) path: Text,
    pub(crate) source: FileSource,
    pub(crate) mode: Option<Text>,
}

#[derive(Debug)]
pub(crate) enum FileSource {
    Content(Text),
    Host(HostFile),
}

impl TerminalRow {
    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        texts(self.shell.iter().chain(&self.setup), visit);
        self.workspace.each_text(visit);
    }
}

impl WorkspaceRow {
    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        self.image.iter().for_each(|image| image.each_text(visit));
        pairs(&self.vars, visit);
        self.files.each_text(visit);
    }
}

impl FilesRow {
    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        if let Self::Map(files) = self {
            for file in files {
                texts(std::iter::once(&file.path).chain(&file.mode), visit);
                if let FileSource::Content(content) = &file.source {
                    texts([content], visit);
                }
            }
        }
    }
}

impl ImageRow {
    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        if let ImageSourceRow::Name(name) = &self.source {
            texts([name], visit);
        }
        texts(self.workdir.iter().chain(&self.user), visit);
    }
}
