//! Samples by what called what: the sum of all stacks.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Whose code a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Origin {
    /// Of this workspace.
    Ours,
    /// Of libtorch and what it computes with.
    Tensors,
    /// A thread, under its name.
    Thread,
    /// Everything else.
    #[default]
    Other,
}

/// A function, or a thread at the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) name: Arc<str>,
    pub(crate) origin: Origin,
}

/// A node with all that was seen above it.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) origin: Origin,
    /// Samples in it, those of its children included.
    pub(crate) samples: u64,
    pub(crate) children: BTreeMap<Arc<str>, Tree>,
}

impl Tree {
    /// Adds samples of one stack, root first.
    pub(crate) fn add<'a>(&mut self, stack: impl IntoIterator<Item = &'a Frame>, samples: u64) {
        self.samples += samples;
        let mut node = self;
        for frame in stack {
            node = node.children.entry(Arc::clone(&frame.name)).or_default();
            node.origin = frame.origin;
            node.samples += samples;
        }
    }

    /// Whether a function of this name was seen anywhere.
    pub(crate) fn names(&self, wanted: &dyn Fn(&str) -> bool) -> bool {
        self.children.iter().any(|(name, child)| wanted(name) || child.names(wanted))
    }
}
