//! Images of tasks: an engine builds them from a Dockerfile, or the Dockerfile is applied to an unpacked root file
//! system.

use std::collections::BTreeMap;
use std::path::Path;

use clawrl_config::{Source, Span};
use clawrl_core::{Ignored, ignore_file};

use crate::dockerfile::{self, Base, SandboxImage, StartRules, refuse_starts};
use crate::document::read_text;
use crate::draft::{Fixture, ImageDraft, ImageOrigin, fixtures_of};
use crate::findings::Findings;
use crate::options::Import;
use crate::outside::{VerifierFiles, note_outside};
use crate::tree::Tree;

/// A Dockerfile of a task, with the task's other settings of the image.
#[derive(Debug)]
pub(crate) struct Recipe<'a> {
    /// Folder of the task.
    pub(crate) id: &'a str,
    /// Folder of the build.
    pub(crate) folder: &'a Path,
    /// Relative to the build folder.
    pub(crate) dockerfile: &'a str,
    pub(crate) workdir: Option<&'a str>,
    pub(crate) user: Option<&'a str>,
    pub(crate) timeout_secs: u64,
    /// Files that the build must not see, even if the folder's own rules include them.
    pub(crate) hidden: fn(&str) -> bool,
    pub(crate) starts: StartRules,
}

/// Whether to note files that the tests name and that the verifier of a sandbox does not have.
pub(crate) fn note_what_tests_miss(tests: &Tree, image: &ImageDraft, import: &mut Import<'_>) {
    if let (ImageOrigin::Rootfs(link), Some(workspace)) = (&image.source, &image.workdir) {
        let reach = VerifierFiles { workspace, image: import.rootfs.folder(link) };
        note_outside(tests, &reach, &mut import.findings);
    }
}

/// The environment that an image and its Dockerfile give.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) image: ImageDraft,
    pub(crate) files: Option<String>,
    pub(crate) setup: Vec<String>,
    pub(crate) vars: Vec<(String, String)>,
    pub(crate) fixtures: Vec<Fixture>,
    /// As the record of the task shows them.
    pub(crate) rootfs: BTreeMap<String, String>,
}

impl Environment {
    /// A named image alone.
    pub(crate) fn of(image: ImageDraft) -> Self {
        Self {
            image,
            files: None,
            setup: Vec::new(),
            vars: Vec::new(),
            fixtures: Vec::new(),
            rootfs: BTreeMap::new(),
        }
    }
}

/// The environment of a Dockerfile, for containers or sandboxes. `None` if there is no image; problems go to the
/// findings.
pub(crate) fn make(recipe: &Recipe<'_>, import: &mut Import<'_>) -> Option<Environment> {
    let Recipe { id, folder, dockerfile, .. } = *recipe;
    let shown = folder.join(dockerfile);
    if import.in_containers() {
        check_build(&shown, recipe.starts, &mut import.findings);
    }
    let mut tree = visible_tree(folder, dockerfile, import)?;
    tree.files.retain(|file| !(recipe.hidden)(&file.path));
    tree.empty_folders.retain(|folder| !(recipe.hidden)(folder));
    let user = recipe.user.map(str::to_owned);
    if import.in_containers() {
        let into = format!("fixtures/{id}/environment");
        let fixtures = fixtures_of(&tree, &into);
        let (dockerfile, timeout_secs) = (dockerfile.to_owned(), recipe.timeout_secs);
        let source = ImageOrigin::Build { folder: into, dockerfile, timeout_secs };
        let image = ImageDraft { source, workdir: recipe.workdir.map(str::to_owned), user };
        return Some(Environment { fixtures, ..Environment::of(image) });
    }
    let base = Base { tree: &tree, workdir: recipe.workdir, starts: recipe.starts };
    let (sandbox, path) = sandbox_image(&shown, &base, import)?;
    let into = format!("fixtures/{id}/files");
    let fixture = |(path, content, mode)| Fixture { path: format!("{into}/{path}"), content, mode };
    let fixtures: Vec<Fixture> = sandbox.files.into_iter().map(fixture).collect();
    Some(Environment {
        image: ImageDraft { source: ImageOrigin::Rootfs(path.clone()), workdir: sandbox.workdir, user },
        files: (!fixtures.is_empty()).then_some(into),
        setup: sandbox.setup,
        vars: sandbox.vars,
        fixtures,
        rootfs: [(sandbox.image, path)].into(),
    })
}

/// A Dockerfile as a sandbox, on the root file system that replaces its base image.
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

/// Checks a Dockerfile that an engine will build: what it cannot build, and programs of the image that would not run,
/// are refused at their lines.
pub(crate) fn check_build(shown: &Path, starts: StartRules, findings: &mut Findings) {
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
            let message = format!("{what} needs BuildKit, which is not used here");
            let help = "replace it, or build the image yourself and name it instead";
            findings.refuse(&source, instruction.span, "not possible", message, help);
        }
        if matches!(instruction.keyword.as_str(), "ENTRYPOINT" | "CMD") {
            let line = source.line_column(instruction.span).0;
            let keyword = &instruction.keyword;
            findings
                .note(format!("Dockerfile line {line}: `{keyword}` is not run: a container starts a shell"));
        }
    }
    refuse_starts(&source, &found, starts, findings);
}

/// The files that a build in this folder would see; for an engine also its ignore files.
pub(crate) fn visible_tree(folder: &Path, dockerfile: &str, import: &mut Import<'_>) -> Option<Tree> {
    let mut tree = Tree::read(folder, &mut import.findings);
    let Some(rules) = ignore_file(dockerfile, |path| tree.file(path).is_some()) else { return Some(tree) };
    let source = match read_text(&folder.join(&rules)) {
        Ok(source) => source,
        Err(problem) => {
            import.findings.adopt(&problem.into());
            return None;
        }
    };
    match Ignored::parse(source.text()) {
        Ok(ignored) => {
            let needed: &[&str] = if import.in_containers() { &[dockerfile, &rules] } else { &[] };
            tree.files.retain(|file| needed.contains(&file.path.as_str()) || !ignored.covers(&file.path));
            tree.empty_folders.retain(|folder| !ignored.covers(folder));
            Some(tree)
        }
        Err(line) => {
            let help = "write the names out, or use `*`, `?`, `**` and sets such as `[a-z]`";
            let span = span_of(&source, line);
            import.findings.refuse(&source, span, "not understood", "this is not a pattern", help);
            None
        }
    }
}

/// A line number, from 1.
fn span_of(source: &Source, line: usize) -> Span {
    let start = source.text().split_inclusive('\n').take(line - 1).map(str::len).sum();
    let len = source.text()[start..].lines().next().map_or(0, str::len);
    Span { start, len }
}
