//! Keys and their users.
//!
//! I1. Keys are stored and compared as digests, so that neither memory nor timing reveals one. I2. A key belongs to one user; a user may
//! have several keys.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Digest, UserId};

/// The keys of all users.
#[derive(Clone, Default)]
pub struct Keys {
    users: BTreeMap<Digest, UserId>,
}

/// Why a key cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The key is empty.
    #[error("a key is empty")]
    Empty,
    /// The key belongs to another user.
    #[error("a key belongs to another user")]
    Taken,
}

impl Keys {
    /// Adds a key of `user`.
    ///
    /// # Errors
    /// [`KeyError`], if the key is empty or belongs to another user.
    pub fn add(&mut self, key: &str, user: UserId) -> Result<(), KeyError> {
        if key.trim().is_empty() {
            return Err(KeyError::Empty);
        }
        let known = self.users.entry(Digest::of_bytes(key.as_bytes())).or_insert_with(|| user.clone());
        if *known == user { Ok(()) } else { Err(KeyError::Taken) }
    }

    /// The user of an `Authorization` header (`Bearer <key>`); `None` if it is invalid.
    #[must_use]
    pub fn user(&self, authorization: &str) -> Option<&UserId> {
        let (scheme, key) = authorization.trim().split_once(' ')?;
        let is_bearer = scheme.eq_ignore_ascii_case("bearer");
        is_bearer.then(|| self.users.get(&Digest::of_bytes(key.trim().as_bytes())))?
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.users.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(authorization: &str, expected: Option<&str>) {
        let mut keys = Keys::default();
        for (key, user) in [("one", "ada"), ("two", "ada"), ("three", "bob")] {
            assert_eq!(keys.add(key, UserId(user.to_owned())), Ok(()));
        }
        let found = keys.user(authorization).map(|user| user.0.as_str());
        assert_eq!(found, expected, "{authorization}");
    }

    #[test]
    fn keys_map_to_users() {
        check("Bearer one", Some("ada"));
        check("bearer  two ", Some("ada"));
        check("Bearer three", Some("bob"));
        check("Bearer four", None);
        check("Basic one", None);
        check("one", None);
        check("Bearer ", None);
        check("", None);
    }

    #[test]
    fn key_has_one_user() {
        let mut keys = Keys::default();
        assert_eq!(keys.add(" ", UserId("ada".to_owned())), Err(KeyError::Empty));
        assert_eq!(keys.add("one", UserId("ada".to_owned())), Ok(()));
        assert_eq!(keys.add("one", UserId("ada".to_owned())), Ok(()));
        assert_eq!(keys.add("one", UserId("bob".to_owned())), Err(KeyError::Taken));
        assert_eq!(format!("{keys:?}"), "1 keys");
    }
}
