//! The key file: one line `USER KEY` per key.
//!
//! I1. There is always a key: the first start creates one. I2. Only the owner may read the file. A file that others can
//! read is refused, since its keys may have leaked.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use clawrl_gateway::{Keys, UserId};

use super::error::ServeError;

/// User of the first key.
const FIRST_USER: &str = "me";

/// Contents of a key file.
#[derive(Debug)]
pub(super) struct KeyFile {
    pub(super) keys: Keys,
    /// The first key.
    pub(super) first: String,
    /// Whether this start created the file.
    pub(super) is_new: bool,
}

/// The keys in a file.
pub(super) fn keys(path: &Path) -> Result<KeyFile, ServeError> {
    let is_new = match fs::metadata(path) {
        Ok(facts) if is_open(&facts) => return Err(open(path)),
        Ok(_) => false,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make(path)?;
            true
        }
        Err(error) => return Err(unreadable(path, &error)),
    };
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    let (keys, first) = read(without_mark(&text)).map_err(|why| wrong(path, &why))?;
    Ok(KeyFile { keys, first, is_new })
}

/// The first key of a file, for a client. `None` if the file does not exist. A line may contain only the key.
pub fn first_key(path: &Path) -> Result<Option<String>, ServeError> {
    match fs::metadata(path) {
        Ok(facts) if is_open(&facts) => return Err(open(path)),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(path, &error)),
    }
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    let mut lines =
        without_mark(&text).lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let words: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    match words.as_slice() {
        [key] | [_, key] => Ok(Some((*key).to_owned())),
        // Messages never contain the key.
        _ => {
            let message = format!("the file {} has no key in its first line", path.display());
            Err(ServeError::refused(message).with_help("a line is `USER KEY`, or the key alone"))
        }
    }
}

/// Windows editors put a byte order mark at the start of a file.
fn without_mark(text: &str) -> &str {
    text.trim_start_matches('\u{feff}')
}

/// Whether users other than the owner can read the file (I2).
fn is_open(facts: &fs::Metadata) -> bool {
    facts.permissions().mode() & 0o077 != 0
}

fn open(path: &Path) -> ServeError {
    let message = format!("the file of keys {} can be read by others", path.display());
    let help = "make new keys if somebody may have read it, then `chmod 600` it";
    ServeError::refused(message).with_help(help)
}

/// The keys and the first key.
fn read(text: &str) -> Result<(Keys, String), String> {
    let mut keys = Keys::default();
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let mut first = None;
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let (Some(user), Some(key), None) = (words.next(), words.next(), words.next()) else {
            return Err(format!("line {number} is not `USER KEY`"));
        };
        // Messages never contain the key.
        keys.add(key, UserId(user.to_owned())).map_err(|error| format!("line {number}: {error}"))?;
        first.get_or_insert_with(|| key.to_owned());
    }
    first.map(|first| (keys, first)).ok_or_else(|| "it has no key".to_owned())
}

fn make(path: &Path) -> Result<(), ServeError> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes)
        .map_err(|error| ServeError::unavailable(format!("the system gives no random numbers: {error}")))?;
    let key = format!("clawrl-{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let text = format!("# Keys of chat: USER KEY. A user may have several.\n{FIRST_USER} {key}\n");
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.map_err(|error| {
        ServeError::storage(format!("the file of keys {} cannot be written: {error}", path.display()))
    })
}

fn unreadable(path: &Path, error: &std::io::Error) -> ServeError {
    ServeError::storage(format!("the file of keys {} cannot be read: {error}", path.display()))
}

fn wrong(path: &Path, why: &str) -> ServeError {
    let help =
        "write a line for each key, such as `ada a-long-random-text`, or delete the file to have one made";
    ServeError::refused(format!("the file of keys {}: {why}", path.display())).with_help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_start_makes_a_key_and_the_next_ones_keep_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let KeyFile { keys, first: key, is_new } = super::keys(&path).unwrap();
        assert!(is_new);
        assert_eq!(keys.user(&format!("Bearer {key}")), Some(&UserId(FIRST_USER.to_owned())));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = super::keys(&path).unwrap();
        assert_eq!((again.first, again.is_new), (key.clone(), false));
        assert!(again.keys.user(&format!("Bearer {key}")).is_some());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(super::keys(&path).unwrap_err().to_string().contains("can be read by others"));
    }

    #[test]
    fn the_first_key_for_who_asks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        assert!(first_key(&path).unwrap().is_none());
        let check = |text: &str, expected: Option<&str>| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            assert_eq!(first_key(&path).ok().flatten().as_deref(), expected, "{text}");
        };
        check("# mine\n\nada one\nbob two\n", Some("one"));
        check("one\n", Some("one"));
        check("\u{feff}# mine\r\nada one\r\n", Some("one"));
        check("# none\n", None);
        check("ada one two three-secret", None);
        assert!(!first_key(&path).unwrap_err().to_string().contains("secret"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(first_key(&path).unwrap_err().to_string().contains("can be read by others"));
    }

    #[test]
    fn files_by_hand() {
        let check = |text: &str, expected: Result<&[&str], &str>| match (read(text), expected) {
            (Ok((keys, first)), Ok(known)) => {
                assert_eq!(first, known[0]);
                known.iter().for_each(|key| assert!(keys.user(&format!("Bearer {key}")).is_some(), "{key}"));
            }
            (Err(why), Err(expected)) => assert_eq!(why, expected),
            (got, expected) => panic!("{got:?} instead of {expected:?}"),
        };
        check("# mine\nada one\n\n bob  two \nada three", Ok(&["one", "two", "three"]));
        check("", Err("it has no key"));
        check("ada", Err("line 1 is not `USER KEY`"));
        check("ada one\nbob one", Err("line 2: a key belongs to another user"));
    }
}
