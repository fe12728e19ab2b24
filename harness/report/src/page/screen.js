'use strict';
// One screen of a terminal: cells, a cursor, a scroll region. `terminal.js` controls it.
//
// S1. Rows have as many cells as there are columns. The column may be one past the last: the next character wraps.
// S2. A wide character is a cell of width 2 followed by one of width 0; half of one never stays.

const DEFAULT_STYLE = Object.freeze({
  fg: null, bg: null, bold: false, dim: false, italic: false, underline: false, inverse: false,
});
// A cell: its text, its columns (0 behind a wide character), its style.
const blank = style => ({ text: '', width: 1, style });
const WIDE = /^(?:\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4c6\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6b\uff01-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}])/u;
const COMBINING = /^(?:\p{M}|[\u200b-\u200f\u2060-\u2064\ufeff])/u;
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

/** Columns that a character takes. */
function widthOf(character) {
  if (character < '\u0300') return 1;
  if (COMBINING.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}

/** One of the two screens. */
class Screen {
  constructor(columns, rows) {
    this.columns = columns;
    this.cells = Array.from({ length: rows }, () => this.emptyRow(DEFAULT_STYLE));
    this.row = 0;
    this.column = 0;
    this.top = 0;
    this.bottom = rows - 1;
    this.origin = false;
    this.saved = { row: 0, column: 0, origin: false };
  }

  emptyRow(style) {
    return Array.from({ length: this.columns }, () => blank(style));
  }

  get rows() {
    return this.cells.length;
  }

  inRegion() {
    return this.row >= this.top && this.row <= this.bottom;
  }

  moveTo(row, column) {
    const [first, last] = this.origin ? [this.top, this.bottom] : [0, this.rows - 1];
    this.row = clamp(this.origin ? row + this.top : row, first, last);
    this.column = clamp(column, 0, this.columns - 1);
  }

  scrollUp(count, from = this.top) {
    for (let left = Math.min(count, this.bottom - from + 1); left > 0; left--) {
      this.cells.splice(from, 1);
      this.cells.splice(this.bottom, 0, this.emptyRow(DEFAULT_STYLE));
    }
  }

  scrollDown(count, from = this.top) {
    for (let left = Math.min(count, this.bottom - from + 1); left > 0; left--) {
      this.cells.splice(this.bottom, 1);
      this.cells.splice(from, 0, this.emptyRow(DEFAULT_STYLE));
    }
  }

  lineFeed() {
    const last = this.inRegion() ? this.bottom : this.rows - 1;
    if (this.row < last) this.row++;
    else if (this.row === this.bottom) this.scrollUp(1);
  }

  reverseLineFeed() {
    const first = this.inRegion() ? this.top : 0;
    if (this.row > first) this.row--;
    else if (this.row === this.top || this.row === 0) this.scrollDown(1);
  }

  // If one half of a wide character is overwritten, the other half is removed.
  parted(row, column) {
    const cells = this.cells[row];
    const cell = cells[column];
    if (!cell) return;
    if (cell.width === 2 && cells[column + 1]) cells[column + 1] = blank(cells[column + 1].style);
    if (cell.width === 0 && cells[column - 1]) cells[column - 1] = blank(cells[column - 1].style);
  }

  put(text, width, style) {
    if (width > this.columns) return;
    if (this.column > this.columns - width) {
      this.column = 0;
      this.lineFeed();
    }
    const cells = this.cells[this.row];
    for (let offset = 0; offset < width; offset++) this.parted(this.row, this.column + offset);
    cells[this.column] = { text, width, style };
    if (width === 2) cells[this.column + 1] = { text: '', width: 0, style: DEFAULT_STYLE };
    this.column += width;
  }

  // A combining character joins the previous one, up to a length beyond all scripts.
  join(text) {
    if (this.column === 0) return;
    const cells = this.cells[this.row];
    let column = Math.min(this.column, this.columns) - 1;
    if (cells[column].width === 0 && column > 0) column--;
    const cell = cells[column];
    const base = cell.text === '' ? ' ' : cell.text;
    if (base.length + text.length <= 16) cells[column] = { ...cell, text: base + text };
  }

  // Only the background of the style is kept.
  erase(row, from, to, { bg }) {
    const style = bg === null ? DEFAULT_STYLE : { ...DEFAULT_STYLE, bg };
    for (let column = from; column < Math.min(to, this.columns); column++) {
      this.parted(row, column);
      this.cells[row][column] = blank(style);
    }
  }

  insertCells(count) {
    if (this.column >= this.columns) return;
    const cells = this.cells[this.row];
    // A wide character stays whole: text inserted at its second half goes after it.
    const at = cells[this.column].width === 0 ? this.column + 1 : this.column;
    const added = Math.min(count, this.columns - this.column);
    cells.splice(at, 0, ...Array.from({ length: added }, () => blank(DEFAULT_STYLE)));
    cells.length = this.columns;
    if (cells[this.columns - 1].width === 2) cells[this.columns - 1] = blank(cells[this.columns - 1].style);
  }

  deleteCells(count) {
    const removed = Math.min(count, this.columns - this.column);
    if (removed <= 0) return;
    const cells = this.cells[this.row];
    this.parted(this.row, this.column);
    this.parted(this.row, this.column + removed - 1);
    cells.splice(this.column, removed);
    while (cells.length < this.columns) cells.push(blank(DEFAULT_STYLE));
  }

  resize(columns, rows) {
    while (this.cells.length > rows) {
      // Removes rows below the cursor first, so that the visible text stays.
      if (this.row < this.cells.length - 1) this.cells.pop();
      else {
        this.cells.shift();
        this.row--;
      }
    }
    this.columns = columns;
    for (const cells of this.cells) {
      cells.length = Math.min(cells.length, columns);
      if (cells[cells.length - 1].width === 2) cells[cells.length - 1] = blank(DEFAULT_STYLE);
      while (cells.length < columns) cells.push(blank(DEFAULT_STYLE));
    }
    while (this.cells.length < rows) this.cells.push(this.emptyRow(DEFAULT_STYLE));
    [this.top, this.bottom] = [0, rows - 1];
    this.row = clamp(this.row, 0, rows - 1);
    this.column = clamp(this.column, 0, columns - 1);
    this.saved = { ...this.saved, row: clamp(this.saved.row, 0, rows - 1), column: clamp(this.saved.column, 0, columns - 1) };
  }
}
