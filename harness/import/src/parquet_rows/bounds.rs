//! Limits the resources for reading a file, independent of the sizes that the file declares (P3).
//!
//! A page of a few bytes can expand to gigabytes: it is compressed, and a level or a dictionary entry is stored once
//! for millions of values. Pages are counted before their values are decoded, and texts as they are copied.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;

use super::refusal::Refusal;

/// Maximum bytes of a file, of its decompressed pages, and of its texts: as for a JSON file.
pub(super) const MAX_BYTES: u64 = 4 << 30;

/// Maximum number of values, including those in lists. Sixty thousand rows with two thousand tests each have about this
/// many.
const MAX_VALUES: u64 = 1 << 27;

/// The remaining budget of one file.
#[derive(Debug)]
pub(super) struct Bounds {
    page_bytes: AtomicU64,
    values: AtomicU64,
    text_bytes: AtomicU64,
}

impl Bounds {
    pub(super) fn new() -> Arc<Self> {
        Self::of(MAX_BYTES, MAX_VALUES, MAX_BYTES)
    }

    pub(super) fn of(page_bytes: u64, values: u64, text_bytes: u64) -> Arc<Self> {
        let [page_bytes, values, text_bytes] = [page_bytes, values, text_bytes].map(AtomicU64::new);
        Arc::new(Self { page_bytes, values, text_bytes })
    }

    /// Counts a text before it is copied.
    pub(super) fn take_text(&self, bytes: usize) -> Result<(), LimitExceeded> {
        take(&self.text_bytes, bytes as u64).ok_or(LimitExceeded::Texts)
    }

    fn take_page(&self, page: &Page) -> Result<(), LimitExceeded> {
        take(&self.page_bytes, page.buffer().len() as u64).ok_or(LimitExceeded::Pages)?;
        take(&self.values, page.num_values().into()).ok_or(LimitExceeded::Values)
    }
}

fn take(left: &AtomicU64, amount: u64) -> Option<()> {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(amount)).ok().map(|_| ())
}

/// The exceeded bound.
#[derive(Debug, Clone, Copy)]
pub(super) enum LimitExceeded {
    Pages,
    Values,
    Texts,
}

impl LimitExceeded {
    pub(super) fn refusal(self) -> Refusal {
        Refusal::new(self.to_string(), "split it into several files, and import each")
    }
}

impl fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pages => write!(f, "has pages of more than {MAX_BYTES} bytes after decompression"),
            Self::Values => write!(f, "has more than {MAX_VALUES} values"),
            Self::Texts => write!(f, "has texts of more than {MAX_BYTES} bytes"),
        }
    }
}

impl std::error::Error for LimitExceeded {}

/// The pages of a column, within the bounds.
///
/// Checks what the reader assumes, since it panics otherwise: that a page with dictionary codes comes after a
/// dictionary. The next page is read ahead, so that the end of a row is known without the reader's own look-ahead,
/// which assumes that a header is complete.
pub(super) struct BoundedPages {
    inner: Box<dyn PageReader>,
    bounds: Arc<Bounds>,
    ahead: Option<Page>,
    has_dictionary: bool,
}

impl BoundedPages {
    pub(super) fn new(inner: Box<dyn PageReader>, bounds: Arc<Bounds>) -> Self {
        Self { inner, bounds, ahead: None, has_dictionary: false }
    }

    fn read(&mut self) -> Result<Option<Page>, ParquetError> {
        let Some(page) = self.inner.get_next_page()? else { return Ok(None) };
        self.bounds.take_page(&page).map_err(|cause| ParquetError::External(Box::new(cause)))?;
        self.has_dictionary |= page.is_dictionary_page();
        if !self.has_dictionary
            && matches!(page.encoding(), Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY)
        {
            return Err(ParquetError::General("a page needs a dictionary, but there is none".to_owned()));
        }
        Ok(Some(page))
    }
}

impl Iterator for BoundedPages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for BoundedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        match self.ahead.take() {
            Some(page) => Ok(Some(page)),
            None => self.read(),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        if self.ahead.is_none() {
            self.ahead = self.read()?;
        }
        Ok(self.ahead.as_ref().map(|page| PageMetadata {
            num_rows: match page {
                Page::DataPageV2 { num_rows, .. } => Some(*num_rows as usize),
                Page::DataPage { .. } | Page::DictionaryPage { .. } => None,
            },
            num_levels: page.is_data_page().then_some(page.num_values() as usize),
            is_dict: page.is_dictionary_page(),
        }))
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.get_next_page().map(|_| ())
    }
}
