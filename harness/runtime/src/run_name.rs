//! Names of new runs.

use clawrl_core::RunId;
use clawrl_record::{RecordError, RunStore};

use crate::error::RuntimeError;

/// Maximum length of a name before a number is appended: a run's name has at most 64 characters.
const MAX_NAME_CHARS: usize = 56;

/// Maximum number of runs with the same name that start in the same second.
const MAX_SAME_NAME: u32 = 10_000;

/// The current date and time to the second, in UTC.
pub fn stamp() -> String {
    jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string()
}

/// Parses a run's name.
///
/// # Errors
/// The rule for names, for a command line.
pub fn parse_run_name(text: &str) -> Result<RunId, String> {
    RunId::new(text).ok_or_else(|| {
        "a run's name has 1 to 64 letters, digits, dashes, underscores and dots, and does not start with a dot"
            .to_owned()
    })
}

/// The name itself, or with the first number appended that makes it new.
///
/// # Errors
/// All of these names are taken.
pub fn unused_name(store: &RunStore, wanted: &str) -> Result<RunId, RuntimeError> {
    let wanted: String = wanted.chars().take(MAX_NAME_CHARS).collect();
    let numbered = (2..MAX_SAME_NAME).map(|number| format!("{wanted}-{number}"));
    let names = std::iter::once(wanted.clone()).chain(numbered);
    let is_new = |run: &RunId| matches!(store.run(run), Err(RecordError::NoSuchRun { .. }));
    names.filter_map(|name| RunId::new(&name)).find(is_new).ok_or_else(|| {
        RuntimeError::no_such_run(format!("every name like {wanted} is taken"))
            .with_help("choose one with --name")
    })
}

/// Creates a run under this name. A generated name that another run took in the meantime is replaced by the next free one; a
/// chosen name is kept.
///
/// # Errors
/// `create` fails, or a chosen name is taken.
pub fn create_under<W, E: From<RuntimeError> + From<RecordError>>(
    wanted: &RunId,
    is_chosen: bool,
    store: &RunStore,
    mut create: impl FnMut(&RunId) -> Result<Result<W, RecordError>, E>,
) -> Result<W, E> {
    let mut name = wanted.clone();
    loop {
        match create(&name)? {
            Err(RecordError::Exists { .. } | RecordError::Running { .. }) if !is_chosen => {
                name = unused_name(store, wanted.as_str())?;
            }
            created => return Ok(created?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a run in a store in which it cannot be found yet, as while another process creates one.
    fn create(is_chosen: bool, taken: usize) -> (Result<usize, RuntimeError>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(folder.path()).unwrap();
        let mut tries = Vec::new();
        let made = create_under(&RunId::new("run").unwrap(), is_chosen, &store, |name| {
            tries.push(name.to_string());
            let exists = RecordError::Exists { run: name.clone() };
            Ok(if tries.len() <= taken { Err(exists) } else { Ok(tries.len()) })
        });
        (made, tries)
    }

    #[test]
    fn create_under_retries_generated_names_only() {
        assert_eq!(create(false, 0).0.unwrap(), 1);
        assert_eq!(create(false, 2).0.unwrap(), 3);
        let (made, tries) = create(true, 1);
        assert!(matches!(made, Err(RuntimeError::Record(RecordError::Exists { .. }))));
        assert_eq!(tries, ["run"]);
    }
}
