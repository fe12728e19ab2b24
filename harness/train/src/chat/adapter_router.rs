//! Chooses the adapter that answers a user.
//!
//! I1. Users who share get the shared adapter, other users their own, and users without a trained adapter the base policy. I2. Requests
//! never wait; a change applies from the next request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use clawrl_gateway::UserId;
use clawrl_torch::AdapterName;

/// The adapter of all users who share.
pub(super) const SHARED: &str = "shared";
/// Prefix of the names of other adapters.
const OF_USER: &str = "user-";

#[derive(Debug)]
pub(super) struct AdapterRouter {
    /// The policy's own adapter, if the policy is an adapter.
    first: Option<AdapterName>,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    sharing: BTreeSet<UserId>,
    /// The version of each adapter in use.
    versions: BTreeMap<AdapterName, u64>,
}

impl AdapterRouter {
    /// A router without trained adapters.
    pub(super) fn new(first: Option<AdapterName>) -> Self {
        Self { first, state: RwLock::default() }
    }

    /// The adapter that answers a user, and its version. `None`: the policy's model without an adapter.
    pub(super) fn of(&self, user: &UserId) -> Option<(AdapterName, u64)> {
        let state = self.state();
        let name = name_of(user, state.sharing.contains(user));
        match state.versions.get_key_value(name.as_str()) {
            Some((name, version)) => Some((AdapterName::clone(name), *version)),
            None => self.first.clone().map(|first| (first, 0)),
        }
    }

    /// The adapter that a user's turns train.
    pub(super) fn trained_by(&self, user: &UserId) -> String {
        name_of(user, self.state().sharing.contains(user))
    }

    /// Whether this name stands for the policy before any learning.
    pub(super) fn is_first(&self, name: Option<&str>) -> bool {
        name.is_none() || name == self.first.as_deref()
    }

    /// Sets the users who share.
    pub(super) fn share(&self, users: Vec<UserId>) {
        self.state.write().unwrap_or_else(PoisonError::into_inner).sharing = users.into_iter().collect();
    }

    /// Uses this version of an adapter from the next request.
    pub(super) fn answers(&self, name: AdapterName, version: u64) {
        self.state.write().unwrap_or_else(PoisonError::into_inner).versions.insert(name, version);
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The adapter of a user. The name is also that of a folder, so characters that names may not contain are written as numbers.
pub(super) fn name_of(user: &UserId, shares: bool) -> String {
    if shares {
        return SHARED.to_owned();
    }
    let mut name = OF_USER.to_owned();
    for byte in user.0.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("_{byte:02x}"));
        }
    }
    name
}

/// Describes the users that an adapter answers.
pub(super) fn whom(name: &str) -> String {
    match name.strip_prefix(OF_USER) {
        Some(user) => format!("`{user}`"),
        None => "those who share".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserId {
        UserId(name.to_owned())
    }

    #[test]
    fn names_are_folders_and_no_two_users_have_the_same() {
        let check = |name: &str, expected: &str| assert_eq!(name_of(&user(name), false), expected);
        check("ada", "user-ada");
        check("../x", "user-_2e_2e_2fx");
        check("a_2e", "user-a_5f2e");
        check("é", "user-_c3_a9");
        assert_eq!(name_of(&user("ada"), true), SHARED);
    }

    #[test]
    fn everybody_is_answered_by_what_they_made() {
        let router = AdapterRouter::new(None);
        let check = |name: &str, expected: Option<(&str, u64)>| {
            let found = router.of(&user(name));
            assert_eq!(found.as_ref().map(|(name, version)| (&**name, *version)), expected, "{name}");
        };
        check("ada", None);
        router.share(vec![user("bob"), user("eve")]);
        router.answers(AdapterName::from("user-ada"), 3);
        router.answers(AdapterName::from(SHARED), 5);
        check("ada", Some(("user-ada", 3)));
        check("bob", Some((SHARED, 5)));
        check("zoe", None);
        router.share(vec![user("eve")]);
        check("bob", None);
        let first = AdapterRouter::new(Some(AdapterName::from("policy")));
        assert_eq!(first.of(&user("ada")), Some((AdapterName::from("policy"), 0)));
        assert!(first.is_first(Some("policy")) && first.is_first(None) && !first.is_first(Some(SHARED)));
    }
}
