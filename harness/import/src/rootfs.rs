//! Unpacked root file systems, and the images that they replace.
//!
//! I1. A root file system replaces one image: the named one, or without a name the one image that all tasks use.

use std::path::{Path, PathBuf};

use clawrl_config::Problem;

/// A folder with the unpacked files of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootfsChoice {
    /// The image, as Dockerfiles name it; `None` for the one image that all tasks use.
    pub image: Option<String>,
    /// The folder.
    pub folder: PathBuf,
}

impl RootfsChoice {
    /// Parses `IMAGE=FOLDER` or `FOLDER`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.split_once('=') {
            Some((image, folder)) if !image.is_empty() && !image.starts_with(['/', '.']) => {
                Self { image: Some(image.to_owned()), folder: folder.into() }
            }
            _ => Self { image: None, folder: text.into() },
        }
    }
}

/// Folder of the suite for links to root file systems: they are too large to copy, and may be anywhere.
const IMAGES: &str = "images";

/// The root file systems of an import.
#[derive(Debug, Clone, Default)]
pub(crate) struct RootfsTable {
    known: Vec<KnownRootfs>,
}

#[derive(Debug, Clone)]
struct KnownRootfs {
    /// Full name; `None` until a task names an image.
    image: Option<String>,
    /// Without links.
    folder: PathBuf,
    /// The link in the suite's folder, once a task needs it.
    link: Option<String>,
}

impl RootfsTable {
    /// # Errors
    /// A path that is not a folder or has no shell; two folders for one image.
    pub(crate) fn new(choices: &[RootfsChoice]) -> Result<Self, Problem> {
        let mut table = Self::default();
        for choice in choices {
            let image = choice.image.as_deref().map(full_name);
            if table.known.iter().any(|known| known.image == image) {
                let what = choice.image.as_deref().unwrap_or("any image");
                let message = format!("there are two root file systems for {what}");
                return Err(Problem::new(message, "give one `--rootfs IMAGE=FOLDER` for each image"));
            }
            table.known.push(KnownRootfs { image, folder: checked(&choice.folder)?, link: None });
        }
        Ok(table)
    }

    /// The link in the suite's folder to the root file system of an image.
    ///
    /// # Errors
    /// A message and its help.
    pub(crate) fn find(&mut self, image: &str) -> Result<String, (String, String)> {
        let full = full_name(image);
        let named = self.known.iter().position(|known| known.image.as_deref() == Some(full.as_str()));
        let Some(at) = named.or_else(|| self.known.iter().position(|known| known.image.is_none())) else {
            return Err(self.missing(image));
        };
        if let Some(link) = &self.known[at].link {
            return Ok(link.clone());
        }
        let mut name: String =
            full.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
        name = format!("{IMAGES}/{}", name.trim_matches(['-', '.']));
        while self.known.iter().any(|known| known.link.as_ref() == Some(&name)) {
            name.push('-');
        }
        self.known[at].image = Some(full);
        self.known[at].link = Some(name.clone());
        Ok(name)
    }

    /// The target of a link.
    pub(crate) fn folder(&self, link: &str) -> Option<PathBuf> {
        let known = self.known.iter().find(|known| known.link.as_deref() == Some(link))?;
        Some(known.folder.clone())
    }

    /// The links that tasks need: paths in the suite's folder, with their targets.
    pub(crate) fn links(&self) -> Vec<(String, PathBuf)> {
        self.known.iter().filter_map(|known| Some((known.link.clone()?, known.folder.clone()))).collect()
    }

    fn missing(&self, image: &str) -> (String, String) {
        let help = format!(
            "unpack it and pass `--rootfs {image}=FOLDER`, or import for containers with `--sandbox container`"
        );
        let given: Vec<&str> = self.known.iter().filter_map(|known| known.image.as_deref()).collect();
        let only = if given.is_empty() { String::new() } else { format!(", only for {}", given.join(", ")) };
        (format!("there is no root file system for the image `{image}`{only}"), help)
    }
}

/// An image's full name, with the parts that are omitted by convention.
fn full_name(image: &str) -> String {
    let mut name = image.strip_prefix("docker.io/").unwrap_or(image);
    name = name.strip_prefix("library/").unwrap_or(name);
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains([':', '@']) { name.to_owned() } else { format!("{name}:latest") }
}

fn checked(folder: &Path) -> Result<PathBuf, Problem> {
    let shown = folder.display();
    let refused = |what: &str, help: &str| Problem::new(format!("`{shown}` {what}"), help);
    let whole = std::fs::canonicalize(folder).map_err(|cause| {
        refused(
            &format!("cannot be used as a root file system: {}", cause.kind()),
            "name the folder of an unpacked image",
        )
    })?;
    let has = |program: &str| {
        ["bin", "usr/bin"].iter().any(|bin| whole.join(bin).join(program).symlink_metadata().is_ok())
    };
    if !has("sh") || !has("bash") {
        return Err(refused(
            "is not a root file system: it has no `bash` and `sh`",
            "name the folder of an unpacked image; scripts of tasks run in bash",
        ));
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(image: &str, expected: &str) {
        assert_eq!(full_name(image), expected);
    }

    #[test]
    fn image_names_are_compared_in_full() {
        check("debian", "debian:latest");
        check("docker.io/library/debian:12", "debian:12");
        check("ghcr.io/a/b", "ghcr.io/a/b:latest");
        check("host:5000/b", "host:5000/b:latest");
        check("a@sha256:0", "a@sha256:0");
    }

    #[test]
    fn rootfs_choices_are_parsed() {
        let named = RootfsChoice { image: Some("debian:12".to_owned()), folder: "/srv/d".into() };
        assert_eq!(RootfsChoice::parse("debian:12=/srv/d"), named);
        assert_eq!(RootfsChoice::parse("./a=b"), RootfsChoice { image: None, folder: "./a=b".into() });
        assert_eq!(RootfsChoice::parse("/srv/d").image, None);
    }
}
