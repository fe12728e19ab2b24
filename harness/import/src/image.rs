//! Dockerfiles read for a sandbox, with the root file systems that stand for their images.

use std::path::Path;

use clawrl_config::Span;

use crate::dockerfile::{self, Base, IgnoreRules, SandboxImage};
use crate::document::read_text;
use crate::findings::Findings;
use crate::options::Import;
use crate::tree::Tree;

/// A Dockerfile as a sandbox, with the root file system that stands for its image.
pub(crate) fn sandbox_image(
    shown: &Path,
    base: &Base<'_>,
    import: &mut Import<'_>,
) -> Option<(SandboxImage, String)> {
    let source = match read_text(shown) {
        Ok(source) => source,
        Err(problem) => {
            import.findings.adopt(&problem.into());
            return None;
        }
    };
    let sandbox = dockerfile::apply(&source, base, &mut import.findings)?;
    match import.rootfs.find(&sandbox.image) {
        Ok(path) => Some((sandbox, path)),
        Err((message, help)) => {
            import.findings.refuse(&source, sandbox.image_span, "not at hand", message, help);
            None
        }
    }
}

/// Looks at a Dockerfile that an engine will build: what it cannot build is refused here, at its line.
pub(crate) fn check_build(shown: &Path, findings: &mut Findings) {
    let source = match read_text(shown) {
        Ok(source) => source,
        Err(problem) => return findings.adopt(&problem.into()),
    };
    let found = match dockerfile::instructions(&source) {
        Ok((found, _)) => found,
        Err(problem) => return findings.adopt(&problem.into()),
    };
    if dockerfile::first_image(&found).is_none() {
        let help = "begin with `FROM image`";
        findings.refuse(&source, Span::default(), "no image", "the Dockerfile has no FROM", help);
    }
    for instruction in &found {
        if let Some(what) = dockerfile::needs_buildkit(instruction) {
            let message = format!("{what} needs BuildKit, and images are built without");
            let help = "write it by other means, or build the image yourself and name it instead";
            findings.refuse(&source, instruction.span, "not possible", message, help);
        }
    }
}

/// What a build in this folder would see.
pub(crate) fn visible_tree(folder: &Path, dockerfile: &str, import: &mut Import<'_>) -> Option<Tree> {
    let mut tree = Tree::read(folder, &mut import.findings);
    let own = format!("{dockerfile}.dockerignore");
    let ignore = if tree.file(&own).is_some() { own } else { ".dockerignore".to_owned() };
    if tree.file(&ignore).is_none() {
        return Some(tree);
    }
    let source = match read_text(&folder.join(&ignore)) {
        Ok(source) => source,
        Err(problem) => {
            import.findings.adopt(&problem.into());
            return None;
        }
    };
    match IgnoreRules::parse(source.text()) {
        Ok(rules) => {
            tree.files.retain(|file| !rules.leaves_out(&file.path));
            tree.empty_folders.retain(|folder| !rules.leaves_out(folder));
            Some(tree)
        }
        Err(line) => {
            let start = source.text().split_inclusive('\n').take(line - 1).map(str::len).sum();
            let len = source.text()[start..].lines().next().map_or(0, str::len);
            let span = Span { start, len };
            let help = "write the names out, or use `*` and `?`";
            import.findings.refuse(
                &source,
                span,
                "not supported",
                "a pattern with a set of characters is not supported",
                help,
            );
            None
        }
    }
}
