//! A matrix copied column by column.
//!
//! libtorch copies a transposed view element by element. This copy moves one tile at a time through registers, so that each
//! cache line is read once and written once.
//!
//! I1. The copy has memory of its own.
//!
//! Shapes: rows x columns, row-major fp32 on the CPU.

#![allow(unsafe_code)]

use tch::{Device, Kind, Tensor};

use crate::error::TorchError;

/// Elements of a cache line of 64 bytes.
const TILE: usize = 16;

/// The transpose of a matrix, row-major in newly allocated memory.
pub(in crate::engine) fn transposed(matrix: &Tensor) -> Result<Tensor, TorchError> {
    let (&[rows, columns], Kind::Float, Device::Cpu) =
        (matrix.size().as_slice(), matrix.kind(), matrix.device())
    else {
        return Err(TorchError::Model(format!("no fp32 matrix on the CPU, but {matrix:?}")));
    };
    let source = matrix.f_detach()?.f_contiguous()?;
    let copy = Tensor::f_zeros([columns, rows], (Kind::Float, Device::Cpu))?;
    let (rows, columns) = (rows as usize, columns as usize);
    if rows * columns == 0 {
        return Ok(copy);
    }
    // SAFETY: both are contiguous fp32 tensors on the CPU with rows x columns initialised elements, at least one, that live
    // to the end of this function. `copy` was made here, so no other reference to it exists. `source` may share memory with
    // the caller's parameters: `Publisher` requires that the caller does not write to them during the call.
    let (from, to) = unsafe {
        (
            std::slice::from_raw_parts(source.data_ptr().cast::<f32>(), rows * columns),
            std::slice::from_raw_parts_mut(copy.data_ptr().cast::<f32>(), rows * columns),
        )
    };
    transpose(from, rows, columns, to);
    Ok(copy)
}

/// Transposes `from` (rows x columns) into `to` (columns x rows).
fn transpose(from: &[f32], rows: usize, columns: usize, to: &mut [f32]) {
    let whole = (rows - rows % TILE, columns - columns % TILE);
    for top in (0..whole.0).step_by(TILE) {
        for left in (0..whole.1).step_by(TILE) {
            let mut tile = [[0f32; TILE]; TILE];
            for row in 0..TILE {
                let line = &from[(top + row) * columns + left..][..TILE];
                for (column, &value) in line.iter().enumerate() {
                    tile[column][row] = value;
                }
            }
            for (column, line) in tile.iter().enumerate() {
                to[(left + column) * rows + top..][..TILE].copy_from_slice(line);
            }
        }
    }
    // The columns right of the whole tiles, then the rows below them.
    for row in 0..rows {
        let from_column = if row < whole.0 { whole.1 } else { 0 };
        for column in from_column..columns {
            to[column * rows + row] = from[row * columns + column];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sides below, at and above whole tiles.
    #[test]
    fn it_is_what_libtorch_copies() {
        for (rows, columns) in [(1, 1), (16, 16), (15, 33), (48, 17), (1, 40), (70, 1), (64, 128)] {
            let count = rows * columns;
            let matrix = Tensor::f_arange(count, (Kind::Float, Device::Cpu)).unwrap();
            let matrix = matrix.f_view([rows, columns]).unwrap();
            let ours = transposed(&matrix).unwrap();
            assert_eq!(ours.size(), [columns, rows]);
            assert_eq!(ours, matrix.f_transpose(0, 1).unwrap().f_contiguous().unwrap());
            // Also a view with other strides.
            assert_eq!(transposed(&matrix.f_transpose(0, 1).unwrap()).unwrap(), matrix);
        }
    }

    #[test]
    fn the_copy_stays_when_the_original_changes() {
        let mut matrix = Tensor::f_zeros([3, 5], (Kind::Float, Device::Cpu)).unwrap();
        let copy = transposed(&matrix).unwrap();
        let _ = matrix.f_fill_(7.0).unwrap();
        assert_eq!(copy, Tensor::f_zeros([5, 3], (Kind::Float, Device::Cpu)).unwrap());
    }

    #[test]
    fn what_is_no_matrix_of_fp32_is_refused() {
        for tensor in [
            Tensor::f_zeros([4], (Kind::Float, Device::Cpu)).unwrap(),
            Tensor::f_zeros([2, 2], (Kind::Double, Device::Cpu)).unwrap(),
        ] {
            transposed(&tensor).unwrap_err();
        }
    }
}
