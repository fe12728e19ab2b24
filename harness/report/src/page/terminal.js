'use strict';
// A terminal for replays: bytes of a recording in, rows of styled text out. No document, no clock.
//
// T1. It never throws or runs long, whatever the input: numbers are clamped to the screen, unknown sequences are
//     skipped whole. T2. It shows the same as the harness's own emulator (the crate vt100): a test compares
//     both. Beyond that crate it supports line-drawing characters, index and next line, and CSI s and u.
//
// Source: ECMA-48, DEC STD 070 and xterm's control sequences, as far as shells and full-screen programs use them.

// What the letters from ` to ~ draw in the set that ESC ( 0 chooses.
const LINES = '◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·';
const MAX_COLUMNS = 1000;

/** A terminal of so many columns and rows. */
class Terminal {
  constructor(columns, rows) {
    this.columns = clamp(columns | 0, 1, MAX_COLUMNS);
    this.rows = clamp(rows | 0, 1, MAX_COLUMNS);
    this.reset();
  }

  reset() {
    this.primary = new Screen(this.columns, this.rows);
    this.alternate = new Screen(this.columns, this.rows);
    this.screen = this.primary;
    this.style = this.savedStyle = DEFAULT_STYLE;
    this.cursorVisible = true;
    this.sets = [false, false];
    this.shifted = 0;
    this.last = null;
    this.state = 'ground';
    this.sequence = '';
  }

  resize(columns, rows) {
    this.columns = clamp(columns | 0, 1, MAX_COLUMNS);
    this.rows = clamp(rows | 0, 1, MAX_COLUMNS);
    this.primary.resize(this.columns, this.rows);
    this.alternate.resize(this.columns, this.rows);
  }

  write(text) {
    for (const character of text) this.take(character);
  }

  take(character) {
    const code = character.codePointAt(0);
    // These end any sequence, but a string continues to its terminator.
    if (code === 0x18 || code === 0x1a) {
      this.state = 'ground';
    } else if (code === 0x1b) {
      this.state = this.state === 'string' ? 'string-escape' : 'escape';
      this.sequence = '';
    } else if (this.state === 'string') {
      if (code === 0x07) this.state = 'ground';
    } else if (this.state === 'string-escape') {
      // ESC ended the string: with a backslash it is the terminator, otherwise a sequence starts.
      this.state = 'escape';
      if (character === '\\') this.state = 'ground';
      else this.take(character);
    } else if (code < 0x20) {
      this.control(code);
    } else if (this.state === 'ground') {
      if (code !== 0x7f && !(code >= 0x80 && code < 0xa0) && code !== 0xfffd) this.print(character);
    } else if (this.state === 'escape') {
      this.escape(character, code);
    } else {
      this.csi(character, code);
    }
  }

  control(code) {
    const screen = this.screen;
    if (code === 8) screen.column = Math.max(0, screen.column - 1);
    else if (code === 9) screen.column = Math.min(screen.columns - 1, screen.column - (screen.column % 8) + 8);
    else if (code >= 10 && code <= 12) screen.lineFeed();
    else if (code === 13) screen.column = 0;
    else if (code === 14 || code === 15) this.shifted = 15 - code;
  }

  print(character) {
    const drawn = this.sets[this.shifted] && character >= '`' && character <= '~'
      ? LINES[character.codePointAt(0) - 0x60] : character;
    const width = widthOf(drawn);
    if (width === 0) {
      this.screen.join(drawn);
    } else {
      this.screen.put(drawn, width, this.style);
      this.last = drawn;
    }
  }

  escape(character, code) {
    if (code >= 0x20 && code <= 0x2f) {
      this.sequence += character;
      return;
    }
    this.state = 'ground';
    if (this.sequence !== '') {
      if (this.sequence === '(' || this.sequence === ')') this.sets[this.sequence === ')' ? 1 : 0] = character === '0';
      return;
    }
    const screen = this.screen;
    switch (character) {
      case '[': this.state = 'csi'; break;
      case ']': case 'P': case 'X': case '^': case '_': this.state = 'string'; break;
      case '7': this.save(); break;
      case '8': this.restore(); break;
      case 'D': screen.lineFeed(); break;
      case 'E': screen.lineFeed(); screen.column = 0; break;
      case 'M': screen.reverseLineFeed(); break;
      case 'c': this.reset(); break;
    }
  }

  csi(character, code) {
    if (code >= 0x20 && code <= 0x3f) {
      // Unknown sequences are read to their end and dropped.
      if (this.sequence.length < 256) this.sequence += character;
      return;
    }
    this.state = 'ground';
    const [, mark, numbers, between] = /^([<=>?]?)([0-9;:]*)([ -/]*)/.exec(this.sequence);
    if (code > 0x7e || between !== '' || mark.length + numbers.length < this.sequence.length) return;
    const parameters = numbers.split(';').map(part => part.split(':').map(one => Math.min(65535, +one || 0)));
    if (mark === '?' && (character === 'h' || character === 'l')) {
      for (const [mode] of parameters) this.setMode(mode, character === 'h');
    } else if (mark === '' && character === 'm') {
      this.restyle(parameters);
    } else if (mark === '' || (mark === '?' && (character === 'J' || character === 'K'))) {
      this.edit(character, parameters.map(([one]) => one));
    }
  }

  edit(character, [first, second = 0]) {
    const screen = this.screen;
    const count = first || 1;
    const { row, column, columns } = screen;
    const limits = () => (screen.inRegion() ? [screen.top, screen.bottom] : [0, screen.rows - 1]);
    switch (character) {
      case '@': screen.insertCells(count); break;
      case 'A': screen.row = Math.max(row >= screen.top && row <= screen.bottom ? screen.top : 0, row - count); break;
      case 'B': screen.row = Math.min(limits()[1], row + count); break;
      case 'C': screen.column = Math.min(columns - 1, column + count); break;
      case 'D': screen.column = Math.max(0, column - count); break;
      case 'E': screen.row = Math.min(limits()[1], row + count); screen.column = 0; break;
      case 'F': screen.row = Math.max(limits()[0], row - count); screen.column = 0; break;
      case 'G': case '`': screen.column = Math.min(columns, count) - 1; break;
      case 'H': case 'f': screen.moveTo(count - 1, (second || 1) - 1); break;
      case 'J': this.eraseDisplay(first); break;
      case 'K':
        if (first === 0) screen.erase(row, column, columns, this.style);
        else if (first === 1) screen.erase(row, 0, column + 1, this.style);
        else if (first === 2) screen.erase(row, 0, columns, this.style);
        break;
      case 'L': if (screen.inRegion()) screen.scrollDown(count, row); break;
      case 'M': if (screen.inRegion()) screen.scrollUp(count, row); break;
      case 'P': screen.deleteCells(count); break;
      case 'S': screen.scrollUp(count); break;
      case 'T': screen.scrollDown(count); break;
      case 'X': screen.erase(row, column, column + count, this.style); break;
      case 'b':
        // More than a screenful only scrolls the same text.
        for (let left = Math.min(count, Math.max(256, columns * screen.rows)); left > 0 && this.last; left--) {
          screen.put(this.last, widthOf(this.last), this.style);
        }
        break;
      case 'd': screen.row = Math.min(screen.rows, count) - 1; break;
      case 'r': {
        const bottom = Math.min(second || screen.rows, screen.rows) - 1;
        [screen.top, screen.bottom] = count - 1 < bottom ? [count - 1, bottom] : [0, screen.rows - 1];
        [screen.row, screen.column] = [screen.top, 0];
        break;
      }
      case 's': this.save(); break;
      case 'u': this.restore(); break;
    }
  }

  eraseDisplay(which) {
    const screen = this.screen;
    const { row, column, columns, rows } = screen;
    const [first, last] = which === 0 ? [row + 1, rows] : which === 1 ? [0, row] : which === 2 ? [0, rows] : [0, 0];
    for (let each = first; each < last; each++) screen.erase(each, 0, columns, this.style);
    if (which === 0) screen.erase(row, column, columns, this.style);
    if (which === 1) screen.erase(row, 0, column + 1, this.style);
  }

  setMode(mode, on) {
    if (mode === 6) {
      this.screen.origin = on;
      this.screen.moveTo(0, 0);
    } else if (mode === 25) {
      this.cursorVisible = on;
    } else if (mode === 47 || mode === 1047) {
      this.screen = on ? this.alternate : this.primary;
    } else if (mode === 1048) {
      if (on) this.save();
      else this.restore();
    } else if (mode === 1049 && on) {
      this.save();
      this.alternate = new Screen(this.columns, this.rows);
      this.screen = this.alternate;
    } else if (mode === 1049) {
      this.screen = this.primary;
      this.restore();
    }
  }

  save() {
    const { row, column, origin } = this.screen;
    this.screen.saved = { row, column, origin };
    this.savedStyle = this.style;
  }

  restore() {
    Object.assign(this.screen, this.screen.saved);
    this.style = this.savedStyle;
  }

  restyle(parameters) {
    const style = { ...this.style };
    for (let at = 0; at < parameters.length; at++) {
      const [code, ...rest] = parameters[at];
      if (code === 0) Object.assign(style, DEFAULT_STYLE);
      else if (code === 1) style.bold = true;
      else if (code === 2) style.dim = true;
      else if (code === 3) style.italic = true;
      else if (code === 4) style.underline = rest[0] !== 0;
      else if (code === 7) style.inverse = true;
      else if (code === 22) style.bold = style.dim = false;
      else if (code === 23) style.italic = false;
      else if (code === 24) style.underline = false;
      else if (code === 27) style.inverse = false;
      else if (code >= 30 && code <= 37) style.fg = code - 30;
      else if (code === 39) style.fg = null;
      else if (code >= 40 && code <= 47) style.bg = code - 40;
      else if (code === 49) style.bg = null;
      else if (code >= 90 && code <= 97) style.fg = code - 82;
      else if (code >= 100 && code <= 107) style.bg = code - 92;
      else if (code === 38 || code === 48) {
        // 38:2::r:g:b contains its numbers, 38;2;r;g;b is followed by them.
        const own = rest.length > 0;
        const values = own ? rest : parameters.slice(at + 1, at + 5).map(([one]) => one);
        const color = Terminal.color(values, own);
        if (!own) at += values[0] === 2 ? 4 : 2;
        if (color !== undefined) style[code === 38 ? 'fg' : 'bg'] = color;
      }
    }
    this.style = Object.freeze(style);
  }

  /** A number of the palette, or `#rrggbb`; undefined if the values are none. */
  static color(values, own) {
    if (values[0] === 5 && values[1] <= 255) return values[1];
    const parts = own && values.length > 4 ? values.slice(2, 5) : values.slice(1, 4);
    if (values[0] !== 2 || parts.length < 3 || parts.some(part => part > 255)) return undefined;
    return '#' + parts.map(part => part.toString(16).padStart(2, '0')).join('');
  }

  /** Rows of runs `{ text, style, cursor }`; cells of one look are one run. */
  lines() {
    return this.screen.cells.map((cells, row) => {
      const runs = [];
      cells.forEach((cell, column) => {
        if (cell.width === 0) return;
        const cursor = this.cursorVisible && row === this.screen.row
          && column === Math.min(this.screen.column, this.columns - 1);
        const before = runs[runs.length - 1];
        const text = cell.text === '' ? ' ' : cell.text;
        if (before && before.style === cell.style && !before.cursor && !cursor) before.text += text;
        else runs.push({ text, style: cell.style, cursor });
      });
      return runs;
    });
  }
}

/** A recording in asciicast v2, and the terminal at any moment of it. Lines that are no events are left out. */
class Recording {
  constructor(text) {
    const [header, ...lines] = text.split('\n');
    const { width = 80, height = 24 } = Recording.parsed(header) || {};
    this.size = [+width || 80, +height || 24];
    this.events = lines.map(Recording.parsed).filter(event => Array.isArray(event) && event.length === 3);
    // Pauses are shortened to one second: thinking time is not part of the replay.
    let [before, moment] = [0, 0];
    this.moments = this.events.map(([time]) => {
      const at = Number.isFinite(+time) ? +time : before;
      moment += clamp(at - before, 0, 1);
      before = at;
      return moment;
    });
    this.duration = moment;
    this.rewind();
  }

  static parsed(line) {
    try {
      return JSON.parse(line);
    } catch {
      return null;
    }
  }

  rewind() {
    this.terminal = new Terminal(...this.size);
    this.next = 0;
    this.marker = '';
  }

  /** Brings the terminal to this moment, in seconds; says whether anything changed. */
  seek(moment) {
    const back = this.next > 0 && this.moments[this.next - 1] > moment;
    if (back) this.rewind();
    const first = this.next;
    while (this.next < this.events.length && this.moments[this.next] <= moment) {
      const [, kind, data] = this.events[this.next++];
      if (kind === 'o') this.terminal.write(String(data));
      else if (kind === 'm') this.marker = String(data);
      else if (kind === 'r') {
        const [columns, rows] = String(data).split('x').map(Number);
        this.terminal.resize(columns, rows);
      }
    }
    return back || this.next > first;
  }
}
