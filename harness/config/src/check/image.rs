//! Images of environments: one source, for a sandbox that can use it.

use std::time::Duration;

use clawrl_core::{ImageSource, ImageSpec, SandboxKind, workdir_problem};

use super::builder::{TaskBuilder, Written};
use super::checker::Checker;
use crate::bounds;
use crate::file::{ImageFields, ImageFile, Located};
use crate::source::Span;
use crate::value::{self, BadValue};

/// Default time limit of a build.
const DEFAULT_BUILD_TIMEOUT: Duration = Duration::from_secs(600);

impl<'s> TaskBuilder<'_, '_, 's> {
    /// The image, if the setting is valid for this kind of sandbox.
    pub(super) fn image(&mut self, file: &'s Located<ImageFile>, sandbox: SandboxKind) -> Option<ImageSpec> {
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
        let fields = match &file.value {
            ImageFile::Name(name) => {
                let source = self.named_image(Written::new(name, span), span, sandbox);
                return Some(ImageSpec { source, workdir: None, user: None });
            }
            ImageFile::Fields(fields) => fields,
        };
        if let Some(user) = &fields.user {
            self.for_containers(user.span, "`user`", sandbox);
        }
        let source = self.image_source(fields, span, sandbox);
        let workdir = fields.workdir.as_ref().and_then(|text| self.ruled(text, workdir));
        let user = fields.user.as_ref().and_then(|text| self.ruled(text, user));
        Some(ImageSpec { source: source?, workdir, user })
    }

    fn named_image(&mut self, name: Written<'s>, span: Span, sandbox: SandboxKind) -> ImageSource {
        self.for_containers(span, "an image by its name", sandbox);
        ImageSource::Name(self.ruled(name, image_name).unwrap_or_default())
    }

    fn image_source(
        &mut self,
        fields: &'s ImageFields,
        span: Span,
        sandbox: SandboxKind,
    ) -> Option<ImageSource> {
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
        match (&fields.name, &fields.build, &fields.rootfs) {
            (Some(name), None, None) => Some(self.named_image(name.into(), name.span, sandbox)),
            (None, Some(build), None) => {
                self.for_containers(build.span, "`build`", sandbox);
                let timeout = self.seconds(
                    "build_timeout_secs",
                    fields.build_timeout_secs.as_ref(),
                    bounds::MAX_TIMEOUT_SECS,
                );
                let dockerfile = match &fields.dockerfile {
                    None => "Dockerfile",
                    Some(dockerfile) if self.fixture_path(dockerfile, value::file_path) => dockerfile,
                    Some(_) => return None,
                };
                // The files of the build context are part of the suite.
                let context = self.fixture(build, value::relative_path, |fixtures, path| {
                    fixtures.context(path, dockerfile)
                })?;
                let timeout = timeout.unwrap_or(DEFAULT_BUILD_TIMEOUT);
                Some(ImageSource::Build { context, dockerfile: dockerfile.to_owned(), timeout })
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
                self.fixture(rootfs, value::relative_path, |fixtures, path| fixtures.rootfs(path))
                    .map(ImageSource::Rootfs)
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
}

impl Checker {
    fn for_containers(&mut self, span: Span, what: &str, sandbox: SandboxKind) {
        if sandbox != SandboxKind::Container {
            let message = format!("{what} needs `sandbox: container`");
            let help = "write `sandbox: container`; without an engine, unpack the image into a folder and write \
                        `image: { rootfs: images/x }`";
            self.problem(span, message, "a container engine does this", help);
        }
    }
}

fn workdir(text: &str) -> Result<(), BadValue> {
    value::refused(text, workdir_problem(text), "name a folder of its own, such as `workdir: /app`")
}

/// Image names that engines accept: registry, path, tag or digest.
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

pub(super) fn user(text: &str) -> Result<(), BadValue> {
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
