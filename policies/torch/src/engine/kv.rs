//! The KV cache: a budget of pages of equal size, and slabs, the page lists of sequences.
//!
//! A full slab grows by one page, without copying. Sequences with the same prefix share pages. A shared page is copied
//! before a write, so only the last, partly filled page of a shared prefix is ever copied.
//!
//! I1. Live and reserved pages together never exceed the budget: a running sequence has reserved all pages that it may
//! still need. I2. A page is live from its allocation by [`KvPool`] until its last owner is dropped; no code returns pages
//! explicitly. I3. A page with two owners is never written.
//!
//! Shapes: of each layer and key head, keys E x [`PAGE`] (a row of a page holds one dimension of all its positions, so
//! products with a query need no sum across lanes), then values [`PAGE`] x E. Units: fp32, pages.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::ModelConfig;

/// Positions in one page.
pub(super) const PAGE: usize = 16;

/// All pages of an engine.
#[derive(Debug)]
pub(super) struct KvPool {
    shape: KvShape,
    budget: usize,
    live: Cell<usize>,
    reserved: Cell<usize>,
    /// Memory of freed pages, reused for new ones.
    free: RefCell<Vec<Box<[f32]>>>,
}

/// Dimensions of a page.
#[derive(Debug, Clone, Copy)]
struct KvShape {
    layers: usize,
    key_heads: usize,
    head_dim: usize,
}

impl KvShape {
    fn of(config: &ModelConfig) -> Self {
        Self {
            layers: config.num_hidden_layers as usize,
            key_heads: config.num_key_value_heads as usize,
            head_dim: config.head_dim as usize,
        }
    }

    /// Elements of the keys, and of the values, of one head.
    fn head(self) -> usize {
        PAGE * self.head_dim
    }

    fn page(self) -> usize {
        self.layers * self.key_heads * 2 * self.head()
    }
}

impl KvPool {
    /// Creates a pool of as many pages as fit into `budget_bytes`.
    pub(super) fn new(config: &ModelConfig, budget_bytes: u64) -> Rc<Self> {
        let shape = KvShape::of(config);
        let budget = usize::try_from(budget_bytes / Self::page_bytes(config)).unwrap_or(usize::MAX);
        Rc::new(Self {
            shape,
            budget,
            live: Cell::new(0),
            reserved: Cell::new(0),
            free: RefCell::new(Vec::new()),
        })
    }

    /// Bytes of one page.
    pub(super) fn page_bytes(config: &ModelConfig) -> u64 {
        (KvShape::of(config).page() * size_of::<f32>()) as u64
    }

    /// Number of live pages.
    pub(super) fn live(&self) -> usize {
        self.live.get()
    }

    /// Reserves pages for a sequence; `None` if there are not enough (I1).
    pub(super) fn reserve(self: &Rc<Self>, pages: usize) -> Option<Reservation> {
        let taken = self.live.get() + self.reserved.get();
        if pages > self.budget.saturating_sub(taken) {
            return None;
        }
        self.reserved.set(self.reserved.get() + pages);
        Some(Reservation { pool: Rc::clone(self), pages })
    }

    fn page(self: &Rc<Self>) -> KvPage {
        let recycled = self.free.borrow_mut().pop();
        let data = recycled.unwrap_or_else(|| vec![0.0; self.shape.page()].into_boxed_slice());
        self.live.set(self.live.get() + 1);
        KvPage { data, pool: Rc::clone(self) }
    }
}

/// Pages reserved for one sequence. Dropping the reservation frees the unused ones.
#[derive(Debug)]
pub(super) struct Reservation {
    pool: Rc<KvPool>,
    pages: usize,
}

impl Reservation {
    /// Uses one reserved page, which is now live.
    fn spend(&mut self) {
        debug_assert!(self.pages > 0, "a sequence reserves all it may need");
        if self.pages > 0 {
            self.pages -= 1;
            self.pool.reserved.set(self.pool.reserved.get() - 1);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.pool.reserved.set(self.pool.reserved.get() - self.pages);
    }
}

/// Keys and values of [`PAGE`] positions in all layers.
#[derive(Debug)]
pub(super) struct KvPage {
    data: Box<[f32]>,
    pool: Rc<KvPool>,
}

impl KvPage {
    /// Keys of one head (E x PAGE).
    #[inline(always)]
    pub(super) fn keys(&self, layer: usize, key_head: usize) -> &[f32] {
        let start = self.start(layer, key_head);
        &self.data[start..start + self.pool.shape.head()]
    }

    /// Values of one head (PAGE x E).
    #[inline(always)]
    pub(super) fn values(&self, layer: usize, key_head: usize) -> &[f32] {
        let (start, size) = (self.start(layer, key_head), self.pool.shape.head());
        &self.data[start + size..start + 2 * size]
    }

    /// Stores the key and the value of one position, E each.
    fn store(&mut self, layer: usize, key_head: usize, slot: usize, key: &[f32], value: &[f32]) {
        let (start, size) = (self.start(layer, key_head), self.pool.shape.head());
        let (keys, values) = self.data[start..start + 2 * size].split_at_mut(size);
        for (place, &key) in keys.iter_mut().skip(slot).step_by(PAGE).zip(key) {
            *place = key;
        }
        values[slot * value.len()..(slot + 1) * value.len()].copy_from_slice(value);
    }

    #[inline(always)]
    fn start(&self, layer: usize, key_head: usize) -> usize {
        (layer * self.pool.shape.key_heads + key_head) * 2 * self.pool.shape.head()
    }
}

impl Clone for KvPage {
    fn clone(&self) -> Self {
        let mut page = self.pool.page();
        page.data.copy_from_slice(&self.data);
        page
    }
}

impl Drop for KvPage {
    fn drop(&mut self) {
        self.pool.live.set(self.pool.live.get() - 1);
        self.pool.free.borrow_mut().push(std::mem::take(&mut self.data));
    }
}

/// Keys and values of one sequence, from position 0 on.
#[derive(Debug)]
pub(super) struct Slab {
    pages: Vec<Rc<KvPage>>,
    len: usize,
    reservation: Reservation,
}

impl Slab {
    /// Creates a slab from the first `len` positions of shared pages.
    pub(super) fn new(shared: Vec<Rc<KvPage>>, len: usize, reservation: Reservation) -> Self {
        debug_assert_eq!(shared.len(), len.div_ceil(PAGE));
        Self { pages: shared, len, reservation }
    }

    /// Number of computed positions.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The pages of the computed positions.
    pub(super) fn pages(&self) -> &[Rc<KvPage>] {
        &self.pages
    }

    /// Allocates memory for `count` more positions: new pages, and a copy of the last page if it is shared.
    pub(super) fn grow(&mut self, count: usize) {
        if !self.len.is_multiple_of(PAGE)
            && let Some(last) = self.pages.last_mut()
            && Rc::strong_count(last) > 1
        {
            self.reservation.spend();
            let copy = KvPage::clone(last);
            *last = Rc::new(copy);
        }
        self.len += count;
        while self.pages.len() < self.len.div_ceil(PAGE) {
            self.reservation.spend();
            self.pages.push(Rc::new(self.reservation.pool.page()));
        }
    }

    /// Stores the keys and values of one row of a layer, K x E each, at a position that [`Slab::grow`] allocated.
    pub(super) fn store(&mut self, layer: usize, position: usize, keys: &[f32], values: &[f32]) {
        let page = &mut self.pages[position / PAGE];
        let head_dim = page.pool.shape.head_dim;
        // After `grow` the page has no other owner, so this copies nothing.
        let page = Rc::make_mut(page);
        for (head, (key, value)) in keys.chunks_exact(head_dim).zip(values.chunks_exact(head_dim)).enumerate()
        {
            page.store(layer, head, position % PAGE, key, value);
        }
    }
}

/// Pages that a sequence of `total` positions may still need when `matched` are shared. With `shares`, other sequences
/// share its prompt later, which costs one copy of the last page of the prompt.
pub(super) fn pages_needed(total: usize, matched: usize, shares: bool) -> usize {
    total.div_ceil(PAGE) - matched / PAGE + usize::from(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(pages: u64) -> Rc<KvPool> {
        let config = ModelConfig::tiny(64, 0);
        KvPool::new(&config, pages * KvPool::page_bytes(&config))
    }

    fn row(value: f32) -> Vec<f32> {
        vec![value; 64]
    }

    /// I1 and I2.
    #[test]
    fn pages_are_counted_and_return() {
        let pool = pool(4);
        let reservation = pool.reserve(3).unwrap();
        assert!(pool.reserve(2).is_none());
        let mut slab = Slab::new(Vec::new(), 0, reservation);
        slab.grow(PAGE + 1);
        assert_eq!((pool.live(), pool.reserved.get()), (2, 1));
        assert!(pool.reserve(1).is_some());
        drop(slab);
        assert_eq!((pool.live(), pool.reserved.get()), (0, 0));
        assert!(pool.reserve(4).is_some());
        assert!(pool.reserve(5).is_none());
    }

    /// I3.
    #[test]
    fn a_shared_page_is_copied_before_it_is_written() {
        let pool = pool(8);
        let mut first = Slab::new(Vec::new(), 0, pool.reserve(2).unwrap());
        first.grow(5);
        for position in 0..5 {
            first.store(1, position, &row(position as f32), &row(-(position as f32)));
        }
        let mut second = Slab::new(first.pages().to_vec(), 5, pool.reserve(1).unwrap());
        assert_eq!(pool.live(), 1);
        second.grow(1);
        second.store(1, 5, &row(50.0), &row(50.0));
        first.grow(1);
        first.store(1, 5, &row(7.0), &row(7.0));
        assert_eq!(pool.live(), 2);
        for (slab, last) in [(&first, 7.0), (&second, 50.0)] {
            let keys: Vec<f32> = slab.pages()[0].keys(1, 1)[..6].to_vec();
            assert_eq!(keys, [0.0, 1.0, 2.0, 3.0, 4.0, last]);
            assert_eq!(slab.pages()[0].values(1, 0)[5 * 32], last);
        }
    }
}
