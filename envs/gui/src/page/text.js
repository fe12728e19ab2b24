// The tree as text, and elements by their shown names.

const quoted = (text) => `"${text.replace(/[\\"]/g, '\\$&').replace(/\r?\n/g, '\\n')}"`;

/** Element → number, and back. Elements are not kept alive by their numbers. */
const numbers = new WeakMap();
const numbered = [null];
/** Element → what it was called when it was last shown. */
const descriptions = new WeakMap();
/** What has a number in the text that was shown last, in its order: `{number, word, name, description}`. */
let shown = [];

/** How many numbers there were before the text that was made last. */
let before = numbered.length;

/** Takes back the numbers of a text that nobody was shown. */
function takeBack() {
  for (const last of numbered.splice(before)) numbers.delete(last.deref());
}

function numberOf(element) {
  let number = numbers.get(element);
  if (number === undefined) {
    number = numbered.length;
    numbers.set(element, number);
    numbered.push(new WeakRef(element));
  }
  return number;
}

/** Lines of nodes, which give numbers in the order in which they are read. */
class Page {
  constructor(textRefs) {
    this.lines = [];
    this.shown = [];
    this.refs = 0;
    this.textRefs = textRefs;
  }

  head(one) {
    if (one.kind === 'text') {
      return `${this.textRefs && one.element ? this.number(one.element) : ''}text: ${one.text}`;
    }
    const number = one.ref ? this.number(one.element) : '';
    const name = one.name === '' ? '' : ` ${quoted(one.name.slice(0, MOST_OF_A_NAME))}`;
    const states = one.states.length === 0 ? '' : ` (${one.states.join(', ')})`;
    if (one.ref) this.describe(one, `${number}${one.word}${name}${one.hint}`);
    return `${number}${one.word}${name}${one.hint}${one.detail}${states}`;
  }

  describe(one, description) {
    descriptions.set(one.element, description);
    const name = collapse(one.name.slice(0, MOST_OF_A_NAME));
    this.shown.push({ number: numberOf(one.element), word: one.word, name, description });
  }

  number(element) {
    this.refs += 1;
    return `[${numberOf(element)}] `;
  }

  write(nodes, indent, first = indent) {
    nodes.forEach((one, index) => this.one(one, indent, index === 0 ? first : indent));
  }

  /** `first` stands before the node's first line, `indent` before all further ones. */
  one(one, indent, first) {
    const deeper = `${indent}  `;
    if ((one.kind === 'list' || one.kind === 'table') && one.children.length === 0) return;
    if (one.kind === 'item') {
      if (one.children.length > 0) this.write(one.children, deeper, `${first}- `);
    } else if (isOneLine(one)) {
      this.lines.push(first + this.inline(one));
    } else {
      this.lines.push(first + this.head(one));
      this.write(one.children, deeper);
    }
  }

  /** A row with its cells, a heading with its link, or a node that has nothing inside. */
  inline(one) {
    if (one.kind === 'heading' && one.children.length === 1) return `${one.word} ${this.head(one.children[0])}`;
    if (one.kind === 'row') return [this.head(one), ...one.children.map((child) => this.inline(child))].join(' ');
    if (one.kind === 'cell' || (one.kind === 'group' && one.children.length > 0)) {
      if (one.children.every((child) => child.kind === 'text')) {
        return this.head({ ...one, name: joined(one.children), ...(one.children.length === 0 && one.kind === 'cell' ? { hint: ' ""' } : {}) });
      }
      return [this.head(one), ...one.children.map((child) => (child.kind === 'text' ? quoted(child.text) : this.head(child)))].join(' ');
    }
    return this.head(one);
  }
}

function isOneLine(one) {
  const isLeaf = (child) => child.children.length === 0 && child.kind !== 'row' && child.kind !== 'item';
  if (one.kind === 'cell') return one.children.every(isLeaf);
  if (one.kind === 'row') return one.children.every((child) => child.kind === 'cell' && isOneLine(child));
  if (one.kind === 'heading') {
    const [link, ...others] = one.children;
    return link === undefined || (others.length === 0 && isLeaf(link) && link.name === one.name);
  }
  if (one.word === 'alert' && one.name === '') return one.children.every((child) => child.kind === 'text');
  return one.children.length === 0;
}

/**
 * The page as text. `hidden` are CSS selectors of what is left out; after `maxNodes` elements the rest is; with
 * `textRefs`, blocks of text have numbers too. `focused` is the number of the element that has the focus.
 *
 * Null if `of` is given and is the identity of another document. `unseen` is the identity of the document whose last text
 * nobody was shown. `errors` are those of its scripts since the text before.
 */
function observe(options) {
  if (options?.of && options.of !== identity) return null;
  if (options?.unseen === identity) takeBack();
  before = numbered.length;
  forget();
  const observation = new Observation(options ?? {});
  const page = new Page(observation.textRefs);
  const nodes = attempt(() => observation.document(document, { inert: false, drawing: false }), []);
  attempt(() => page.write(nodes, ''));
  ({ shown } = page);
  forget();
  const root = document.scrollingElement ?? documentElementOf(document);
  return {
    identity,
    url: String(document.URL),
    title: attempt(() => collapse(String(document.title)), ''),
    text: wellFormed(page.lines.join('\n')),
    errors: attempt(() => errorsSeen(options?.unseen === identity), []),
    refs: page.refs,
    truncated: observation.truncated,
    unread: observation.unread,
    dialogs: observation.dialogs,
    focused: observation.focused === null ? null : numbers.get(observation.focused) ?? null,
    scroll: !root ? [0, 0] : [Math.round(root.scrollTop), Math.max(0, root.scrollHeight - root.clientHeight)],
  };
}
