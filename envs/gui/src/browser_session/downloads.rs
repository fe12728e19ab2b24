//! Downloads of an attempt: expected, started and finished ones.
//!
//! Answers and clicks tell which downloads are expected; the browser reports their start, over another connection and
//! later.

use crate::page::DownloadClicks;
use crate::proxy::FileAnswers;

#[derive(Debug, Default)]
pub(super) struct Downloads {
    /// Downloads whose start the browser reported.
    begun: u32,
    /// Those of them that have not ended.
    loading: u32,
    clicked: DownloadClicks,
    /// Expected ones that did not start within the waiting time; below 0, unexpected ones that did.
    missing: i64,
    /// Names of complete ones since the last take.
    names: Vec<String>,
}

impl Downloads {
    pub(super) fn click(&mut self, links: DownloadClicks) {
        self.clicked += links;
    }

    pub(super) fn begin(&mut self) {
        self.begun += 1;
        self.loading += 1;
        // It may be one that is no longer awaited; the next one is awaited all the same.
        if self.missing > 0 {
            self.missing -= 1;
        }
    }

    /// A download ended, with a file if it has a name.
    pub(super) fn end(&mut self, name: Option<&str>) {
        self.loading = self.loading.saturating_sub(1);
        self.names.extend(name.map(str::to_owned));
    }

    /// Stops waiting: neither for those that have not started, nor do unexpected ones count for later ones.
    pub(super) fn close(&mut self, answered: FileAnswers) {
        self.missing = i64::from(self.foreseen(answered)) - i64::from(self.begun);
        self.clicked.asked = self.clicked.asked.max(answered.asked);
    }

    pub(super) fn loading(&self) -> u32 {
        self.loading
    }

    /// Expected downloads that the browser has not reported yet.
    pub(super) fn unheard(&self, answered: FileAnswers) -> u32 {
        let unheard = i64::from(self.foreseen(answered)) - i64::from(self.begun) - self.missing;
        u32::try_from(unheard).unwrap_or(0)
    }

    /// Whether anything was or will be downloaded, as far as is known.
    pub(super) fn are_any(&self, answered: FileAnswers) -> bool {
        self.begun + self.foreseen(answered) > 0
    }

    /// Number of expected downloads. A clicked file may be requested after the page has settled, on a busy machine, and
    /// not every requested file was clicked.
    fn foreseen(&self, answered: FileAnswers) -> u32 {
        self.clicked.made + answered.unasked + answered.asked.max(self.clicked.asked)
    }

    /// Names of complete ones since the last call, sorted: their order of completion is random.
    pub(super) fn take(&mut self) -> Vec<String> {
        let mut names = std::mem::take(&mut self.names);
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(unasked: u32) -> FileAnswers {
        FileAnswers { unasked, ..FileAnswers::default() }
    }

    #[test]
    fn clicked_download_is_awaited_before_request() {
        let mut downloads = Downloads::default();
        let asked = |asked| FileAnswers { asked, ..FileAnswers::default() };
        downloads.click(DownloadClicks { made: 0, asked: 1 });
        assert!(downloads.are_any(asked(0)));
        assert_eq!(downloads.unheard(asked(0)), 1);
        // The same download is requested.
        assert_eq!(downloads.unheard(asked(1)), 1);
        downloads.begin();
        assert_eq!(downloads.unheard(asked(1)), 0);
        downloads.close(asked(1));
        // One without a click, and a later one with a click.
        assert_eq!(downloads.unheard(asked(2)), 1);
        downloads.begin();
        downloads.close(asked(2));
        downloads.click(DownloadClicks { made: 0, asked: 1 });
        assert_eq!(downloads.unheard(asked(2)), 1);
    }

    #[test]
    fn unexpected_download_replaces_no_expected_one() {
        let mut downloads = Downloads::default();
        downloads.begin();
        assert_eq!(downloads.unheard(pages(0)), 0);
        downloads.close(pages(0));
        assert_eq!(downloads.unheard(pages(1)), 1);
        assert!(downloads.are_any(pages(0)));
    }

    #[test]
    fn late_download_does_not_stop_waiting_for_next() {
        let mut downloads = Downloads::default();
        let check = |downloads: &Downloads, answered, expected| {
            assert_eq!((downloads.unheard(pages(answered)), downloads.loading()), expected, "{downloads:?}");
        };
        check(&downloads, 1, (1, 0));
        downloads.close(pages(1));
        check(&downloads, 1, (0, 0));
        downloads.begin();
        check(&downloads, 1, (0, 1));
        check(&downloads, 2, (1, 1));
        downloads.begin();
        check(&downloads, 2, (0, 2));
        downloads.end(None);
        downloads.end(Some("a"));
        check(&downloads, 2, (0, 0));
        downloads.click(DownloadClicks { made: 1, asked: 0 });
        check(&downloads, 2, (1, 0));
        // Unexpected ones do not replace awaited ones.
        downloads.begin();
        downloads.begin();
        check(&downloads, 2, (0, 2));
    }

    #[test]
    fn download_names_are_sorted_and_taken_once() {
        let mut downloads = Downloads::default();
        assert!(!downloads.are_any(pages(0)) && downloads.are_any(pages(1)));
        for name in [Some("b"), None, Some("a")] {
            downloads.begin();
            downloads.end(name);
        }
        assert!(downloads.are_any(pages(0)));
        assert_eq!((downloads.take(), downloads.take()), (vec!["a".to_owned(), "b".to_owned()], Vec::new()));
    }
}
