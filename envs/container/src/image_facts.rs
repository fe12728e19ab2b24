//! An image's settings for its containers, and the path of their workspace.

use clawrl_core::{Boundary, Fault, ImageSource, ImageSpec};
use clawrl_sandbox::WorkspaceStart;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageFacts {
    /// Identifies exactly this image at the engine.
    pub(crate) id: String,
    /// `WORKDIR`.
    pub(crate) workdir: Option<String>,
    /// `USER`; empty for root.
    pub(crate) user: String,
    /// `ENV`.
    pub(crate) environment: Vec<(String, String)>,
    /// `VOLUME`: separate file systems in every container of the image.
    pub(crate) volumes: Vec<String>,
}

impl ImageFacts {
    /// The workspace of a container, an absolute path.
    ///
    /// # Errors
    /// A permanent provider [`Fault`] when the workspace would be the whole file system, or partly a volume.
    pub(crate) fn workspace(&self, image: &ImageSpec, start: WorkspaceStart) -> Result<String, Fault> {
        let named = |code: &str, what: String, instead: &str| {
            let message = format!("{}: {what}; {instead}", shown(&image.source));
            Fault::permanent(Boundary::Provider, code, message)
        };
        let own = self.workdir.as_deref();
        let asked = image.workdir.as_deref().or(own).unwrap_or("/");
        let parts = folders(asked);
        if parts.is_empty() {
            if start == WorkspaceStart::Unseen {
                return Ok("/".to_owned());
            }
            let whose = match (&image.workdir, own) {
                (Some(_), _) => "`workdir: /` is the whole image",
                (None, Some(_)) => "its WORKDIR is `/`, the whole image",
                (None, None) => "it lacks a WORKDIR, which means `/`, the whole image",
            };
            let what = format!(
                "{whose}, but a workspace must be a separate folder, because it is graded, copied and \
                    cleared"
            );
            let instead = "set `workdir: /app` beside the image's source in the suite, or `WORKDIR /app` in \
                its Dockerfile";
            return Err(named("image-workdir", what, instead));
        }
        let within = |volume: &&String| {
            let volume = folders(volume);
            let len = volume.len().min(parts.len());
            volume[..len] == parts[..len]
        };
        if let Some(volume) = self.volumes.iter().find(within) {
            let what = format!(
                "the workspace `{asked}` and `VOLUME {volume}` overlap, but a volume is not part of the \
                 container's own files: its content is neither graded nor copied to a verifier"
            );
            let instead = "set another `workdir:` beside the image's source in the suite, or remove the \
                VOLUME from its Dockerfile";
            return Err(named("image-volume", what, instead));
        }
        Ok(format!("/{}", parts.join("/")))
    }
}

fn shown(source: &ImageSource) -> String {
    match source {
        ImageSource::Name(name) => format!("image `{name}`"),
        ImageSource::Build { context, dockerfile, .. } => {
            format!("the image of {}", context.join(dockerfile).display())
        }
        other => format!("the image of {other:?}"),
    }
}

/// The folders of a path from the root on, derived from the text only.
fn folders(path: &str) -> Vec<&str> {
    let mut folders = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(folders.pop()),
            name => folders.push(name),
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use clawrl_core::Retry;

    use super::*;

    fn workspace(
        (own, volumes): (Option<&str>, &[&str]),
        asked: Option<&str>,
        start: WorkspaceStart,
    ) -> Result<String, Fault> {
        let facts = ImageFacts {
            id: String::new(),
            workdir: own.map(str::to_owned),
            user: String::new(),
            environment: Vec::new(),
            volumes: volumes.iter().map(|&volume| volume.to_owned()).collect(),
        };
        let source = ImageSource::Name("x:1".to_owned());
        facts.workspace(&ImageSpec { source, workdir: asked.map(str::to_owned), user: None }, start)
    }

    #[test]
    fn a_workspace_is_a_folder_of_its_own() {
        let check = |own: Option<&str>, asked: Option<&str>, expected: Result<&str, &str>| {
            for start in [WorkspaceStart::Image, WorkspaceStart::Empty] {
                match (workspace((own, &[]), asked, start), expected) {
                    (Ok(folder), Ok(expected)) => assert_eq!(folder, expected, "{own:?} {asked:?}"),
                    (Err(fault), Err(part)) => {
                        assert_eq!((fault.code.as_str(), fault.retry), ("image-workdir", Retry::Never));
                        for part in [part, "image `x:1`", "`workdir: /app`", "`WORKDIR /app`"] {
                            assert!(fault.message.contains(part), "{fault}");
                        }
                    }
                    (found, _) => panic!("{own:?} {asked:?}: {found:?}"),
                }
            }
        };
        check(Some("/app"), None, Ok("/app"));
        check(Some("/app//x/"), None, Ok("/app/x"));
        check(None, Some("/work"), Ok("/work"));
        check(Some("/"), Some("/work"), Ok("/work"));
        check(None, None, Err("it lacks a WORKDIR"));
        check(Some("/"), None, Err("its WORKDIR is `/`"));
        check(Some("/app/.."), None, Err("its WORKDIR is `/`"));
        check(Some("/app"), Some("/"), Err("`workdir: /`"));
        // A separate verifier only starts there.
        assert_eq!(workspace((None, &["/data"]), None, WorkspaceStart::Unseen).unwrap(), "/");
    }

    #[test]
    fn a_volume_stays_out_of_the_workspace() {
        let check = |volume: &str, refused: bool| {
            for start in [WorkspaceStart::Image, WorkspaceStart::Empty, WorkspaceStart::Unseen] {
                let found = workspace((Some("/srv/app"), &["/other", volume]), None, start);
                assert_eq!(found.is_err(), refused, "{volume}: {found:?}");
                let Err(fault) = found else { continue };
                assert_eq!((fault.code.as_str(), fault.retry), ("image-volume", Retry::Never));
                for part in ["image `x:1`", "`/srv/app`", volume, "`workdir:`"] {
                    assert!(fault.message.contains(part), "{fault}");
                }
            }
        };
        check("/srv/app", true);
        check("/srv/app/", true);
        check("/srv/app/data/x", true);
        // The whole workspace lies in it.
        check("/srv", true);
        check("/srv/application", false);
        check("/data", false);
    }
}
