//! Prefix cache: a tree of computed pages, keyed by their token ids.
//!
//! I1. The tree belongs to one version of the weights; requests of another version find nothing in it. I2. A match was
//! computed from exactly the requested ids. I3. Only leaves are evicted, the least recently used first.
//!
//! A node is a page, and its edge is the page's ids; partly filled nodes are leaves.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::kv::{KvPage, PAGE};

/// The tree.
#[derive(Debug)]
pub(super) struct PrefixCache {
    version: u64,
    nodes: Vec<Option<Node>>,
    /// Free indices in `nodes`.
    vacant: Vec<usize>,
    roots: Vec<usize>,
    /// Leaves by time of last use.
    leaves: BTreeSet<(u64, usize)>,
    len: usize,
}

#[derive(Debug)]
struct Node {
    ids: Vec<u32>,
    page: Rc<KvPage>,
    /// Hidden state of the last position, if a prompt ended here.
    hidden: Option<Rc<[f32]>>,
    parent: Option<usize>,
    children: Vec<usize>,
    used: u64,
}

/// A cached prefix.
#[derive(Debug, Default)]
pub(super) struct Match {
    /// Pages of the prefix; the last one may be used in part.
    pub(super) pages: Vec<Rc<KvPage>>,
    /// Positions.
    pub(super) len: usize,
    /// Last hidden row, if the whole prompt was found; the first token can be drawn from it at once.
    pub(super) hidden: Option<Rc<[f32]>>,
}

impl PrefixCache {
    /// An empty tree.
    pub(super) fn new(version: u64) -> Self {
        Self {
            version,
            nodes: Vec::new(),
            vacant: Vec::new(),
            roots: Vec::new(),
            leaves: BTreeSet::new(),
            len: 0,
        }
    }

    /// Pages in the tree.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The longest cached prefix of a prompt. Without the last hidden row the result is shorter than the prompt, so that a
    /// row is left to compute it from. `now` is later than in any earlier call.
    pub(super) fn find(&mut self, now: u64, version: u64, prompt: &[u32]) -> Match {
        let mut found = Match::default();
        if version != self.version {
            return found;
        }
        let (mut parent, mut rest) = (None, prompt);
        while let Some((node, same)) = self.closest(parent, rest) {
            self.touch(now, node);
            let Some(at) = &self.nodes[node] else { break };
            found.pages.push(Rc::clone(&at.page));
            found.len += same;
            rest = &rest[same..];
            if same < at.ids.len() || same < PAGE {
                if rest.is_empty() && same == at.ids.len() {
                    found.hidden.clone_from(&at.hidden);
                }
                break;
            }
            if rest.is_empty() {
                found.hidden.clone_from(&at.hidden);
            }
            parent = Some(node);
        }
        if found.len == prompt.len() && found.hidden.is_none() && found.len > 0 {
            found.len -= 1;
            found.pages.truncate(found.len.div_ceil(PAGE));
        }
        found
    }

    /// Keeps the pages that `version` computed from `ids`. `now` is later than in any earlier call.
    pub(super) fn insert(
        &mut self,
        now: u64,
        version: u64,
        ids: &[u32],
        pages: &[Rc<KvPage>],
        hidden: Option<Rc<[f32]>>,
    ) {
        if version != self.version {
            return;
        }
        let mut parent = None;
        let chunks = ids.chunks(PAGE);
        let last = chunks.len().saturating_sub(1);
        for (index, (ids, page)) in chunks.zip(pages).enumerate() {
            let present = self.children(parent).iter().copied();
            let mut same = present.filter(|&node| self.nodes[node].as_ref().is_some_and(|at| at.ids == ids));
            let node = match same.next() {
                Some(node) => node,
                None => self.add(now, parent, ids, page),
            };
            self.touch(now, node);
            if index == last
                && hidden.is_some()
                && let Some(at) = &mut self.nodes[node]
            {
                at.hidden.clone_from(&hidden);
            }
            parent = Some(node);
        }
    }

    /// Evicts the least recently used leaf; returns false if the tree is empty (I3).
    pub(super) fn evict(&mut self) -> bool {
        let Some((_, leaf)) = self.leaves.pop_first() else { return false };
        let Some(node) = self.nodes[leaf].take() else { return false };
        self.vacant.push(leaf);
        self.len -= 1;
        let siblings = match node.parent.and_then(|parent| self.nodes[parent].as_mut()) {
            Some(parent) => &mut parent.children,
            None => &mut self.roots,
        };
        siblings.retain(|&sibling| sibling != leaf);
        if let Some(parent) = node.parent
            && let Some(at) = &self.nodes[parent]
            && at.children.is_empty()
        {
            self.leaves.insert((at.used, parent));
        }
        true
    }

    /// Time of last use of the leaf that is evicted next.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.leaves.first().map(|&(used, _)| used)
    }

    fn children(&self, parent: Option<usize>) -> &[usize] {
        match parent.and_then(|parent| self.nodes[parent].as_ref()) {
            Some(parent) => &parent.children,
            None => &self.roots,
        }
    }

    /// The child that shares most ids with `rest`, and their number; ties go to a child with a hidden row.
    fn closest(&self, parent: Option<usize>, rest: &[u32]) -> Option<(usize, usize)> {
        let mut best: Option<(usize, (usize, bool))> = None;
        for &child in self.children(parent) {
            let Some(node) = &self.nodes[child] else { continue };
            let same = common(&node.ids, rest);
            let rank = (same, same == node.ids.len() && node.hidden.is_some());
            if same > 0 && best.is_none_or(|(_, best)| rank > best) {
                best = Some((child, rank));
                if same == PAGE {
                    break;
                }
            }
        }
        best.map(|(child, (same, _))| (child, same))
    }

    fn add(&mut self, now: u64, parent: Option<usize>, ids: &[u32], page: &Rc<KvPage>) -> usize {
        let node = Node {
            ids: ids.to_vec(),
            page: Rc::clone(page),
            hidden: None,
            parent,
            children: Vec::new(),
            used: now,
        };
        let place = self.vacant.pop().unwrap_or(self.nodes.len());
        if place == self.nodes.len() {
            self.nodes.push(Some(node));
        } else {
            self.nodes[place] = Some(node);
        }
        self.leaves.insert((now, place));
        self.len += 1;
        match parent.and_then(|parent| self.nodes[parent].as_mut().map(|at| (parent, at))) {
            Some((parent, at)) => {
                at.children.push(place);
                self.leaves.remove(&(at.used, parent));
            }
            None => self.roots.push(place),
        }
        place
    }

    fn touch(&mut self, now: u64, node: usize) {
        if let Some(at) = &mut self.nodes[node] {
            if at.children.is_empty() {
                self.leaves.remove(&(at.used, node));
                self.leaves.insert((now, node));
            }
            at.used = now;
        }
    }
}

/// Length of the common prefix.
pub(super) fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelConfig;
    use crate::engine::kv::{KvPool, Slab};

    fn slab(pool: &Rc<KvPool>, len: usize) -> Slab {
        let mut slab = Slab::new(Vec::new(), 0, pool.reserve(len.div_ceil(PAGE)).unwrap());
        slab.grow(len);
        slab
    }

    fn pool() -> Rc<KvPool> {
        KvPool::new(&ModelConfig::tiny(64, 0), 1 << 24)
    }

    /// I1 and I2.
    #[test]
    fn the_longest_beginning_of_this_version_is_found() {
        let (pool, mut cache) = (pool(), PrefixCache::new(3));
        let ids: Vec<u32> = (0..40).collect();
        let hidden: Rc<[f32]> = Rc::from([1.0f32].as_slice());
        cache.insert(1, 3, &ids, slab(&pool, 40).pages(), Some(hidden));
        cache.insert(2, 2, &[9; 20], slab(&pool, 20).pages(), None);

        let mut check = |version, prompt: &[u32], expected: (usize, bool)| {
            let found = cache.find(3, version, prompt);
            assert_eq!((found.len, found.hidden.is_some()), expected, "{prompt:?}");
            assert_eq!(found.pages.len(), found.len.div_ceil(PAGE));
        };
        check(3, &ids, (40, true));
        check(3, &(0..50).collect::<Vec<_>>(), (40, false));
        // The last row is computed again for its hidden state.
        check(3, &ids[..39], (38, false));
        check(3, &ids[..32], (31, false));
        check(3, &ids[..33], (32, false));
        check(3, &[0, 1, 2, 7], (3, false));
        check(3, &[5], (0, false));
        check(3, &[9; 20], (0, false));
        check(2, &ids, (0, false));
        drop(cache);
        assert_eq!(pool.live(), 0);
    }

    /// I3.
    #[test]
    fn the_leaf_unused_for_longest_goes_first() {
        let (pool, mut cache) = (pool(), PrefixCache::new(0));
        let ids: Vec<u32> = (0..33).collect();
        cache.insert(1, 0, &ids, slab(&pool, 33).pages(), None);
        let mut other = ids[..16].to_vec();
        other.extend([99; 10]);
        cache.insert(2, 0, &other, slab(&pool, 26).pages(), None);
        // Both share the first page.
        assert_eq!((cache.len(), pool.live()), (4, 4));
        let _ = cache.find(3, 0, &ids);
        assert!(cache.evict());
        assert_eq!((cache.find(4, 0, &other).len, cache.find(5, 0, &ids).len), (16, 32));
        for left in [2, 1, 0] {
            assert!(cache.evict());
            assert_eq!((cache.len(), pool.live()), (left, left));
        }
        assert!(!cache.evict());
    }
}
