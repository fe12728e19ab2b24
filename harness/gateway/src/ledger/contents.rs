//! Long bodies and prompts, stored apart from their requests, as the difference from an earlier one of the same session, or from the first
//! one of another session.
//!
//! Each request repeats its whole conversation, and conversations of a user start alike, so that most of a long body is stored already.
//! They are stored apart because SQLite rewrites a whole row when its request ends.
//!
//! I1. Reading returns the stored bytes exactly. I2. A difference refers to the same turn or an earlier one of the session: deleting a turn
//! deletes all later turns of its session, so that no base is lost. Or it refers to the first cached one of another session of the user:
//! before that is deleted, its dependents, at most [`MAX_USES`], are stored whole. I3. Reading one needs at most [`MAX_LINKS`] others.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};

use super::{LedgerError, blobs, numbers};
use crate::{RequestId, SessionId, TurnId, UserId};

/// Minimum size of a long body, in bytes. Short ones share a page with other rows.
const MIN_LONG_BODY: usize = 2_048;
/// Minimum size of a long prompt, in tokens.
const MIN_LONG_PROMPT: usize = 512;
/// Length of a chain of differences; the next one is stored whole.
const MAX_LINKS: u32 = 15;
/// Dependents in other sessions; the next one is stored whole.
const MAX_USES: u32 = 32;
/// Bytes of the cache of bases; beyond it, the cache is cleared.
const MAX_CACHED_BYTES: usize = 64 << 20;
/// Elements that are compared at once.
const STRIDE: usize = 64;

/// A body to be stored.
#[derive(Debug)]
pub(crate) enum StoredBody {
    /// In the request's row, uncompressed: compressing it would double the time, and save half of the space.
    Short(Bytes),
    /// Apart. It is compressed when its base is known.
    Long(Bytes),
}

impl StoredBody {
    pub(crate) fn of(body: Bytes) -> Self {
        if body.len() < MIN_LONG_BODY { Self::Short(body) } else { Self::Long(body) }
    }

    /// The value of the request's row.
    pub(crate) fn in_row(&self) -> Option<&[u8]> {
        match self {
            Self::Short(blob) => Some(blob),
            Self::Long(_) => None,
        }
    }
}

/// Prompt tokens to be stored.
#[derive(Debug)]
pub(crate) enum StoredPrompt {
    /// Encoded, in the request's row.
    Short(Vec<u8>),
    /// Apart.
    Long(Arc<[u32]>),
}

impl StoredPrompt {
    pub(crate) fn of(ids: Arc<[u32]>) -> Self {
        if ids.len() < MIN_LONG_PROMPT { Self::Short(blobs::ids(&ids)) } else { Self::Long(ids) }
    }

    /// The value of the request's row.
    pub(crate) fn in_row(&self) -> Option<&[u8]> {
        match self {
            Self::Short(blob) => Some(blob),
            Self::Long(_) => None,
        }
    }
}

/// Element of long contents: a byte of a body, or a token of a prompt.
pub(crate) trait Element: Copy + PartialEq {
    /// Owned whole contents.
    type Whole: AsRef<[Self]> + Clone + fmt::Debug;

    const ADD: &'static str;
    const FIND: &'static str;
    /// Finds dependents of these turns in other turns.
    const NEED: &'static str;
    const MAKE_WHOLE: &'static str;
    const FORGET: &'static str;

    fn write(elements: &[Self]) -> Result<Vec<u8>, LedgerError>;
    fn read(blob: Vec<u8>) -> Result<Vec<Self>, LedgerError>;
}

/// SQL statements of one table.
macro_rules! statements {
    ($table:literal) => {
        const ADD: &'static str = concat!(
            "INSERT INTO ",
            $table,
            " (request, base, elsewhere, first, last, middle) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        );
        const FIND: &'static str = concat!("SELECT base, first, last, middle FROM ", $table, " WHERE request = ?1");
        const NEED: &'static str = concat!(
            "WITH gone (number) AS (SELECT number FROM requests WHERE turn IN (SELECT value FROM json_each(?1))) \
             SELECT request FROM ",
            $table,
            " WHERE elsewhere = 1 AND base IN gone AND request NOT IN gone"
        );
        const MAKE_WHOLE: &'static str = concat!(
            "UPDATE ",
            $table,
            " SET base = NULL, elsewhere = 0, first = 0, last = 0, middle = ?2 WHERE request = ?1"
        );
        const FORGET: &'static str = concat!("DELETE FROM ", $table, " WHERE request = ?1");
    };
}

impl Element for u8 {
    type Whole = Bytes;

    statements!("bodies");

    fn write(elements: &[Self]) -> Result<Vec<u8>, LedgerError> {
        blobs::compress(elements)
    }

    fn read(blob: Vec<u8>) -> Result<Vec<Self>, LedgerError> {
        blobs::body(blob)
    }
}

impl Element for u32 {
    type Whole = Arc<[u32]>;

    statements!("prompts");

    fn write(elements: &[Self]) -> Result<Vec<u8>, LedgerError> {
        Ok(blobs::ids(elements))
    }

    fn read(blob: Vec<u8>) -> Result<Vec<Self>, LedgerError> {
        blobs::read_ids(&blob)
    }
}

/// The cache of bases: the last contents of each session, and for each user the first that was stored whole.
#[derive(Debug)]
pub(crate) struct DeltaBases<E: Element> {
    of_session: HashMap<SessionId, SessionBase<E>>,
    of_user: HashMap<UserId, UserBase<E>>,
    bytes: usize,
}

#[derive(Debug)]
struct UserBase<E: Element> {
    request: RequestId,
    /// Number of dependents.
    uses: u32,
    whole: E::Whole,
}

/// The place of long contents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContentOwner<'a> {
    pub(crate) user: &'a UserId,
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
    pub(crate) request: RequestId,
}

/// The base of a difference.
struct Base {
    request: RequestId,
    is_elsewhere: bool,
    /// Number of others that reading it needs.
    links: u32,
    /// Length of the shared start and end.
    shared: (usize, usize),
}

#[derive(Debug)]
struct SessionBase<E: Element> {
    request: RequestId,
    turn: TurnId,
    /// Number of others that reading it needs.
    links: u32,
    whole: E::Whole,
}

impl<E: Element> Default for DeltaBases<E> {
    fn default() -> Self {
        Self { of_session: HashMap::new(), of_user: HashMap::new(), bytes: 0 }
    }
}

impl<E: Element> DeltaBases<E> {
    pub(crate) fn forget(&mut self, session: SessionId) {
        if let Some(last) = self.of_session.remove(&session) {
            self.bytes -= size_of_val(last.whole.as_ref());
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Stores long contents of a stored request.
    pub(crate) fn add(
        &mut self,
        connection: &Connection,
        owner: ContentOwner<'_>,
        stored: E::Whole,
    ) -> Result<(), LedgerError> {
        let ContentOwner { user, session, turn, request } = owner;
        let whole = stored.as_ref();
        let base = self.base(owner, whole);
        let (first, last) = base.as_ref().map_or((0, 0), |base| base.shared);
        let middle = E::write(&whole[first..whole.len() - last])?;
        let is_elsewhere = base.as_ref().is_some_and(|base| base.is_elsewhere);
        let links = base.as_ref().map_or(0, |base| base.links + 1);
        connection.prepare_cached(E::ADD)?.execute(params![
            request,
            base.map(|base| base.request),
            is_elsewhere,
            numbers::to_sql(first as u64),
            numbers::to_sql(last as u64),
            middle
        ])?;
        let is_first = !self.of_session.contains_key(&session);
        self.forget(session);
        self.make_room(whole);
        if is_elsewhere {
            if let Some(first) = self.of_user.get_mut(user) {
                first.uses += 1;
            }
        } else if is_first {
            // Counted twice, since either map may drop it first.
            self.bytes += size_of_val(whole);
            let first = UserBase { request, uses: 0, whole: stored.clone() };
            if let Some(before) = self.of_user.insert(user.clone(), first) {
                self.bytes -= size_of_val(before.whole.as_ref());
            }
        }
        self.of_session.insert(session, SessionBase { request, turn, links, whole: stored });
        Ok(())
    }

    /// `None` if storing it whole is better.
    fn base(&self, ContentOwner { user, session, turn, .. }: ContentOwner<'_>, whole: &[E]) -> Option<Base> {
        let base = match self.of_session.get(&session) {
            Some(last) if last.turn <= turn && last.links < MAX_LINKS => Base {
                request: last.request,
                is_elsewhere: false,
                links: last.links,
                shared: shared(last.whole.as_ref(), whole),
            },
            Some(_) => return None,
            None => {
                let first = self.of_user.get(user).filter(|first| first.uses < MAX_USES)?;
                let shared = shared(first.whole.as_ref(), whole);
                Base { request: first.request, is_elsewhere: true, links: 0, shared }
            }
        };
        // With little in common, whole contents are read faster.
        (2 * (base.shared.0 + base.shared.1) >= whole.len()).then_some(base)
    }

    fn make_room(&mut self, whole: &[E]) {
        let bytes = size_of_val(whole);
        if self.bytes + bytes > MAX_CACHED_BYTES {
            self.clear();
        }
        self.bytes += bytes;
    }
}

/// Stores whole the dependents of these turns, a JSON array, that remain when the turns are deleted (I2).
pub(crate) fn make_whole<E: Element>(connection: &Connection, chosen: &str) -> Result<(), LedgerError> {
    let mut statement = connection.prepare_cached(E::NEED)?;
    let need = statement.query_map([chosen], |row| row.get(0))?;
    for request in need.collect::<Result<Vec<RequestId>, _>>()? {
        match long::<E>(connection, request) {
            Ok(Some(whole)) => {
                connection.prepare_cached(E::MAKE_WHOLE)?.execute(params![request, E::write(&whole)?])?;
            }
            // It cannot be read, and must not keep deleted contents alive.
            Ok(None) | Err(_) => {
                tracing::error!("dropped the incomplete contents of request {request}");
                connection.prepare_cached(E::FORGET)?.execute([request])?;
            }
        }
    }
    Ok(())
}

/// Length of the start and of the end that both share; they do not overlap in either.
fn shared<E: PartialEq>(one: &[E], other: &[E]) -> (usize, usize) {
    let most = one.len().min(other.len());
    let strides = one.chunks_exact(STRIDE).zip(other.chunks_exact(STRIDE));
    let first = STRIDE * strides.take_while(|(a, b)| a == b).count();
    let first = first + one[first..most].iter().zip(&other[first..most]).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[first..], &other[first..]);
    let most = one.len().min(other.len());
    let strides = one.rchunks_exact(STRIDE).zip(other.rchunks_exact(STRIDE));
    let last = STRIDE * strides.take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[..one.len() - last], &other[..other.len() - last]);
    let rest = one.iter().rev().zip(other.iter().rev()).take(most - last);
    (first, last + rest.take_while(|(a, b)| a == b).count())
}

/// A body, given the value of the request's row; `None` if deleted.
pub(crate) fn body(
    connection: &Connection,
    request: RequestId,
    in_row: Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>, LedgerError> {
    match in_row {
        Some(blob) => blobs::body(blob).map(Some),
        None => long(connection, request),
    }
}

/// Prompt tokens, given the value of the request's row; empty if deleted or unknown.
pub(crate) fn prompt(
    connection: &Connection,
    request: RequestId,
    in_row: Option<Vec<u8>>,
) -> Result<Vec<u32>, LedgerError> {
    match in_row {
        Some(blob) => blobs::read_ids(&blob),
        None => Ok(long(connection, request)?.unwrap_or_default()),
    }
}

fn long<E: Element>(connection: &Connection, request: RequestId) -> Result<Option<Vec<E>>, LedgerError> {
    let mut statement = connection.prepare_cached(E::FIND)?;
    let mut differences = Vec::new();
    let mut at = request;
    let mut whole = loop {
        let read = |row: &rusqlite::Row<'_>| {
            let count = |column| row.get(column).map(|count: i64| numbers::from_sql(count) as usize);
            Ok((row.get::<_, Option<RequestId>>(0)?, count(1)?, count(2)?, row.get::<_, Vec<u8>>(3)?))
        };
        match statement.query_row([at], read).optional()? {
            Some((None, _, _, blob)) => break E::read(blob)?,
            Some((Some(base), first, last, blob)) if differences.len() < MAX_LINKS as usize => {
                differences.push((first, last, E::read(blob)?));
                at = base;
            }
            None if differences.is_empty() => return Ok(None),
            _ => {
                return Err(LedgerError::Storage(format!(
                    "the contents of request {request} are incomplete"
                )));
            }
        }
    };
    while let Some((first, last, middle)) = differences.pop() {
        if first.saturating_add(last) > whole.len() {
            return Err(LedgerError::Storage(format!("the contents of request {request} are incomplete")));
        }
        let end = whole.split_off(whole.len() - last);
        whole.truncate(first);
        whole.extend(middle);
        whole.extend(end);
    }
    Ok(Some(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_counts_both_ends_without_overlap() {
        let check = |one: &str, other: &str, expected| {
            assert_eq!(shared(one.as_bytes(), other.as_bytes()), expected, "{one} {other}");
            // More than a stride at either end.
            let long = |text: &str| format!("{0}{text}{0}", "=".repeat(STRIDE + 3));
            let (first, last) = shared(long(one).as_bytes(), long(other).as_bytes());
            assert!(first >= STRIDE + 3 && first + last <= long(one).len().min(long(other).len()));
            assert_eq!(first + last - 2 * (STRIDE + 3), expected.0 + expected.1, "{one} {other}");
        };
        check("", "", (0, 0));
        check("abc", "abc", (3, 0));
        check("abc", "abxc", (2, 1));
        check("abxc", "abc", (2, 1));
        check("aa", "aaa", (2, 0));
        check("aaa", "aa", (2, 0));
        check("abab", "ab", (2, 0));
        check("xyz", "abc", (0, 0));
        check("", "abc", (0, 0));
    }
}
