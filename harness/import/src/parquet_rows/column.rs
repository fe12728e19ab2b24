//! Reads a leaf column, value by value.

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;

use super::cell::{Cell, Meaning};
use super::refusal::Refusal;

/// Rows in one decoding step: enough to make decoding cheap, few enough that texts do not keep the memory of their page
/// for long.
const BATCH_ROWS: usize = 64;

/// A leaf column, and how far it is read.
pub(super) struct Column {
    /// With dots.
    name: String,
    reader: ColumnReader,
    pub(super) meaning: Meaning,
    /// The definition level of a present value.
    full: i16,
    definitions: Vec<i16>,
    /// Empty for a column without repetition.
    repetitions: Vec<i16>,
    cells: std::vec::IntoIter<Cell>,
    /// Position in the levels.
    at: usize,
}

impl Column {
    pub(super) fn new(name: String, reader: ColumnReader, meaning: Meaning, full: i16) -> Self {
        Self {
            name,
            reader,
            meaning,
            full,
            definitions: Vec::new(),
            repetitions: Vec::new(),
            cells: Vec::new().into_iter(),
            at: 0,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The definition level of the next value.
    ///
    /// # Errors
    /// There is none, or it cannot be decoded.
    pub(super) fn definition(&mut self) -> Result<i16, Refusal> {
        if self.load()? {
            Ok(self.definitions.get(self.at).copied().unwrap_or_default())
        } else {
            Err(self.damaged("its values end before its rows"))
        }
    }

    /// The repetition level of the next value; 0 at the end.
    pub(super) fn repetition(&mut self) -> Result<i16, Refusal> {
        self.load()?;
        Ok(self.repetitions.get(self.at).copied().unwrap_or_default())
    }

    /// Whether all values are consumed.
    pub(super) fn is_at_its_end(&mut self) -> Result<bool, Refusal> {
        self.load().map(|has_next| !has_next)
    }

    /// Consumes the next value; `None` for a null at any level.
    pub(super) fn take(&mut self) -> Result<Option<Cell>, Refusal> {
        let definition = self.definition()?;
        self.at += 1;
        if definition < self.full {
            return Ok(None);
        }
        match self.cells.next() {
            Some(cell) => Ok(Some(cell)),
            None => Err(self.damaged("it has fewer values than its levels declare")),
        }
    }

    /// Whether there is a next value.
    fn load(&mut self) -> Result<bool, Refusal> {
        if self.at >= self.definitions.len() {
            self.decode().map_err(|error| Refusal::of_reader(&self.place(), &error))?;
            self.at = 0;
        }
        Ok(!self.definitions.is_empty())
    }

    fn decode(&mut self) -> Result<(), ParquetError> {
        self.definitions.clear();
        self.repetitions.clear();
        let levels = (&mut self.definitions, &mut self.repetitions);
        let cells = match &mut self.reader {
            ColumnReader::BoolColumnReader(reader) => batch(reader, levels, Cell::Bool),
            ColumnReader::Int32ColumnReader(reader) => {
                batch(reader, levels, |value| Cell::Integer(value.into()))
            }
            ColumnReader::Int64ColumnReader(reader) => batch(reader, levels, Cell::Integer),
            ColumnReader::Int96ColumnReader(reader) => batch(reader, levels, |value| Cell::of_int96(&value)),
            ColumnReader::FloatColumnReader(reader) => {
                batch(reader, levels, |value| Cell::Float(value.into()))
            }
            ColumnReader::DoubleColumnReader(reader) => batch(reader, levels, Cell::Float),
            ColumnReader::ByteArrayColumnReader(reader) => batch(reader, levels, Cell::Bytes),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                batch(reader, levels, |value| Cell::Bytes(ByteArray::from(value)))
            }
        };
        self.cells = cells?.into_iter();
        Ok(())
    }

    fn place(&self) -> String {
        format!("column `{}`", self.name)
    }

    fn damaged(&self, what: &str) -> Refusal {
        Refusal::damaged(&self.place(), what)
    }
}

/// Decodes some rows: the levels of all their values, and the present values.
fn batch<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    (definitions, repetitions): (&mut Vec<i16>, &mut Vec<i16>),
    cell: impl Fn(T::T) -> Cell,
) -> Result<Vec<Cell>, ParquetError> {
    let mut values = Vec::new();
    let (_, _, levels) =
        reader.read_records(BATCH_ROWS, Some(definitions), Some(repetitions), &mut values)?;
    // A required column has no levels.
    definitions.resize(levels, 0);
    Ok(values.into_iter().map(cell).collect())
}
