//! The thread that reads copies, and what it makes of them.
//!
//! I1. Memory stays bounded however long it lasts: stacks are kept by address until there are [`DISTINCT`] of them, then
//! by name, of which code has only so many.
//!
//! Cancellation: [`drain`] reads what is left and returns once its channel says so, or is closed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::signal::{Copy, Reader};
use crate::stacks::Stacks;
use crate::symbols::Symbols;
use crate::tree::{Frame, Origin, Tree};

/// Between two looks. A core leaves a handful of copies meanwhile.
const PAUSE: Duration = Duration::from_millis(20);
/// Different stacks that are kept by address.
const DISTINCT: usize = 100_000;

/// What was read in all.
pub(crate) struct Drained {
    pub(crate) tree: Tree,
    pub(crate) lost: u64,
}

/// Reads copies until it is told to stop, by a message or by the end of the channel.
pub(crate) fn drain(mut reader: Reader, stop: &Receiver<()>) -> Drained {
    let mut gathered = Gathered {
        stacks: Stacks::new(),
        symbols: Symbols::default(),
        threads: HashMap::new(),
        counts: HashMap::new(),
        tree: Tree::default(),
    };
    loop {
        let ended = !matches!(stop.recv_timeout(PAUSE), Err(RecvTimeoutError::Timeout));
        if ended {
            reader.stop();
        }
        reader.take(|copy| gathered.take(&copy));
        if ended || gathered.counts.len() > DISTINCT {
            gathered.fold();
        }
        if ended {
            return Drained { tree: gathered.tree, lost: reader.lost() };
        }
    }
}

struct Gathered {
    stacks: Stacks,
    symbols: Symbols,
    threads: HashMap<i32, Frame>,
    /// By thread's name and addresses, the newest first.
    counts: HashMap<(Arc<str>, Vec<u64>), u64>,
    tree: Tree,
}

impl Gathered {
    fn take(&mut self, copy: &Copy<'_>) {
        let thread = self.threads.entry(copy.thread).or_insert_with(|| thread(copy.thread));
        let key = (Arc::clone(&thread.name), self.stacks.unwind(copy));
        *self.counts.entry(key).or_default() += 1;
    }

    /// From addresses to names.
    fn fold(&mut self) {
        for ((thread, addresses), samples) in self.counts.drain() {
            let mut stack = vec![Frame { name: thread, origin: Origin::Thread }];
            for address in addresses.into_iter().rev() {
                stack.extend_from_slice(&self.symbols.at(address, self.stacks.modules()));
            }
            self.tree.add(&stack, samples);
        }
    }
}

/// What a thread is called. Threads that a library started have the name of who started them.
fn thread(id: i32) -> Frame {
    let name = std::fs::read_to_string(format!("/proc/self/task/{id}/comm"));
    let name = name.map_or_else(|_| "a thread that ended".to_owned(), |name| name.trim_end().to_owned());
    Frame { name: name.into(), origin: Origin::Thread }
}
