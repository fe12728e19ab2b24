'use strict';
// The viewer of attempts: a list with filters, and one attempt turn by turn with a replay of its terminal.
//
// V1. All text of an attempt becomes a text node, never markup: no code here parses HTML.
// V2. Data is decompressed on demand, one block at a time. V3. Nothing is fetched: the content security policy forbids it.
// Only following a link opens the file of a picture.
//
// The page has one element `index` with the list, and elements `d0`, `d1`... with attempts, `c0`, `c1`... with recordings and
// `p0`, `p1`... with thumbnails, each gzipped JSON in base64.
(() => {
  const at = id => document.getElementById(id);
  const ROWS_AT_ONCE = 200;
  const BLOCKS_KEPT = 8;

  /** An element with text or elements in it. */
  function make(tag, className, ...content) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...content);
    return element;
  }

  // Shows control characters as symbols; line ends and tabs stay unchanged.
  const visible = text => text.replace(/[\x00-\x08\x0b-\x1f\x7f]/g, c => (c === '\r' ? '␍' : c === '\x7f' ? '␡' : String.fromCharCode(0x2400 + c.charCodeAt(0))));
  const pre = (className, text) => make('pre', className, visible(text));

  function duration(us) {
    if (us < 1e3) return `${us} us`;
    if (us < 1e6) return `${(us / 1e3).toFixed(1)} ms`;
    return us < 6e8 ? `${(us / 1e6).toFixed(1)} s` : `${(us / 6e7).toFixed(1)} min`;
  }

  const blocks = new Map();

  /** The content of a block, from the cache if it is there. */
  async function unpack(id) {
    if (!blocks.has(id)) {
      const bytes = Uint8Array.from(atob(at(id).textContent), character => character.charCodeAt(0));
      const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
      blocks.set(id, JSON.parse(await new Response(plain).text()));
      const [oldest] = blocks.keys();
      if (blocks.size > BLOCKS_KEPT && oldest !== id) blocks.delete(oldest);
    }
    return blocks.get(id);
  }

  let index = null;
  // The task to which a link limits the list.
  let onlyTask = null;
  let shown = [];
  let listed = 0;
  let replay = null;

  // The list.

  function matching() {
    const [kind, task] = [at('kind').value, at('task').value.trim().toLowerCase()];
    const wanted = index.tasks.map(name => task === '' || name.toLowerCase().includes(task));
    const isWanted = row => (onlyTask === null ? wanted[row.task] : row.task === onlyTask);
    return index.rows.filter(row => (kind === '' || index.kinds[row.kind] === kind) && isWanted(row));
  }

  function list() {
    shown = matching();
    listed = 0;
    at('rows').replaceChildren();
    at('count').textContent = `${shown.length} of ${index.rows.length} attempts`;
    more();
  }

  function more() {
    const rows = shown.slice(listed, listed + ROWS_AT_ONCE);
    at('rows').append(...rows.map(listRow));
    listed += rows.length;
    at('more').hidden = listed >= shown.length;
    at('more').textContent = `${Math.min(ROWS_AT_ONCE, shown.length - listed)} more of ${shown.length - listed}`;
    mark();
  }

  function listRow(row) {
    const link = make('a', '', row.attempt);
    link.href = '#' + row.attempt;
    const kind = index.kinds[row.kind];
    const score = row.score === null ? '' : row.score.toFixed(2);
    const line = make(
      'tr', '', make('td', '', link), make('td', 'task', index.tasks[row.task].slice(index.common)), make('td', kind, kind),
      make('td', '', score), make('td', '', String(row.turns)), make('td', '', duration(row.us)),
    );
    line.dataset.attempt = row.attempt;
    line.addEventListener('click', () => { location.hash = row.attempt; });
    return line;
  }

  function mark() {
    const chosen = location.hash.slice(1);
    for (const line of at('rows').children) line.classList.toggle('chosen', line.dataset.attempt === chosen);
  }

  // Links within the page: to an attempt, to the attempts of a task, to any element.

  /** Shows an element, also where it is folded away. */
  function reveal(element) {
    for (let part = element; part; part = part.parentElement) if (part.tagName === 'DETAILS') part.open = true;
    element.scrollIntoView();
  }

  async function follow() {
    mark();
    const target = location.hash.slice(1);
    const row = index.byAttempt.get(target);
    const [, task] = /^attempts-of-([0-9]+)$/.exec(target) || [];
    if (row) {
      await open(row);
    } else if (task !== undefined && index.tasks[task] !== undefined) {
      onlyTask = +task;
      at('kind').value = '';
      at('task').value = index.tasks[task];
      list();
      // If the task has one attempt, show it.
      if (shown.length === 1) {
        location.replace('#' + shown[0].attempt);
        return;
      }
      if (replay) replay.stop();
      at('attempt').replaceChildren(make('p', 'soft', 'Choose an attempt.'));
      reveal(at('attempts'));
    } else if (at(target)) {
      reveal(at(target));
    }
  }

  // One attempt.

  async function open(row) {
    if (replay) replay.stop();
    const place = at('attempt');
    const task = make('a', 'soft', index.tasks[row.task]);
    // Long tables omit rows.
    if (at('t' + row.task)) task.href = '#t' + row.task;
    const head = make('h3', '', `${row.attempt} `, task);
    if (row.chunk >= index.chunks) {
      place.replaceChildren(head, make('p', '', `This attempt is omitted to keep the page small: clawrl show ${index.run} --attempt ${row.attempt}`));
      bring(place);
      return;
    }
    const detail = (await unpack('d' + row.chunk))[row.place];
    const parts = [head, ending(row, detail), phases(detail)];
    const pictures = row.chunk < index.cast_chunks && at('p' + row.chunk) ? await unpack('p' + row.chunk) : null;
    const cast = row.cast && row.chunk < index.cast_chunks ? (await unpack('c' + row.chunk))[row.place] : null;
    // Another attempt may have been chosen while this one was decompressed.
    if (location.hash.slice(1) !== row.attempt) return;
    const strip = film(detail, pictures);
    if (strip) parts.push(...strip);
    if (cast) {
      replay = player(cast);
      parts.push(replay.element);
    } else {
      replay = null;
      const why = row.cast
        ? `Its recording is omitted to keep the page small: clawrl show ${index.run} --attempt ${row.attempt} --cast FILE`
        : 'No terminal recording.';
      if (row.cast || !strip) parts.push(make('p', 'soft', why));
    }
    for (const said of detail.prompt) parts.push(make('h4', '', said.role), pre('saw', said.text));
    if (detail.reset) parts.push(make('h4', '', 'first observation'), pre('saw', detail.reset));
    detail.turns.forEach((turn, number) => parts.push(...turnParts(turn, number + 1)));
    place.replaceChildren(...parts);
    bring(place);
  }

  /** Scrolls to the attempt that is shown: to where it begins where it stands below the list, else to list and attempt, unless they are being looked at. */
  function bring(place) {
    place.scrollTop = 0;
    if (matchMedia('(max-width: 1099px)').matches) {
      place.scrollIntoView();
      return;
    }
    const chosen = at('rows').querySelector('.chosen');
    if (chosen) at('list').scrollTop = chosen.offsetTop - at('list').clientHeight / 2;
    const { top, bottom } = at('attempts').getBoundingClientRect();
    if (top > innerHeight / 3 || bottom < innerHeight / 2) at('attempts').scrollIntoView();
  }

  function ending(row, detail) {
    const kind = index.kinds[row.kind];
    const box = make('div', 'end', make('b', kind, kind));
    const { finished, faulted, cancelled } = detail.end;
    if (finished) {
      box.append(`, ${finished.stop}; score ${finished.score.toFixed(3)}, reward ${finished.reward.toFixed(3)}`);
      if (finished.flags.length) box.append(make('b', '', ` ${finished.flags.join(', ')}`));
      const lines = finished.checks.map(check => make(
        'tr', '', make('td', check.score >= 1 ? 'passed' : 'failed', check.score.toFixed(2)),
        make('td', '', `x ${check.weight}`), make('td', '', visible(check.label)), make('td', 'evidence', visible(check.message)),
      ));
      const head = make('tr', '', ...['score', 'weight', 'check', 'finding'].map(name => make('th', '', name)));
      if (lines.length) box.append(make('table', 'checks', make('thead', '', head), make('tbody', '', ...lines)));
    } else if (faulted) {
      box.append(` at ${faulted.boundary}: ${faulted.code}${faulted.limit ? `, ${faulted.limit}` : ''}; a retry ${faulted.retry_is_sound ? 'may help' : 'would end the same way'}`);
      box.append(pre('saw', faulted.message));
    } else {
      box.append(`: ${cancelled.reason}`);
    }
    if (!detail.closes_slot) box.append(make('p', 'soft', 'This attempt did not close its slot: another attempt counts, or none.'));
    return box;
  }

  function phases(detail) {
    const words = detail.phases_us.filter(([, us]) => us > 0).map(([name, us]) => `${name} ${duration(us)}`);
    return make('p', 'soft', words.length ? words.join(' · ') : 'No times recorded.');
  }

  function turnParts(turn, number) {
    const words = [`turn ${number}`, `policy ${duration(turn.policy_us)}`, `step ${duration(turn.step_us)}`];
    const { exit_code: code, ...facts } = turn.facts || {};
    if (code !== undefined) words.push(code === null ? 'exit unknown' : `exit ${code}`);
    if (turn.sampled_tokens !== undefined) words.push(`${turn.sampled_tokens} tokens`);
    words.push(...usageWords(turn.usage), ...(turn.marks || []));
    const head = make('h4', '', words.join(' · '));
    head.id = `turn-${number}`;
    const parts = [head];
    if (turn.reply) parts.push(pre('said', turn.reply));
    for (const call of turn.calls) {
      parts.push(make('div', 'call', make('span', 'soft', visible(call.name)), pre('said', call.text)));
    }
    parts.push(pre('saw', turn.saw));
    if (turn.full) {
      const text = turn.full.text;
      parts.push(text === undefined
        ? make('p', 'soft', `The uncut output has ${turn.full.bytes} bytes and is only in the record.`)
        : make('details', '', make('summary', '', 'uncut output'), pre('saw', text)));
    }
    if (Object.keys(facts).length) {
      parts.push(make('details', '', make('summary', '', 'facts'), pre('saw', JSON.stringify(facts, null, 1))));
    }
    return parts;
  }

  function usageWords(usage) {
    if (!usage) return [];
    const words = [`${usage.input_tokens} tokens in (${usage.cached_tokens} cached), ${usage.output_tokens} out`];
    if (usage.cost_nano_usd !== undefined) words.push(`$${(usage.cost_nano_usd / 1e9).toFixed(6)}`);
    if (usage.source === 'estimated') words.push('estimated');
    if (usage.retries) words.push(`${usage.retries} retries`);
    return [...words, ...(usage.notes || [])];
  }

  // Pictures of an attempt: the first observation, then one per turn, above its action.

  /** What was done in a turn, in a line. */
  function done(turn) {
    const calls = turn.calls.map(call => (call.name === 'act' ? call.text : `${call.name} ${call.text}`.trim()));
    return (calls.length ? calls.join('; ') : turn.reply).replace(/\s+/g, ' ');
  }

  function film(detail, small) {
    const shots = [{ picture: (detail.pictures || [])[0], why: detail.no_picture, caption: 'at the start' }];
    for (const turn of detail.turns) {
      shots.push({ picture: (turn.pictures || [])[0], why: (turn.facts || {}).no_picture, caption: done(turn) });
    }
    if (!shots.some(shot => shot.picture)) return null;
    const folder = index.run_folder.split('/').map(encodeURIComponent).join('/');
    const strip = make('ol', 'film', ...shots.map((shot, turn) => frame(shot, turn, folder, small)));
    strip.setAttribute('aria-label', 'pictures of the page, turn by turn');
    const key = 'What the page looked like. A picture opens its file, which lies in the folder of the run; what is below it leads to the turn.';
    return [make('p', 'soft', small ? key : `${key} Small ones were left out, because the page would be too large.`), strip];
  }

  function frame({ picture, why, caption }, turn, folder, small) {
    const place = turn === 0 ? 'at the start' : `after turn ${turn}`;
    let shown = make('span', 'none', why ? `no picture: ${visible(why)}` : 'no picture');
    if (picture) {
      shown = make('a', '');
      shown.href = folder + picture.file;
      Object.assign(shown, { target: '_blank', rel: 'noopener' });
      const data = small && small[picture.sha256];
      if (data) {
        const image = make('img');
        Object.assign(image, { src: `data:image/png;base64,${data}`, alt: `the page ${place}: ${visible(caption)}` });
        shown.append(image);
      } else {
        shown.append(make('span', 'none', `picture ${place}`));
      }
    }
    const words = make('button', '', make('b', '', turn === 0 ? '' : `${turn} `), visible(caption));
    words.title = visible(caption);
    words.addEventListener('click', () => {
      const head = at(`turn-${turn}`) || at('attempt');
      head.scrollIntoView({ block: 'start' });
    });
    return make('li', '', shown, words);
  }

  // The replay of a terminal.

  const PALETTE = [
    '#1c1f24', '#f2777a', '#8bc97f', '#e5b567', '#6ea8fe', '#c397d8', '#66c2c2', '#d6d9de',
    '#6b7280', '#ff9c9e', '#b5e8a8', '#ffd98c', '#9cc4ff', '#e2b8f2', '#95e3e3', '#ffffff',
  ];

  function color(value, otherwise) {
    if (value === null) return otherwise;
    if (typeof value === 'string') return value;
    if (value < 16) return PALETTE[value];
    if (value >= 232) return `rgb(${Array(3).fill(8 + 10 * (value - 232)).join(' ')})`;
    const level = part => (part === 0 ? 0 : 55 + 40 * part);
    const cube = value - 16;
    return `rgb(${[Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map(level).join(' ')})`;
  }

  function runNode({ text, style, cursor }) {
    const node = make('span', '', text);
    let [fg, bg] = [color(style.fg, PALETTE[7]), color(style.bg, PALETTE[0])];
    if (style.inverse !== cursor) [fg, bg] = [bg, fg];
    if (fg !== PALETTE[7]) node.style.color = fg;
    if (bg !== PALETTE[0]) node.style.backgroundColor = bg;
    if (style.bold) node.style.fontWeight = 'bold';
    if (style.dim) node.style.opacity = '0.7';
    if (style.italic) node.style.fontStyle = 'italic';
    if (style.underline) node.style.textDecoration = 'underline';
    return node;
  }

  const SPEEDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8];

  function player(cast) {
    const recording = new Recording(cast);
    const screen = make('pre', 'terminal');
    const button = make('button', '', 'Play');
    const bar = make('input');
    Object.assign(bar, { type: 'range', min: 0, max: Math.max(recording.duration, 0.001), step: 'any', value: 0 });
    bar.setAttribute('aria-label', 'moment of the recording');
    const speed = make('select', '', ...SPEEDS.map(factor => {
      const option = make('option', '', `${factor}x`);
      option.value = factor;
      return option;
    }));
    // Commands of milliseconds are slowed down enough to watch.
    speed.value = SPEEDS.findLast(factor => factor <= 1 && recording.duration / factor >= 2) || SPEEDS[0];
    speed.setAttribute('aria-label', 'speed');
    const clock = make('span', 'soft');
    let moment = recording.duration;
    let before = null;
    let frame = 0;

    function draw() {
      const lines = recording.terminal.lines();
      screen.replaceChildren(...lines.flatMap(runs => [...runs.map(runNode), '\n']));
    }

    function show() {
      if (recording.seek(moment)) draw();
      bar.value = moment;
      const digits = recording.duration < 2 ? 3 : 1;
      clock.textContent = `${moment.toFixed(digits)} of ${recording.duration.toFixed(digits)} s${recording.marker ? ` · ${recording.marker}` : ''}`;
    }

    function stop() {
      cancelAnimationFrame(frame);
      before = null;
      button.textContent = 'Play';
    }

    function step(now) {
      moment = Math.min(recording.duration, moment + ((now - before) / 1000) * speed.value);
      before = now;
      show();
      if (moment >= recording.duration) stop();
      else frame = requestAnimationFrame(step);
    }

    button.addEventListener('click', () => {
      if (before !== null) return stop();
      if (moment >= recording.duration) moment = 0;
      button.textContent = 'Pause';
      before = performance.now();
      frame = requestAnimationFrame(step);
    });
    bar.addEventListener('input', () => {
      stop();
      moment = +bar.value;
      show();
    });
    // Starts at the end, which shows the outcome.
    draw();
    show();
    return { element: make('figure', '', screen, make('div', 'controls', button, bar, clock, speed)), stop };
  }

  async function start() {
    index = await unpack('index');
    blocks.delete('index');
    // In a run of one suite, lines omit its name.
    const suite = (index.tasks[0] || '').split('/', 1)[0] + '/';
    index.common = index.tasks.every(name => name.startsWith(suite)) ? suite.length : 0;
    index.byAttempt = new Map();
    for (const row of index.rows) index.byAttempt.set(row.attempt, row);
    at('attempts').hidden = false;
    at('kind').addEventListener('change', list);
    at('task').addEventListener('input', () => {
      onlyTask = null;
      list();
    });
    at('more').addEventListener('click', more);
    addEventListener('hashchange', follow);
    // A link to the current address changes nothing, but must work all the same.
    addEventListener('click', event => {
      if (event.target.closest?.('a[href^="#"]')?.hash === location.hash) follow();
    });
    list();
    await follow();
    document.body.dataset.ready = 'yes';
  }

  start().catch(error => {
    at('trouble').textContent = `The attempts cannot be shown: ${error.message}. A browser of 2023 or later is needed.`;
  });
})();
