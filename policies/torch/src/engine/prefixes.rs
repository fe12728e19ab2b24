//! Prefix caches of the model and of each adapter.
//!
//! I1. Pages that an adapter computed serve only requests for that adapter at the same version. I2. The least recently used
//! leaf of all trees is evicted first.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::adapters::AdapterName;
use super::kv::KvPage;
use super::prefix::{Match, PrefixCache};

/// The adapter that computes, or `None` for the base model.
pub(super) type Owner = Option<AdapterName>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct PrefixCaches {
    trees: BTreeMap<Owner, PrefixCache>,
    clock: u64,
}

impl PrefixCaches {
    /// Pages in all trees.
    pub(super) fn len(&self) -> usize {
        self.trees.values().map(PrefixCache::len).sum()
    }

    /// As [`PrefixCache::find`].
    pub(super) fn find(&mut self, owner: &Owner, version: u64, prompt: &[u32]) -> Match {
        self.clock += 1;
        let tree = self.trees.get_mut(owner);
        tree.map_or_else(Match::default, |tree| tree.find(self.clock, version, prompt))
    }

    /// As [`PrefixCache::insert`].
    pub(super) fn insert(
        &mut self,
        owner: &Owner,
        version: u64,
        ids: &[u32],
        pages: &[Rc<KvPage>],
        hidden: Option<Rc<[f32]>>,
    ) {
        self.clock += 1;
        if let Some(tree) = self.trees.get_mut(owner) {
            tree.insert(self.clock, version, ids, pages, hidden);
        }
    }

    /// Evicts a leaf (I2); returns false if all trees are empty.
    pub(super) fn evict(&mut self) -> bool {
        let used = |tree: &&mut PrefixCache| tree.oldest().unwrap_or(u64::MAX);
        self.trees.values_mut().min_by_key(used).is_some_and(PrefixCache::evict)
    }

    /// Clears the owner's cache for a new version.
    pub(super) fn restart(&mut self, owner: Owner, version: u64) {
        self.trees.insert(owner, PrefixCache::new(version));
    }

    /// Removes the owner's cache.
    pub(super) fn remove(&mut self, owner: &Owner) {
        self.trees.remove(owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelConfig;
    use crate::engine::kv::{KvPool, Slab};

    #[test]
    fn an_owner_finds_its_own_pages_alone() {
        let pool = KvPool::new(&ModelConfig::tiny(64, 0), 1 << 24);
        let slab = || {
            let mut slab = Slab::new(Vec::new(), 0, pool.reserve(1).unwrap());
            slab.grow(9);
            slab
        };
        let (model, one, two): (Owner, Owner, Owner) = (None, Some("one".into()), Some("two".into()));
        let mut caches = PrefixCaches::default();
        caches.restart(model.clone(), 3);
        caches.restart(one.clone(), 3);
        let ids: Vec<u32> = (0..9).collect();
        caches.insert(&model, 3, &ids, slab().pages(), None);
        caches.insert(&one, 3, &[7; 9], slab().pages(), None);
        caches.insert(&two, 3, &[8; 9], slab().pages(), None);
        let mut found = |owner: &Owner, prompt: &[u32]| caches.find(owner, 3, prompt).len;
        assert_eq!([found(&model, &ids), found(&one, &ids), found(&two, &ids)], [8, 0, 0]);
        assert_eq!([found(&model, &[7; 9]), found(&one, &[7; 9]), found(&two, &[8; 9])], [0, 8, 0]);
        // The model's leaf is evicted first, since the adapter's was used later.
        assert_eq!((caches.len(), pool.live()), (2, 2));
        assert!(caches.evict());
        assert_eq!((caches.find(&model, 3, &ids).len, caches.find(&one, 3, &[7; 9]).len), (0, 8));
        caches.restart(one.clone(), 4);
        assert_eq!((caches.len(), caches.evict()), (0, false));
        caches.insert(&one, 4, &ids, slab().pages(), None);
        caches.remove(&one);
        assert_eq!((caches.find(&one, 4, &ids).len, pool.live()), (0, 0));
    }
}
