//! Making a report.

use clawrl_record::Run;

use crate::error::ReportError;
use crate::gather::{Options, gather};
use crate::page;
use crate::stats::{Heading, RunStats};
use crate::words::counted;

/// A report of a run. The caller writes the page; exported files are already written.
#[derive(Debug)]
pub struct Report {
    /// The figures.
    pub figures: RunStats,
    /// The page.
    pub page: String,
    /// ATIF files that were written.
    pub exported_atif: u64,
    /// Terminal recordings that were written.
    pub exported_casts: u64,
}

/// Reads a run, every trajectory once, and makes its report. Blocks, and uses all cores.
///
/// # Errors
/// [`ReportError::Record`] if the run cannot be read, naming the damaged frame; [`ReportError::Write`] for exported
/// files.
pub fn report(run: &Run, heading: &Heading, options: &Options) -> Result<Report, ReportError> {
    let mut gathered = gather(run, options)?;
    let turns = std::mem::take(&mut gathered.turns);
    let mut figures = RunStats::new(run, heading, turns, &gathered.sampled);
    if !gathered.missing.is_empty() {
        let count = counted(gathered.missing.len() as u64, "picture is", "pictures are");
        figures.warnings.push(format!("{count} missing from the run's folder"));
    }
    let page = page::render(run, &figures, &gathered)?;
    Ok(Report {
        figures,
        page,
        exported_atif: gathered.exported_atif,
        exported_casts: gathered.exported_casts,
    })
}
