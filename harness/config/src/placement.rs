//! The root file system that a run assigns to tasks without an image.
//!
//! An engine's image implies containers, an unpacked root file system implies bubblewrap: each works with one of them only. A
//! task that names an image keeps it, and a task without a sandbox stays without.

use clawrl_core::{CustomLink, EnvSpec, ImageSource, ImageSpec, SandboxKind};

/// Gives it.
pub(crate) fn place(env: &mut EnvSpec, given: &ImageSource) {
    let (sandbox, image) = match env {
        EnvSpec::Terminal(terminal) => (&mut terminal.sandbox, &mut terminal.image),
        EnvSpec::Swe(swe) => (&mut swe.workspace.sandbox, &mut swe.workspace.image),
        EnvSpec::Toolcall(toolcall) => match &mut toolcall.workspace {
            Some(workspace) => (&mut workspace.sandbox, &mut workspace.image),
            None => return,
        },
        EnvSpec::Custom(custom) => match &mut custom.link {
            CustomLink::Process { workspace, .. } => (&mut workspace.sandbox, &mut workspace.image),
            _ => return,
        },
        _ => return,
    };
    if image.is_some() || *sandbox != SandboxKind::Bubblewrap {
        return;
    }
    if !matches!(given, ImageSource::Rootfs(_)) {
        *sandbox = SandboxKind::Container;
    }
    *image = Some(ImageSpec { source: given.clone(), workdir: None, user: None });
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clawrl_core::TerminalSpec;

    use super::*;

    fn check(
        sandbox: SandboxKind,
        own: Option<&str>,
        given: &ImageSource,
        expected: (SandboxKind, Option<ImageSource>),
    ) {
        let named =
            |name: &str| ImageSpec { source: ImageSource::Name(name.to_owned()), workdir: None, user: None };
        let mut env =
            EnvSpec::Terminal(TerminalSpec { sandbox, image: own.map(named), ..TerminalSpec::default() });
        place(&mut env, given);
        let EnvSpec::Terminal(found) = env else { unreachable!() };
        assert_eq!((found.sandbox, found.image.map(|image| image.source)), expected, "{own:?}");
    }

    #[test]
    fn tasks_without_an_image_get_it() {
        let (name, rootfs) = (ImageSource::Name("x:1".to_owned()), ImageSource::Rootfs(PathBuf::from("/x")));
        let own = || Some(ImageSource::Name("own".to_owned()));
        check(SandboxKind::Bubblewrap, None, &name, (SandboxKind::Container, Some(name.clone())));
        check(SandboxKind::Bubblewrap, None, &rootfs, (SandboxKind::Bubblewrap, Some(rootfs.clone())));
        check(SandboxKind::Container, Some("own"), &name, (SandboxKind::Container, own()));
        check(SandboxKind::None, None, &name, (SandboxKind::None, None));
    }
}
