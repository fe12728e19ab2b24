//! Storage of finished courses, so that an interrupted evaluation can resume.
//!
//! I1. A folder contains courses of one protocol, one policy and one tuning only. I2. A course is stored completely or not at
//! all: half a line of a killed process is ignored and written again.
//!
//! Errors: a folder with other content is refused; the disk cannot be written.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::arm::{Arm, Tuning};
use super::protocol::{Course, Protocol};
use clawrl_runtime::training::TrainError;

const SETTINGS: &str = "settings.json";
const COURSES: &str = "courses.jsonl";

/// Settings that all courses of a folder share.
#[derive(Debug, Serialize)]
pub(super) struct Settings<'a> {
    pub(super) protocol: &'a Protocol,
    pub(super) policy: &'a str,
    pub(super) tunings: &'a BTreeMap<Arm, Tuning>,
}

/// The folder of an evaluation.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    file: File,
}

impl Kept {
    /// Opens a new or empty folder, or one that was started with these settings. Returns the courses in it.
    ///
    /// # Errors
    /// The folder has other content.
    pub(super) fn open(folder: &Path, settings: &Settings<'_>) -> Result<(Self, Vec<Course>), TrainError> {
        let text = serde_json::to_string_pretty(settings)
            .map_err(|error| TrainError::internal(format!("settings cannot be written: {error}")))?;
        let (settings, path) = (folder.join(SETTINGS), folder.join(COURSES));
        let is_begun = fs::read_to_string(&settings).is_ok_and(|kept| kept == text);
        if !is_begun {
            refuse_what_is_not_empty(folder)?;
            fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
            fs::write(&settings, &text).map_err(|error| unwritable(&settings, &error))?;
        }
        let lines = fs::read_to_string(&path).unwrap_or_default();
        let courses: Vec<Course> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|error| unwritable(&path, &error))?;
        if !lines.is_empty() && !lines.ends_with('\n') {
            file.write_all(b"\n").map_err(|error| unwritable(&path, &error))?;
        }
        Ok((Self { path, file }, courses))
    }

    /// Stores one more course.
    ///
    /// # Errors
    /// The disk cannot be written.
    pub(super) fn add(&mut self, course: &Course) -> Result<(), TrainError> {
        let line = serde_json::to_string(course)
            .map_err(|error| TrainError::internal(format!("a course cannot be written: {error}")))?;
        self.file.write_all((line + "\n").as_bytes()).map_err(|error| unwritable(&self.path, &error))
    }
}

/// Checks the folder before anything is created.
///
/// # Errors
/// The folder is neither new nor empty nor of an earlier evaluation.
pub(super) fn refuse_what_is_in_the_way(folder: &Path) -> Result<(), TrainError> {
    if folder.join(SETTINGS).is_file() { Ok(()) } else { refuse_what_is_not_empty(folder) }
}

fn refuse_what_is_not_empty(folder: &Path) -> Result<(), TrainError> {
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        let message =
            format!("{} is not empty, and not of a measurement with these settings", folder.display());
        return Err(TrainError::refused(message).with_help("name another folder with `--out`"));
    }
    Ok(())
}

pub(super) fn unwritable(path: &Path, error: &std::io::Error) -> TrainError {
    TrainError::storage(format!("{} cannot be written: {error}", path.display()))
}
