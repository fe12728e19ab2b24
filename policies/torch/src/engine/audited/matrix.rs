//! Matrices that both libtorch and the Rust kernels read and write.
//!
//! I1. The memory of a [`Matrix`] is accessed only through that value: no tensor over it leaves this file, so Rust's
//! borrowing rules hold for its slices. I2. With [`GemmRows::Blocks`] a row of a product depends only on that row and on
//! the weight, not on the number of rows or on its position among them: every multiplication has exactly
//! [`ROW_BLOCK`] rows.
//!
//! I2 is needed because MKL chooses how it splits the inner sum by the number of rows. Measured with libtorch 2.11: from an
//! inner size of 352, fewer than about 15 rows give different bits than more rows, so padding to a multiple of 8 is not
//! enough; fewer than 6 rows give different bits at every size. With a fixed number of rows MKL always chooses the same
//! split.
//!
//! Shapes: rows x columns, row-major fp32 on the CPU, beginning at a multiple of 64 bytes.

#![allow(unsafe_code)]

use std::ops::Range;

use tch::{Device, Kind, Tensor};

use crate::error::TorchError;

/// Rows of one multiplication under [`GemmRows::Blocks`].
const ROW_BLOCK: usize = 32;

/// The rank of factors is padded with zeros to a multiple of this. With fewer columns than a register holds (measured with
/// 6), MKL sums some rows of a block in a different order.
pub(crate) const RANK_BLOCK: i64 = 16;

/// Number of rows in one multiplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GemmRows {
    /// All at once.
    All,
    /// [`ROW_BLOCK`] at a time; the last block runs over unused rows (I2).
    Blocks,
}

impl GemmRows {
    /// Rows of one multiplication when there are `rows` in total.
    pub(crate) fn together(self, rows: usize) -> usize {
        match self {
            Self::All => rows,
            Self::Blocks => ROW_BLOCK,
        }
    }
}

/// A growable buffer of fp32 rows, initially 0.
#[derive(Debug)]
pub(crate) struct Matrix {
    tensor: Tensor,
    rows: usize,
    columns: usize,
}

impl Matrix {
    /// Allocates at least `rows` rows, rounded up to whole blocks.
    pub(crate) fn zeros(rows: usize, columns: usize) -> Result<Self, TorchError> {
        let rows = rows.max(1).next_multiple_of(ROW_BLOCK);
        let tensor = Tensor::f_zeros([rows as i64, columns as i64], (Kind::Float, Device::Cpu))?;
        Ok(Self { tensor, rows, columns })
    }

    /// Columns of a row.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// All rows.
    pub(crate) fn data(&self) -> &[f32] {
        // SAFETY: the tensor is contiguous fp32 on the CPU with rows x columns elements, all written by `zeros`; it
        // lives as long as `self`, and no other code accesses its memory (I1), so nothing writes to it during this borrow
        // of `self`.
        unsafe { std::slice::from_raw_parts(self.tensor.data_ptr().cast::<f32>(), self.rows * self.columns) }
    }

    /// All rows, mutable.
    pub(crate) fn data_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `data`; `self` is borrowed mutably, so this is the only slice over the memory.
        unsafe {
            std::slice::from_raw_parts_mut(self.tensor.data_ptr().cast::<f32>(), self.rows * self.columns)
        }
    }

    /// One row.
    pub(crate) fn row(&self, row: usize) -> &[f32] {
        &self.data()[row * self.columns..(row + 1) * self.columns]
    }

    /// One row, mutable.
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [f32] {
        let columns = self.columns;
        &mut self.data_mut()[row * columns..(row + 1) * columns]
    }

    /// Sets row `i` to row `ids[i]` of `table`.
    pub(crate) fn gather(&mut self, table: &Tensor, ids: &[i64]) -> Result<(), TorchError> {
        let ids_r = Tensor::f_from_slice(ids)?;
        let _ = table.f_index_select_out(&self.view(0, ids.len())?, 0, &ids_r)?;
        Ok(())
    }

    /// Sets the first `rows` rows to `rows` rows of `input`, starting at row `from`, times `weight` (columns of `input` x
    /// columns of `self`).
    pub(crate) fn multiply(
        &mut self,
        input: &Matrix,
        from: usize,
        rows: usize,
        weight: &Tensor,
        how: GemmRows,
    ) -> Result<(), TorchError> {
        let step = how.together(rows);
        for start in (0..rows).step_by(step.max(1)) {
            let input_rk = input.view(from + start, step)?;
            let _ = input_rk.f_mm_out(&self.view(start, step)?, weight)?;
        }
        Ok(())
    }

    /// Grows to at least `rows` rows; the content may be lost.
    pub(crate) fn reserve(&mut self, rows: usize) -> Result<(), TorchError> {
        if rows > self.rows {
            *self = Self::zeros(rows, self.columns)?;
        }
        Ok(())
    }

    /// Adds the first `rows` rows of `input` times `weight` (columns of `input` x columns of `self`) to the first `rows` rows.
    pub(crate) fn multiply_add(
        &mut self,
        input: &Matrix,
        rows: usize,
        weight: &Tensor,
    ) -> Result<(), TorchError> {
        let _ = self.view(0, rows)?.f_addmm_(&input.view(0, rows)?, weight)?;
        Ok(())
    }

    /// Adds to these rows of `self` the same rows of `input` times `a` (columns of `input` x r) times `b` (r x columns of
    /// `self`).
    /// Under [`GemmRows::Blocks`] r is a multiple of [`RANK_BLOCK`], and neighbouring rows, of any values, are multiplied
    /// too: blocks begin at multiples of [`ROW_BLOCK`], so that each begins at a cache line.
    pub(crate) fn add_low_rank(
        &mut self,
        input: &Matrix,
        rows: Range<usize>,
        a: &Tensor,
        b: &Tensor,
        how: GemmRows,
    ) -> Result<(), TorchError> {
        let step = how.together(rows.len()).max(1);
        let first = match how {
            GemmRows::All => rows.start,
            GemmRows::Blocks => rows.start / step * step,
        };
        for start in (first..rows.end).step_by(step) {
            let product = input.view(start, step)?.f_mm(a)?.f_mm(b)?;
            let (from, to) = (start.max(rows.start), (start + step).min(rows.end));
            let added = product.f_narrow(0, (from - start) as i64, (to - from) as i64)?;
            let _ = self.view(from, to - from)?.f_add_(&added)?;
        }
        Ok(())
    }

    /// Sets the rows of `self` from row `into` to the first `rows` rows of `input` times `weight`.
    pub(crate) fn multiply_into(
        &mut self,
        into: usize,
        input: &Matrix,
        rows: usize,
        weight: &Tensor,
    ) -> Result<(), TorchError> {
        let _ = input.view(0, rows)?.f_mm_out(&self.view(into, rows)?, weight)?;
        Ok(())
    }

    /// Adds to `sum` (columns of `self` x columns of `other`) the transpose of the first `rows` rows times the rows of
    /// `other` that start at row `from`.
    pub(crate) fn add_products(
        &self,
        other: &Matrix,
        from: usize,
        rows: usize,
        sum: &mut Tensor,
    ) -> Result<(), TorchError> {
        let _ = sum.f_addmm_(&self.view(0, rows)?.f_tr()?, &other.view(from, rows)?)?;
        Ok(())
    }

    /// Adds row `i` to row `ids[i]` of `table`.
    pub(crate) fn scatter_add(&self, table: &mut Tensor, ids: &[i64]) -> Result<(), TorchError> {
        let ids_r = Tensor::f_from_slice(ids)?;
        let _ = table.f_index_add_(0, &ids_r, &self.view(0, ids.len())?)?;
        Ok(())
    }

    fn view(&self, from: usize, rows: usize) -> Result<Tensor, TorchError> {
        Ok(self.tensor.f_narrow(0, from as i64, rows as i64)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(rows: usize, columns: usize, seed: f32) -> Matrix {
        let mut matrix = Matrix::zeros(rows, columns).unwrap();
        for (index, value) in matrix.data_mut().iter_mut().enumerate() {
            *value = (index as f32 * 0.618 + seed).sin();
        }
        matrix
    }

    /// I2, for inner sizes below and above the one at which MKL splits the sum.
    #[test]
    fn a_row_of_a_product_in_blocks_is_what_it_is_alone() {
        for (inner, columns) in [(32, 64), (128, 704), (352, 128), (1024, 96)] {
            let weight = Tensor::f_from_slice(filled(inner, columns, 0.3).data()).unwrap();
            let weight = weight.f_narrow(0, 0, (inner * columns) as i64).unwrap();
            let weight = weight.f_view([inner as i64, columns as i64]).unwrap();
            let rows = 150;
            let input = filled(rows, inner, 0.7);
            let mut together = Matrix::zeros(rows, columns).unwrap();
            together.multiply(&input, 0, rows, &weight, GemmRows::Blocks).unwrap();
            let mut whole = Matrix::zeros(rows, columns).unwrap();
            whole.multiply(&input, 0, rows, &weight, GemmRows::All).unwrap();
            for row in 0..rows {
                let mut alone_in = Matrix::zeros(1, inner).unwrap();
                alone_in.row_mut(0).copy_from_slice(input.row(row));
                let mut alone = Matrix::zeros(1, columns).unwrap();
                alone.multiply(&alone_in, 0, 1, &weight, GemmRows::Blocks).unwrap();
                assert_eq!(alone.row(0), together.row(row), "inner {inner}, row {row}");
                for (a, b) in alone.row(0).iter().zip(whole.row(row)) {
                    assert!((a - b).abs() < 1e-3);
                }
            }
        }
    }

    /// I2, starting at any row.
    #[test]
    fn low_rank_products_are_added_to_the_rows_meant() {
        for (inner, rank, columns) in
            [(48, 16, 32), (128, 16, 352), (352, 32, 128), (128, 48, 256), (1024, 112, 96), (40, 16, 40)]
        {
            let tensor = |rows: usize, columns: usize, seed| {
                let values = Tensor::f_from_slice(filled(rows, columns, seed).data()).unwrap();
                let values = values.f_narrow(0, 0, (rows * columns) as i64).unwrap();
                values.f_view([rows as i64, columns as i64]).unwrap()
            };
            let (a, b) = (tensor(inner, rank, 0.3), tensor(rank, columns, 0.5));
            let input = filled(100, inner, 0.7);
            for (how, rows) in [
                (GemmRows::All, 0..100),
                (GemmRows::Blocks, 0..100),
                (GemmRows::Blocks, 3..4),
                (GemmRows::Blocks, 7..71),
            ] {
                let before = filled(100, columns, 0.9);
                let mut sum = filled(100, columns, 0.9);
                sum.add_low_rank(&input, rows.clone(), &a, &b, how).unwrap();
                for row in 0..100 {
                    if !rows.contains(&row) {
                        assert_eq!(sum.row(row), before.row(row));
                        continue;
                    }
                    let mut alone_in = filled(1, inner, 0.1);
                    alone_in.row_mut(0).copy_from_slice(input.row(row));
                    let mut alone = filled(1, columns, 0.0);
                    alone.row_mut(0).copy_from_slice(before.row(row));
                    alone.add_low_rank(&alone_in, 0..1, &a, &b, how).unwrap();
                    let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-2;
                    assert!(alone.row(0).iter().zip(sum.row(row)).all(near), "{how:?}, row {row}");
                    let same = alone.row(0) == sum.row(row);
                    assert!(
                        how == GemmRows::All || same,
                        "{inner}, {rank}, {columns}: row {row} of {rows:?}"
                    );
                    assert_ne!(sum.row(row), before.row(row));
                }
            }
        }
    }

    #[test]
    fn products_are_added() {
        let (a, b) = (filled(5, 3, 0.1), filled(5, 2, 0.4));
        let mut sum = Tensor::f_ones([3, 2], (Kind::Float, Device::Cpu)).unwrap();
        a.add_products(&b, 0, 4, &mut sum).unwrap();
        let mut into = filled(5, 2, 0.9);
        let before = into.row(3).to_vec();
        let weight = Tensor::f_ones([3, 2], (Kind::Float, Device::Cpu)).unwrap();
        into.multiply_add(&a, 4, &weight).unwrap();
        for i in 0..3 {
            for j in 0..2 {
                let expected = 1.0 + (0..4).map(|row| a.row(row)[i] * b.row(row)[j]).sum::<f32>();
                assert!((sum.double_value(&[i as i64, j as i64]) as f32 - expected).abs() < 1e-6);
            }
        }
        for (j, before) in before.iter().enumerate() {
            assert!((into.row(3)[j] - before - a.row(3).iter().sum::<f32>()).abs() < 1e-6);
        }
        assert_eq!(into.row(4), filled(5, 2, 0.9).row(4));
    }

    #[test]
    fn scattered_rows_add_up() {
        let rows = filled(3, 2, 0.2);
        let mut table = Tensor::f_zeros([4, 2], (Kind::Float, Device::Cpu)).unwrap();
        rows.scatter_add(&mut table, &[3, 1, 3]).unwrap();
        let expected = [rows.row(1)[0], rows.row(0)[0] + rows.row(2)[0]];
        assert_eq!([table.double_value(&[1, 0]) as f32, table.double_value(&[3, 0]) as f32], expected);
        assert_eq!(table.double_value(&[0, 0]), 0.0);
    }

    #[test]
    fn gathered_rows_are_those_of_the_table() {
        let table = Tensor::f_from_slice(&[0f32, 1., 10., 11., 20., 21.]).unwrap().f_view([3, 2]).unwrap();
        let mut matrix = Matrix::zeros(3, 2).unwrap();
        matrix.gather(&table, &[2, 0, 2]).unwrap();
        assert_eq!(matrix.data()[..6], [20., 21., 0., 1., 20., 21.]);
    }
}
