//! Whenever the recorder is reopened, the rows equal those of a recorder that was never closed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clawrl_gateway::{Deletion, LedgerError, RequestId};
use proptest::collection;
use proptest::prelude::*;

use crate::client::{self, Identity, LinkInput, What};
use crate::recording::{self, Chat};
use crate::tracker::user;

/// What happens between two inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    Nothing,
    /// The recorder is closed and reopened.
    End,
    /// The same after a long idle time.
    QuietAndEnd,
    /// All of Ada's data is deleted.
    Delete,
}

/// The rows at the end. `is_opened`: whether the recorder is really reopened, or only given the same calls.
async fn rows(happened: &[LinkInput], between: &[Between], is_opened: bool) -> Vec<String> {
    let mut chat = Chat::new();
    let mut numbers: BTreeMap<u64, RequestId> = BTreeMap::new();
    let mut waiting: BTreeSet<RequestId> = BTreeSet::new();
    for (happening, between) in happened.iter().zip(between.iter().cycle()) {
        chat.pass(Duration::from_secs(1));
        let number = |numbers: &BTreeMap<u64, RequestId>| numbers[&happening.request];
        let ended = match &happening.what {
            What::Arrived(headers, body) => {
                let new = recording::asked_with(user(happening.user), headers.clone(), body);
                let admitted = chat.handle().arrived(new).await.unwrap();
                numbers.insert(happening.request, admitted.request);
                waiting.insert(admitted.request);
                Ok(())
            }
            What::Answered(reply) => {
                waiting.remove(&number(&numbers));
                chat.handle().answered(number(&numbers), recording::answer_of(reply)).await
            }
            What::Failed => {
                waiting.remove(&number(&numbers));
                chat.handle().failed(number(&numbers), "cut").await
            }
        };
        // A request without an answer fails when the recorder ends.
        assert!(matches!(ended, Ok(()) | Err(LedgerError::Unknown(_))), "{ended:?}");
        match between {
            Between::Nothing => continue,
            Between::Delete => {
                chat.handle().delete(&user("ada"), Deletion::All).await.unwrap();
                continue;
            }
            Between::End => {}
            Between::QuietAndEnd => chat.pass(Duration::from_secs(1900)),
        }
        if is_opened {
            chat.open().unwrap();
        } else {
            for request in std::mem::take(&mut waiting) {
                chat.handle().failed(request, "the server stopped").await.unwrap();
            }
            chat.handle().expire().await.unwrap();
        }
        waiting.clear();
    }
    chat.rows()
}

fn between() -> impl Strategy<Value = Between> {
    prop_oneof![
        6 => Just(Between::Nothing),
        3 => Just(Between::End),
        1 => Just(Between::QuietAndEnd),
        1 => Just(Between::Delete),
    ]
}

/// Two conversations, each in order, interleaved by `picks`.
fn mixed(one: Vec<LinkInput>, other: Vec<LinkInput>, picks: &[bool]) -> Vec<LinkInput> {
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    let mut picks = picks.iter().cycle();
    let mut mixed = Vec::new();
    loop {
        let next = match picks.next() {
            Some(true) => one.next().or_else(|| other.next()),
            _ => other.next().or_else(|| one.next()),
        };
        match next {
            Some(next) => mixed.push(next),
            None => return mixed,
        }
    }
}

proptest! {
    // Each case writes two files.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn opening_anew_changes_no_row(
        one in client::acts(),
        other in client::acts(),
        namings in (client::naming(), client::naming()),
        is_one_user in any::<bool>(),
        picks in collection::vec(any::<bool>(), 1..20),
        between in collection::vec(between(), 1..12),
    ) {
        let name = if is_one_user { "ada" } else { "bob" };
        let first = Identity { user: "ada", naming: namings.0, name: "s1" };
        let second = Identity { user: name, naming: namings.1, name: "s2" };
        let one = client::happenings(&first, &one, 1);
        let other = client::happenings(&second, &other, 1000);
        let happened = mixed(one, other, &picks);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let unopened = runtime.block_on(rows(&happened, &between, false));
        let opened = runtime.block_on(rows(&happened, &between, true));
        let differs = opened.iter().find(|row| !unopened.contains(row));
        prop_assert!(opened == unopened, "{} rows, not {}: {differs:?}", opened.len(), unopened.len());
    }
}
