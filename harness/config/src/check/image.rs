//! Images of environments: one source, for a sandbox that can use it.

use std::path::PathBuf;
use std::time::Duration;

use clawrl_core::SandboxKind;

use super::checker::Checker;
use crate::bounds;
use crate::file::{ImageFields, ImageFile, Located, Text};
use crate::row::{ImageRow, ImageSourceRow};
use crate::source::Span;
use crate::value;

/// How long a build may take when nothing else is said.
const DEFAULT_BUILD_TIMEOUT: Duration = Duration::from_secs(600);

impl Checker {
    /// The image, if what is written makes one for this kind of sandbox.
    pub(super) fn image(&mut self, file: Located<ImageFile>, sandbox: SandboxKind) -> Option<ImageRow> {
        let span = file.span;
        if sandbox == SandboxKind::None {
            self.problem(
                span,
                "`sandbox: none` runs on the host itself and has no image",
                "needs a sandbox",
                "remove `sandbox: none`, or the image",
            );
            return None;
        }
        let fields = match file.value {
            ImageFile::Name(name) => {
                let name = Text { value: name, span };
                self.for_containers(span, "an image by its name", sandbox);
                return Some(ImageRow { source: ImageSourceRow::Name(name), workdir: None, user: None });
            }
            ImageFile::Fields(fields) => *fields,
        };
        if let Some(user) = &fields.user {
            self.for_containers(user.span, "`user`", sandbox);
        }
        let (workdir, user) = (fields.workdir.clone(), fields.user.clone());
        let source = self.image_source(fields, span, sandbox)?;
        Some(ImageRow { source, workdir, user })
    }

    fn image_source(
        &mut self,
        fields: ImageFields,
        span: Span,
        sandbox: SandboxKind,
    ) -> Option<ImageSourceRow> {
        if fields.build.is_none() {
            let without = [
                fields.dockerfile.as_ref().map(|text| ("dockerfile", text.span)),
                fields.build_timeout_secs.as_ref().map(|number| ("build_timeout_secs", number.span)),
            ];
            for (key, span) in without.into_iter().flatten() {
                let message = format!("`{key}` belongs to `build`, which is not given");
                self.problem(
                    span,
                    message,
                    "nothing is built",
                    "remove it, or name a folder: `build: fixtures/x`",
                );
            }
        }
        match (fields.name, fields.build, fields.rootfs) {
            (Some(name), None, None) => {
                self.for_containers(name.span, "an image by its name", sandbox);
                Some(ImageSourceRow::Name(name))
            }
            (None, Some(build), None) => {
                self.for_containers(build.span, "`build`", sandbox);
                let timeout = self.seconds(
                    "build_timeout_secs",
                    fields.build_timeout_secs.as_ref(),
                    bounds::MAX_TIMEOUT_SECS,
                );
                let dockerfile = fields.dockerfile.map_or_else(
                    || Some(Text { value: "Dockerfile".to_owned(), span: build.span }),
                    |dockerfile| self.fixture_path(&dockerfile, value::file_path).then_some(dockerfile),
                )?;
                let context = self.build_context(&build, &dockerfile)?;
                let timeout = timeout.unwrap_or(DEFAULT_BUILD_TIMEOUT);
                Some(ImageSourceRow::Build { context, dockerfile: dockerfile.value, timeout })
            }
            (None, None, Some(rootfs)) => {
                if sandbox == SandboxKind::Container {
                    self.problem(
                        rootfs.span,
                        "`rootfs` is for `sandbox: bubblewrap`",
                        "not for a container",
                        "write `sandbox: bubblewrap`, or import the folder into the engine and name the image",
                    );
                }
                self.rootfs(&rootfs).map(ImageSourceRow::Rootfs)
            }
            (name, build, rootfs) => {
                let given = [name.is_some(), build.is_some(), rootfs.is_some()]
                    .iter()
                    .filter(|&&given| given)
                    .count();
                let message = match given {
                    0 => "the image has no `name`, `build` or `rootfs`".to_owned(),
                    _ => "the image has more than one of `name`, `build` and `rootfs`".to_owned(),
                };
                self.problem(
                    span,
                    message,
                    "exactly one is needed",
                    "write one of them, such as `image: debian:12`",
                );
                None
            }
        }
    }

    fn for_containers(&mut self, span: Span, what: &str, sandbox: SandboxKind) {
        if sandbox != SandboxKind::Container {
            let message = format!("{what} needs `sandbox: container`");
            let help = "write `sandbox: container`; without an engine, unpack the image into a folder and write \
                        `image: { rootfs: images/x }`";
            self.problem(span, message, "a container engine does this", help);
        }
    }

    /// The folder of a build; its files are part of the suite.
    fn build_context(&mut self, build: &Text, dockerfile: &Text) -> Option<PathBuf> {
        if !self.fixture_path(build, value::relative_path) {
            return None;
        }
        match self.fixtures.context(build, dockerfile) {
            Ok(path) => Some(path),
            Err(error) => {
                self.fixture_problem(build.span, error);
                None
            }
        }
    }

    fn rootfs(&mut self, rootfs: &Text) -> Option<PathBuf> {
        if !self.fixture_path(rootfs, value::relative_path) {
            return None;
        }
        match self.fixtures.rootfs(rootfs) {
            Ok(path) => Some(path),
            Err(error) => {
                self.fixture_problem(rootfs.span, error);
                None
            }
        }
    }
}
