//! Products of matrices that are too small for a libtorch call to pay off.
//!
//! One factor is stored in panels of [`LANES`] columns, ordered by the inner axis; the other is read four rows at a time.
//! Sums stay in registers along the inner axis.
//!
//! I1. Every sum goes along the inner axis from its first element to its last.

use crate::engine::audited::Arithmetic;
use crate::engine::kernels::LANES;

/// Rows of a tile.
pub(super) const ROWS: usize = 4;

/// A panel's line: [`LANES`] neighbouring columns of one row.
pub(super) type Line = [f32; LANES];

/// Four rows times a panel; the inner axis ends with the shortest.
#[inline(always)]
pub(super) fn rows_by_panel<A: Arithmetic>(rows: [&[f32]; ROWS], panel: &[Line]) -> [Line; ROWS] {
    let mut tile = Tile::default();
    let [first, second, third, fourth] = rows;
    let factors = first.iter().zip(second).zip(third.iter().zip(fourth));
    for (((&first, &second), (&third, &fourth)), line) in factors.zip(panel) {
        tile.add::<A>([first, second, third, fourth], line);
    }
    tile.lines()
}

/// Columns `at..at + 4` of a matrix with `stride` columns, as rows, times a panel; the inner axis ends with the shorter.
#[inline(always)]
pub(super) fn columns_by_panel<A: Arithmetic>(
    matrix: &[f32],
    stride: usize,
    at: usize,
    panel: &[Line],
) -> [Line; ROWS] {
    let mut tile = Tile::default();
    for (row, line) in matrix.chunks_exact(stride).zip(panel) {
        if let Some(&factors) = row.get(at..).and_then(|rest| rest.first_chunk::<ROWS>()) {
            tile.add::<A>(factors, line);
        }
    }
    tile.lines()
}

/// Sums of a tile. Four fields instead of an array, because the compiler keeps an array in memory.
#[derive(Default)]
struct Tile {
    first: Line,
    second: Line,
    third: Line,
    fourth: Line,
}

impl Tile {
    #[inline(always)]
    fn add<A: Arithmetic>(&mut self, factors: [f32; ROWS], line: &Line) {
        add_line::<A>(&mut self.first, factors[0], line);
        add_line::<A>(&mut self.second, factors[1], line);
        add_line::<A>(&mut self.third, factors[2], line);
        add_line::<A>(&mut self.fourth, factors[3], line);
    }

    #[inline(always)]
    fn lines(self) -> [Line; ROWS] {
        [self.first, self.second, self.third, self.fourth]
    }
}

#[inline(always)]
fn add_line<A: Arithmetic>(sums: &mut Line, factor: f32, line: &Line) {
    for (sum, &value) in sums.iter_mut().zip(line) {
        *sum = A::mul_add(factor, value, *sum);
    }
}

/// Packs a matrix of `width` columns, a multiple of [`LANES`], into panels; `rows` gives its rows.
#[inline(always)]
pub(super) fn panels<'a>(
    rows: impl ExactSizeIterator<Item = &'a [f32]>,
    width: usize,
    panels: &mut Vec<Line>,
) {
    let count = rows.len();
    panels.clear();
    panels.resize(count * (width / LANES), [0.0; LANES]);
    for (index, row) in rows.enumerate() {
        for (panel, line) in row.as_chunks::<LANES>().0.iter().enumerate() {
            panels[panel * count + index] = *line;
        }
    }
}

/// Packs the transpose of a matrix of `width` columns into panels: [`LANES`] rows become a panel's columns. The last
/// panel's missing columns are 0.
#[inline(always)]
pub(super) fn transposed_panels<'a>(
    rows: impl ExactSizeIterator<Item = &'a [f32]>,
    width: usize,
    panels: &mut Vec<Line>,
) {
    panels.clear();
    panels.resize(rows.len().div_ceil(LANES) * width, [0.0; LANES]);
    for (index, row) in rows.enumerate() {
        let panel = &mut panels[index / LANES * width..][..width];
        for (line, &value) in panel.iter_mut().zip(row) {
            line[index % LANES] = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::audited::{Kernel, dispatch};

    fn wave(rows: usize, columns: usize, seed: f32) -> Vec<f32> {
        (0..rows * columns).map(|index| (index as f32 * 0.37 + seed).sin()).collect()
    }

    struct Tiles<'a> {
        left: &'a [f32],
        right: &'a [f32],
        inner: usize,
    }

    /// `left` (4 x inner) and its transpose times `right` (inner x 32), by both tiles.
    impl Kernel for Tiles<'_> {
        type Output = [Vec<[Line; ROWS]>; 2];

        #[inline(always)]
        fn run<A: Arithmetic>(self) -> Self::Output {
            let Self { left, right, inner } = self;
            let (mut straight, mut lines) = (Vec::new(), Vec::new());
            panels(right.chunks_exact(2 * LANES), 2 * LANES, &mut lines);
            let mut rows = left.chunks_exact(inner);
            let rows: [&[f32]; ROWS] = std::array::from_fn(|_| rows.next().unwrap());
            let mut turned = vec![0.0; left.len() + inner];
            for (at, row) in turned.chunks_exact_mut(ROWS + 1).enumerate() {
                for (to, from) in row[1..].iter_mut().zip(rows) {
                    *to = from[at];
                }
            }
            let mut by_columns = Vec::new();
            for panel in lines.chunks_exact(inner) {
                straight.push(rows_by_panel::<A>(rows, panel));
                by_columns.push(columns_by_panel::<A>(&turned, ROWS + 1, 1, panel));
            }
            [straight, by_columns]
        }
    }

    #[test]
    fn tiles_are_products() {
        for inner in [1, 7, 32] {
            let (left, right) = (wave(ROWS, inner, 0.1), wave(inner, 2 * LANES, 0.7));
            for tiles in dispatch(Tiles { left: &left, right: &right, inner }) {
                for row in 0..ROWS {
                    for column in 0..2 * LANES {
                        let got = tiles[column / LANES][row][column % LANES];
                        let expected: f32 =
                            (0..inner).map(|k| left[row * inner + k] * right[k * 2 * LANES + column]).sum();
                        assert!((got - expected).abs() < 1e-5, "{got} {expected}");
                    }
                }
            }
        }
    }

    #[test]
    fn transposed_panels_hold_rows_as_columns() {
        let (matrix, mut lines) = (wave(19, 3, 0.2), vec![[9.0; LANES]; 2]);
        transposed_panels(matrix.chunks_exact(3), 3, &mut lines);
        assert_eq!(lines.len(), 2 * 3);
        for row in 0..2 * LANES {
            for column in 0..3 {
                let expected = if row < 19 { matrix[row * 3 + column] } else { 0.0 };
                assert_eq!(lines[row / LANES * 3 + column][row % LANES], expected);
            }
        }
    }
}
