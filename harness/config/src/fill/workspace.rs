//! Workspaces and their files.

use clawrl_core::{FixtureContent, FixtureFile, WorkspaceSpec};
use minijinja::Value;

use super::filler::Filler;
use crate::row::{FileRow, FileSource, FilesRow, WorkspaceRow};
use crate::value;

impl<'s> Filler<'_, '_, 's> {
    pub(super) fn workspace(&mut self, row: &'s WorkspaceRow, values: &Value) -> Option<WorkspaceSpec> {
        let files = self.files_of(&row.files, values);
        let image = match &row.image {
            Some(image) => self.image(image, values).map(Some),
            None => Some(None),
        };
        let env: Vec<_> = row
            .vars
            .iter()
            .map(|(name, value)| {
                Some((self.ruled(name, values, value::env_name)?, self.text(value, values)?))
            })
            .collect();
        Some(WorkspaceSpec {
            files: files?,
            env: env.into_iter().collect::<Option<_>>()?,
            sandbox: row.sandbox,
            limits: row.limits,
            network: row.network,
            image: image?,
            read_only: row.read_only.clone(),
        })
    }

    pub(super) fn files_of(&mut self, row: &'s FilesRow, values: &Value) -> Option<Vec<FixtureFile>> {
        match row {
            FilesRow::Folder(files) => Some(files.to_vec()),
            FilesRow::Map(files) => self.files(files, values),
        }
    }

    fn files(&mut self, rows: &'s [FileRow], values: &Value) -> Option<Vec<FixtureFile>> {
        let files: Vec<_> = rows.iter().map(|row| self.file(row, values)).collect();
        let files = files.into_iter().collect::<Option<Vec<_>>>()?;
        for (at, file) in files.iter().enumerate() {
            let clash = files[..at].iter().find(|other| {
                let (a, b) = (&file.path, &other.path);
                a == b || a.starts_with(&format!("{b}/")) || b.starts_with(&format!("{a}/"))
            });
            if let Some(other) = clash {
                let message = if other.path == file.path {
                    format!("two files are laid out at `{}`", file.path)
                } else {
                    format!("`{}` and `{}` cannot both be files", other.path, file.path)
                };
                let help = "give one of them another path";
                self.found(rows[at].path.span, message, "the second one", help);
                return None;
            }
        }
        Some(files)
    }

    fn file(&mut self, row: &'s FileRow, values: &Value) -> Option<FixtureFile> {
        let path = self.ruled(&row.path, values, value::file_path);
        let mode = match &row.mode {
            Some(mode) => {
                let text = self.ruled(mode, values, |text| value::fixture_mode(text).map(|_| ()));
                text.and_then(|text| value::fixture_mode(&text).ok())
            }
            None => Some(0o644),
        };
        let (content, host_mode) = match &row.source {
            FileSource::Content(text) => (self.text(text, values).map(FixtureContent::Inline), None),
            FileSource::Host(file) => (Some(file.content.clone()), Some(file.mode)),
        };
        let mode = if row.mode.is_none() { host_mode.or(mode) } else { mode };
        Some(FixtureFile { path: path?, mode: mode?, content: content? })
    }
}
