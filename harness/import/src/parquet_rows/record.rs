//! Assembles rows from the values of all columns.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::bounds::Bounds;
use super::column::Column;
use super::refusal::Refusal;
use super::shape::{Kind, Shape};
use crate::questions::BadRow;

/// The columns of a row group, all at the same row.
pub(super) struct Records<'a> {
    columns: &'a [(String, Shape)],
    leaves: Vec<Column>,
    bounds: Arc<Bounds>,
    /// The problem of the current row, if any (P2).
    bad: Option<BadRow>,
}

impl<'a> Records<'a> {
    pub(super) fn new(columns: &'a [(String, Shape)], leaves: Vec<Column>, bounds: Arc<Bounds>) -> Self {
        Self { columns, leaves, bounds, bad: None }
    }

    /// The next row.
    ///
    /// # Errors
    /// Damage, after which no row can be read.
    pub(super) fn next_row(&mut self) -> Result<Result<Map<String, Value>, BadRow>, Refusal> {
        self.bad = None;
        let mut row = Map::new();
        for (name, shape) in self.columns {
            row.insert(name.clone(), self.value(shape)?);
        }
        // A list that is shorter in one column than in another would shift all later rows.
        for leaf in &mut self.leaves {
            if leaf.repetition()? > 0 {
                let place = format!("column `{}`", leaf.name());
                return Err(Refusal::damaged(&place, "a list in it has more values than in another column"));
            }
        }
        Ok(self.bad.take().map_or(Ok(row), Err))
    }

    /// Checks that no row is left.
    ///
    /// # Errors
    /// A row is left.
    pub(super) fn end(&mut self) -> Result<(), Refusal> {
        for leaf in &mut self.leaves {
            if !leaf.is_at_its_end()? {
                let place = format!("column `{}`", leaf.name());
                return Err(Refusal::damaged(&place, "it has more values than rows"));
            }
        }
        Ok(())
    }

    fn value(&mut self, shape: &Shape) -> Result<Value, Refusal> {
        let first = shape.first_leaf();
        let definition = self.leaf(first)?.definition()?;
        if definition < shape.present {
            self.skip(shape)?;
            return Ok(Value::Null);
        }
        match &shape.kind {
            Kind::Leaf(leaf) => self.single(*leaf),
            Kind::Object(fields) => {
                let mut object = Map::new();
                for (name, field) in fields {
                    object.insert(name.clone(), self.value(field)?);
                }
                Ok(Value::Object(object))
            }
            Kind::List { filled, .. } if definition < *filled => {
                self.skip(shape)?;
                Ok(Value::Array(Vec::new()))
            }
            Kind::List { same, element, .. } => {
                let mut values = Vec::new();
                loop {
                    values.push(self.value(element)?);
                    if self.leaf(first)?.repetition()? < *same {
                        return Ok(Value::Array(values));
                    }
                }
            }
        }
    }

    fn single(&mut self, leaf: usize) -> Result<Value, Refusal> {
        let column = self.leaf(leaf)?;
        let (cell, meaning) = (column.take()?, column.meaning);
        let Some(cell) = cell else { return Ok(Value::Null) };
        self.bounds.take_text(cell.bytes()).map_err(|too_much| too_much.refusal())?;
        match cell.json(meaning) {
            Ok(value) => Ok(value),
            Err(what) => {
                let name = self.leaf(leaf)?.name().to_owned();
                let message = format!("a value of the column `{name}` is {what}");
                let help = "correct it, or remove the row or the column";
                self.bad.get_or_insert_with(|| BadRow::new(&name, message, help));
                Ok(Value::Null)
            }
        }
    }

    /// A missing value has one entry in each of its leaves, which says so.
    fn skip(&mut self, shape: &Shape) -> Result<(), Refusal> {
        match &shape.kind {
            Kind::Leaf(leaf) => self.leaf(*leaf)?.take().map(|_| ()),
            Kind::Object(fields) => fields.iter().try_for_each(|(_, field)| self.skip(field)),
            Kind::List { element, .. } => self.skip(element),
        }
    }

    fn leaf(&mut self, leaf: usize) -> Result<&mut Column, Refusal> {
        self.leaves.get_mut(leaf).ok_or_else(|| Refusal::damaged("its columns", "one is missing"))
    }
}
