//! Files beside a suite: reading, walking, hashing.
//!
//! I1. Nothing outside the suite's folder is read, and no symbolic link is followed: one that stays in a folder of files is
//!     taken as a link.
//! I2. The result does not depend on the order in which the file system lists names.
//!
//! Errors: sentences for a diagnostic; the caller knows the place.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_core::{FixtureContent, FixtureFile, LINK_MODE, SiteFolder, TestNames, hex};
use sha2::{Digest, Sha256};

use crate::bounds::{MAX_FIXTURE_FILES, MAX_INLINE_BYTES, MAX_ROWS_BYTES, MAX_TEXT_BYTES};
use crate::check::BadFolder;
use crate::read::refuse_unnameable;

/// Reason for which a fixture cannot be used, and help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FixtureError {
    pub(crate) message: String,
    pub(crate) help: String,
}

fn error(message: impl Into<String>, help: impl Into<String>) -> FixtureError {
    FixtureError { message: message.into(), help: help.into() }
}

/// The files that a suite uses, with their hashes. Everything read is remembered, so that all tasks of a plan are made of the
/// files as they were when the suite was checked.
#[derive(Debug)]
pub(crate) struct Fixtures {
    folder: PathBuf,
    /// Hex SHA-256 by path relative to the folder.
    hashes: BTreeMap<String, String>,
    texts: Remembered<Arc<str>>,
    files: Remembered<HostFile>,
    folders: Remembered<Arc<[FixtureFile]>>,
    referenced: Remembered<Arc<[FixtureFile]>>,
    test_names: Remembered<TestNames>,
    /// By folder and Dockerfile.
    contexts: Remembered<PathBuf>,
    sites: Remembered<SiteFolder>,
    rootfs: Remembered<PathBuf>,
    shown: HashMap<String, Result<PathBuf, BadFolder>>,
}

/// Results by path.
type Remembered<T> = HashMap<String, Result<T, FixtureError>>;

/// A fixture with the permission bits it has on the host.
#[derive(Debug, Clone)]
pub(crate) struct HostFile {
    pub(crate) content: FixtureContent,
    pub(crate) mode: u32,
}

impl Fixtures {
    /// Nothing used yet.
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            hashes: BTreeMap::new(),
            texts: HashMap::new(),
            files: HashMap::new(),
            folders: HashMap::new(),
            referenced: HashMap::new(),
            test_names: HashMap::new(),
            contexts: HashMap::new(),
            sites: HashMap::new(),
            rootfs: HashMap::new(),
            shown: HashMap::new(),
        }
    }

    /// Adds a file whose bytes are already here: the suite itself.
    pub(crate) fn add(&mut self, relative: &str, bytes: &[u8]) {
        self.hashes.insert(relative.to_owned(), hex(&Sha256::digest(bytes)));
    }

    /// The entries of a text file: its lines, without empty ones.
    pub(crate) fn lines(&mut self, relative: &str) -> Result<Vec<String>, FixtureError> {
        let (_, text) = self.list(relative, MAX_TEXT_BYTES)?;
        Ok(text.lines().map(str::trim_end).filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }

    /// A list in a file: where that is, and its text.
    pub(crate) fn list(&mut self, relative: &str, max_bytes: u64) -> Result<(PathBuf, String), FixtureError> {
        let path = self.resolve(relative, Kind::File)?;
        let size = fs::metadata(&path).map_err(|cause| unreadable(relative, &cause))?.len();
        if size > max_bytes {
            return Err(error(
                format!("`{relative}` is too large for a list: {size} bytes"),
                format!("keep such lists below {max_bytes} bytes"),
            ));
        }
        let bytes = fs::read(&path).map_err(|cause| unreadable(relative, &cause))?;
        self.add(relative, &bytes);
        let text = String::from_utf8(bytes).map_err(|_| {
            error(format!("`{relative}` is not UTF-8 text"), "save the list as UTF-8, one entry a line")
        })?;
        // Windows puts a byte order mark before a text in UTF-8.
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        Ok((path, text))
    }

    /// The text of a file.
    pub(crate) fn text(&mut self, relative: &str) -> Result<Arc<str>, FixtureError> {
        self.remembered(
            relative,
            |own| &mut own.texts,
            |own| own.list(relative, MAX_TEXT_BYTES).map(|(_, text)| text.into()),
        )
    }

    /// One file.
    pub(crate) fn file(&mut self, relative: &str) -> Result<HostFile, FixtureError> {
        self.remembered(
            relative,
            |own| &mut own.files,
            |own| {
                let path = own.resolve(relative, Kind::File)?;
                own.read(relative, &path)
            },
        )
    }

    /// Every file below a folder; see [`Self::read_folder`].
    pub(crate) fn folder(&mut self, relative: &str) -> Result<Arc<[FixtureFile]>, FixtureError> {
        self.remembered(relative, |own| &mut own.folders, |own| own.read_folder(relative).map(Into::into))
    }

    /// Every file below a folder, by reference: many tasks share a repository, and plans do not contain its files.
    pub(crate) fn referenced_folder(&mut self, relative: &str) -> Result<Arc<[FixtureFile]>, FixtureError> {
        self.remembered(
            relative,
            |own| &mut own.referenced,
            |own| {
                let folder = relative.trim_end_matches('/');
                let files = own.folder(relative)?;
                let refer = |file: &FixtureFile| {
                    let content = own.reference(&format!("{folder}/{}", file.path));
                    FixtureFile { content: content.unwrap_or_else(|| file.content.clone()), ..file.clone() }
                };
                Ok(files.iter().map(refer).collect())
            },
        )
    }

    /// A file with a JSON list of names of tests, by reference.
    pub(crate) fn test_names(&mut self, relative: &str) -> Result<TestNames, FixtureError> {
        self.remembered(
            relative,
            |own| &mut own.test_names,
            |own| {
                let (_, text) = own.list(relative, MAX_ROWS_BYTES)?;
                serde_json::from_str::<Vec<String>>(&text).map_err(|cause| {
                    error(
                        format!("`{relative}` is no JSON list of names: {cause}"),
                        "write `[\"test_a\", \"test_b\"]` into it",
                    )
                })?;
                match own.reference(relative) {
                    Some(FixtureContent::Host { path, sha256 }) => Ok(TestNames::Host { path, sha256 }),
                    _ => Err(error(format!("`{relative}` is not there any more"), "load the suite again")),
                }
            },
        )
    }

    /// A folder of this machine that sandboxes see, found by `find` from the suite's folder.
    pub(crate) fn shown_folder(
        &mut self,
        folder: &str,
        find: impl FnOnce(&Path) -> Result<PathBuf, BadFolder>,
    ) -> Result<PathBuf, BadFolder> {
        self.shown.entry(folder.to_owned()).or_insert_with(|| find(&self.folder)).clone()
    }

    fn remembered<T: Clone>(
        &mut self,
        key: &str,
        known: fn(&mut Self) -> &mut Remembered<T>,
        read: impl FnOnce(&mut Self) -> Result<T, FixtureError>,
    ) -> Result<T, FixtureError> {
        if let Some(known) = known(self).get(key) {
            return known.clone();
        }
        let found = read(self);
        known(self).insert(key.to_owned(), found.clone());
        found
    }

    /// Every file below a folder, by path. Paths in the result are relative to it. Empty folders are left
    /// out, as git leaves them out. Links that stay in the folder are links there, too.
    fn read_folder(&mut self, relative: &str) -> Result<Vec<FixtureFile>, FixtureError> {
        let root = self.resolve(relative, Kind::Folder)?;
        let (mut paths, mut links) = (Vec::new(), Vec::new());
        walk(&root, "", &mut paths, Some(&mut links))?;
        if paths.is_empty() {
            return Err(error(
                format!("the folder `{relative}` has no files"),
                "put files into it, or remove `files:`",
            ));
        }
        let relative = relative.trim_end_matches('/');
        let mut files = Vec::with_capacity(paths.len() + links.len());
        for path in paths {
            let HostFile { content, mode } = self.read(&format!("{relative}/{path}"), &root.join(&path))?;
            files.push(FixtureFile { path, mode, content });
        }
        for path in links {
            let shown = format!("{relative}/{path}");
            let target = fs::read_link(root.join(&path)).map_err(|cause| unreadable(&shown, &cause))?;
            let target = target.to_str().filter(|target| stays_inside(&path, target));
            let target = target.ok_or_else(|| leads_out(&shown))?.to_owned();
            self.add(&shown, target.as_bytes());
            files.push(FixtureFile { path, mode: LINK_MODE, content: FixtureContent::Inline(target) });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// A file that was read, by reference: its bytes stay out of the plan, however few they are.
    fn reference(&self, relative: &str) -> Option<FixtureContent> {
        let sha256 = self.hashes.get(relative)?.clone();
        let path = self.resolve(relative, Kind::File).ok()?;
        Some(FixtureContent::Host { path, sha256 })
    }

    /// The absolute path of a build context, which must contain this Dockerfile. Its files are part of the suite's hash; a link is
    /// hashed as its target.
    pub(crate) fn context(&mut self, relative: &str, dockerfile: &str) -> Result<PathBuf, FixtureError> {
        let key = format!("{relative}\0{dockerfile}");
        self.remembered(&key, |own| &mut own.contexts, |own| own.read_context(relative, dockerfile))
    }

    fn read_context(&mut self, relative: &str, dockerfile: &str) -> Result<PathBuf, FixtureError> {
        let root = self.resolve(relative, Kind::Folder)?;
        let relative = relative.trim_end_matches('/');
        let path = format!("{relative}/{dockerfile}");
        self.resolve(&path, Kind::File)?;
        let (mut paths, mut links) = (Vec::new(), Vec::new());
        walk(&root, "", &mut paths, Some(&mut links))?;
        for path in paths {
            self.read(&format!("{relative}/{path}"), &root.join(&path))?;
        }
        for path in links {
            let shown = format!("{relative}/{path}");
            let target = fs::read_link(root.join(&path)).map_err(|cause| unreadable(&shown, &cause))?;
            self.add(&shown, target.as_os_str().as_encoded_bytes());
        }
        Ok(root)
    }

    /// A folder that a site serves by reference, with its hash: hex SHA-256 over the files in byte order of their paths; each adds
    /// its path, a NUL, its length in decimal digits, a NUL, and its content.
    pub(crate) fn site(&mut self, relative: &str) -> Result<SiteFolder, FixtureError> {
        self.remembered(relative, |own| &mut own.sites, |own| own.read_site(relative))
    }

    fn read_site(&mut self, relative: &str) -> Result<SiteFolder, FixtureError> {
        let root = self.resolve(relative, Kind::Folder)?;
        let mut paths = Vec::new();
        walk(&root, "", &mut paths, None)?;
        paths.sort_unstable();
        if paths.is_empty() {
            return Err(error(
                format!("the folder `{relative}` has no files"),
                "put an `index.html` into it, or remove `folder:`",
            ));
        }
        let relative = relative.trim_end_matches('/');
        let mut hasher = Sha256::new();
        for path in paths {
            let shown = format!("{relative}/{path}");
            let bytes = fs::read(root.join(&path)).map_err(|cause| unreadable(&shown, &cause))?;
            hasher.update(format!("{path}\0{}\0", bytes.len()));
            hasher.update(&bytes);
            self.add(&shown, &bytes);
        }
        Ok(SiteFolder { path: root, sha256: hex(&hasher.finalize()) })
    }

    /// The resolved absolute path of a folder with an unpacked root file system. The folder may be a link to a place outside the
    /// suite; it is too large to hash, so it is not part of the suite.
    pub(crate) fn rootfs(&mut self, relative: &str) -> Result<PathBuf, FixtureError> {
        self.remembered(relative, |own| &mut own.rootfs, |own| own.read_rootfs(relative))
    }

    fn read_rootfs(&self, relative: &str) -> Result<PathBuf, FixtureError> {
        let path = self.folder.join(relative);
        let real = fs::canonicalize(&path).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::NotFound => error(
                format!("there is no folder `{relative}` beside the suite"),
                format!("unpack an image there, or correct the path; {}", siblings(&path)),
            ),
            _ => unreadable(relative, &cause),
        })?;
        refuse_unnameable(&real).map_err(|problem| error(problem.message(), problem.help_text()))?;
        if real == Path::new("/") {
            return Err(error(
                format!("`{relative}` is this machine's own root"),
                "unpack an image into a folder of its own; without `image:`, a sandbox has this machine's programs",
            ));
        }
        let has = |inside: &str| fs::symlink_metadata(real.join(inside)).is_ok();
        if !real.is_dir() || !has("etc") || !(has("usr/bin") || has("bin")) {
            return Err(error(
                format!("`{relative}` does not look like a root file system"),
                "it should be a folder with `etc`, and `bin` or `usr/bin`, as `docker export NAME | tar -x` makes it",
            ));
        }
        Ok(real)
    }

    /// Hex SHA-256 over everything used: of the text that `sha256sum` prints for the files in order of path.
    pub(crate) fn sha256(&self) -> String {
        let listing = self.hashes.iter().fold(String::new(), |mut listing, (path, hash)| {
            // Writing to a string cannot fail.
            let _ = writeln!(listing, "{hash}  {path}");
            listing
        });
        hex(&Sha256::digest(listing.as_bytes()))
    }

    fn read(&mut self, relative: &str, path: &Path) -> Result<HostFile, FixtureError> {
        let unreadable = |cause: &std::io::Error| unreadable(relative, cause);
        let mut file = fs::File::open(path).map_err(|cause| unreadable(&cause))?;
        let metadata = file.metadata().map_err(|cause| unreadable(&cause))?;
        let mode = metadata.permissions().mode() & 0o777;
        if metadata.len() <= MAX_INLINE_BYTES {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(|cause| unreadable(&cause))?;
            self.add(relative, &bytes);
            if let Ok(text) = String::from_utf8(bytes) {
                return Ok(HostFile { content: FixtureContent::Inline(text), mode });
            }
        } else {
            let mut hasher = Sha256::new();
            let mut buffer = vec![0; 1 << 16];
            loop {
                match file.read(&mut buffer).map_err(|cause| unreadable(&cause))? {
                    0 => break,
                    count => hasher.update(&buffer[..count]),
                }
            }
            self.hashes.insert(relative.to_owned(), hex(&hasher.finalize()));
        }
        let sha256 = self.hashes.get(relative).cloned().unwrap_or_default();
        Ok(HostFile { content: FixtureContent::Host { path: path.to_owned(), sha256 }, mode })
    }

    /// The absolute path of something in the suite's folder, with no symbolic link on the way (I1).
    fn resolve(&self, relative: &str, wanted: Kind) -> Result<PathBuf, FixtureError> {
        let mut path = self.folder.clone();
        let mut kind = Kind::Folder;
        for part in relative.trim_end_matches('/').split('/') {
            path.push(part);
            kind = match fs::symlink_metadata(&path) {
                Ok(metadata) => Kind::of(&metadata),
                Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                    let what = if wanted == Kind::File { "file" } else { "folder" };
                    let help =
                        format!("create it in the suite's folder, or correct the path; {}", siblings(&path));
                    return Err(error(format!("there is no {what} `{relative}` beside the suite"), help));
                }
                Err(cause) => return Err(unreadable(relative, &cause)),
            };
            if kind == Kind::Link {
                return Err(symlink(relative));
            }
        }
        match (kind, wanted) {
            (kind, wanted) if kind == wanted => Ok(path),
            (Kind::Folder, _) => Err(error(
                format!("`{relative}` is a folder, a file is wanted here"),
                "name a file in it; a whole folder goes under `files:` directly",
            )),
            (Kind::File, _) => Err(error(
                format!("`{relative}` is a file, a folder is wanted here"),
                format!("name a folder, or lay out one file: `files: {{ name: {{ host: {relative} }} }}`"),
            )),
            _ => Err(special(relative)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
    Link,
    Special,
}

impl Kind {
    fn of(metadata: &fs::Metadata) -> Self {
        let kind = metadata.file_type();
        if kind.is_symlink() {
            Self::Link
        } else if kind.is_dir() {
            Self::Folder
        } else if kind.is_file() {
            Self::File
        } else {
            Self::Special
        }
    }
}

/// Collects the paths of files. Links are refused unless `links` collects them.
fn walk(
    root: &Path,
    below: &str,
    paths: &mut Vec<String>,
    mut links: Option<&mut Vec<String>>,
) -> Result<(), FixtureError> {
    let folder = root.join(below);
    let shown = if below.is_empty() { "." } else { below };
    let entries = fs::read_dir(&folder).map_err(|cause| unreadable(shown, &cause))?;
    for entry in entries {
        let entry = entry.map_err(|cause| unreadable(shown, &cause))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            let lossy = name.to_string_lossy();
            return Err(error(
                format!("the file name `{lossy}` in the fixture folder is not UTF-8"),
                "rename it; a task can create such a file in `setup`",
            ));
        };
        let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        let metadata = fs::symlink_metadata(entry.path()).map_err(|cause| unreadable(&path, &cause))?;
        match Kind::of(&metadata) {
            Kind::File => paths.push(path),
            Kind::Folder => walk(root, &path, paths, links.as_deref_mut())?,
            Kind::Link => match links.as_deref_mut() {
                Some(links) => links.push(path),
                None => return Err(symlink(&path)),
            },
            Kind::Special => return Err(special(&path)),
        }
        if paths.len() > MAX_FIXTURE_FILES {
            return Err(error(
                format!("the fixture folder has more than {MAX_FIXTURE_FILES} files"),
                "pack them into an archive and unpack it in `setup`",
            ));
        }
    }
    Ok(())
}

/// Whether the target of a link at this path lies within the folder; the target need not exist. The path must not contain `..`.
pub fn stays_inside(path: &str, target: &str) -> bool {
    if target.starts_with('/') {
        return false;
    }
    let mut depth = path.matches('/').count();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if depth == 0 => return false,
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    true
}

fn leads_out(path: &str) -> FixtureError {
    error(
        format!("`{path}` is a symbolic link that leads out of its folder"),
        "replace it by what it leads to, or create the link in `setup` with `ln -s`",
    )
}

fn symlink(path: &str) -> FixtureError {
    error(
        format!("`{path}` is a symbolic link; fixtures are plain files and folders"),
        "replace it by the file it points to, or create the link in `setup` with `ln -s`",
    )
}

fn special(path: &str) -> FixtureError {
    error(
        format!("`{path}` is neither a file nor a folder"),
        "remove it from the fixtures; a task can create such a thing in `setup`",
    )
}

fn unreadable(path: &str, cause: &std::io::Error) -> FixtureError {
    let reason = cause.kind();
    error(format!("`{path}` cannot be read: {reason}"), "make it readable for this user, or correct the path")
}

/// Sibling names of a missing path, to help find a typing error.
fn siblings(missing: &Path) -> String {
    let mut names: Vec<String> = missing
        .parent()
        .and_then(|folder| fs::read_dir(folder).ok())
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    let wanted = missing.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if let Some(near) = crate::suggest::nearest(wanted, names.iter().map(String::as_str)) {
        return format!("there is `{near}`");
    }
    match names.as_slice() {
        [] => "its folder is empty".to_owned(),
        names => {
            format!("its folder has {}", crate::suggest::listed(names.iter().take(8).map(String::as_str)))
        }
    }
}
