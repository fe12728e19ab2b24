// The observed tree.

// A node is {kind, element, ref, word, name, detail, states, children, text}; kinds are `text`, `widget`, `group`,
// `list`, `item`, `table`, `row`, `cell`, `heading`.
const node = (kind, element, word, fields = {}) =>
  ({ kind, element, word, ref: false, name: '', hint: '', detail: '', states: [], children: [], text: '', ...fields });

/** Nodes of one parent, and text that waits for the end of its block. */
class Level {
  constructor() {
    this.nodes = [];
    this.waiting = '';
    this.block = null;
  }

  addText(text, block) {
    if (this.waiting === '') this.block = block;
    this.waiting += text;
  }

  add(one) {
    this.flush();
    this.nodes.push(one);
  }

  flush() {
    const text = collapse(this.waiting);
    if (text !== '') this.nodes.push(node('text', this.block, 'text', { text }));
    this.waiting = '';
  }
}

const NAMED_GROUPS = words('alertdialog application article banner complementary contentinfo dialog feed figure form group listbox '
  + 'log main menu menubar navigation radiogroup region search tablist toolbar tree');
const ALWAYS_SHOWN = words('alert alertdialog dialog');

/** Walks a document and builds the tree of what is shown. */
class Observation {
  constructor(options) {
    this.hidden = (options.hidden ?? []).filter((selector) => attempt(() => document.querySelector(selector) !== undefined, false)).join(',');
    this.maxNodes = options.maxNodes ?? 20_000;
    this.textRefs = options.textRefs === true;
    this.visited = 0;
    this.truncated = false;
    this.unread = 0;
    this.dialogs = [];
    this.focused = focusedElement();
  }

  /** All nodes of a document, a shadow root's host being part of its document. */
  document(target, walk) {
    const level = new Level();
    const body = bodyOf(target) ?? documentElementOf(target);
    if (!isElement(body)) return level.nodes;
    const modal = attempt(() => [...target.querySelectorAll('dialog:modal')].pop(), undefined);
    this.element(body, level, { ...walk, cursor: 'auto', block: body, visible: true, modal, inert: walk.inert || modal !== undefined });
    level.flush();
    return level.nodes;
  }

  children(parent, level, walk) {
    for (const child of childrenOf(parent)) {
      const type = nodeType(child);
      if (type === TEXT) {
        if (walk.visible) level.addText(dataOf(child), walk.block);
      } else if (type === ELEMENT) {
        this.elementOrNothing(child, level, walk);
      }
    }
  }

  /** One element that cannot be read is left out and counted; the others stay. */
  elementOrNothing(element, level, walk) {
    try {
      this.element(element, level, walk);
    } catch {
      this.unread += 1;
    }
  }

  inner(parent, walk) {
    const level = new Level();
    this.children(parent, level, walk);
    level.flush();
    return level.nodes;
  }

  isLeftOut(element, tag) {
    if (UNSEEN_TAGS.has(tag) || isTrue(element, 'aria-hidden') || hasAttribute(element, 'inert')) return true;
    return this.hidden !== '' && matches(element, this.hidden);
  }

  element(element, level, outer) {
    const tag = localName(element);
    if (this.truncated || this.isLeftOut(element, tag)) return;
    this.visited += 1;
    if (this.visited > this.maxNodes) {
      this.truncated = true;
      return;
    }
    const style = computedStyle(element);
    const { display } = style;
    if (display === 'none' || isClippedAway(element, display, style)) return;
    const inline = isInline(display);
    const visible = style.visibility === 'visible';
    const walk = { ...outer, visible, cursor: style.cursor, block: inline ? outer.block : element, inert: outer.inert && element !== outer.modal };
    if (this.special(element, tag, level, walk)) return;
    const role = roleOf(element);
    const evidence = visible ? evidenceOf(element, tag, role, walk.cursor, outer.cursor, walk.inert) : '';
    if (namespaceOf(element) === SVG) this.svg(element, tag, role, evidence, style, level, walk);
    else if (evidence === 'widget' || evidence === 'text') level.add(this.widget(element, tag, role, evidence, style, walk));
    else this.plain(element, tag, role, evidence, style, level, walk, inline);
  }

  /** Elements that are shown by what they are, whatever they contain. Returns whether this is one. */
  special(element, tag, level, walk) {
    switch (tag) {
      case 'br': level.addText(' ', walk.block); return true;
      case 'hr': level.flush(); return true;
      case 'iframe': case 'frame': level.add(this.frame(element, walk)); return true;
      case 'details': this.details(element, level, walk); return true;
      case 'input': return element.type === 'hidden';
      default: return false;
    }
  }

  /** A field, a button, and all else that has a widget's role. */
  widget(element, tag, role, evidence, style, walk) {
    const word = evidence === 'text' ? 'textbox' : role;
    const name = nameOf(element, word);
    const one = node('widget', element, word, { ref: true, name });
    if (name === '' && !matches(element, LIBRARY_SLIDER)) one.hint = hintOf(element, style);
    const { detail, range } = detailOf(element, tag, word);
    one.detail = tag === 'canvas' ? placeOf(element, true) : detail;
    one.states = [...range, ...statesOf(element, word, this.focused)];
    if (evidence !== 'text' && !FIELD_TAGS.has(tag)) one.children = withoutEcho(refsIn(this.inner(element, walk)), name);
    return one;
  }

  plain(element, tag, role, evidence, style, level, walk, inline) {
    // A field that cannot be used now; its options are not text.
    if (FIELD_TAGS.has(tag)) return;
    if (role === 'image') {
      const name = nameOf(element, role);
      if (!walk.visible || (name === '' && evidence === '')) return;
      level.add(this.finish(node('widget', element, 'image', { name }), element, evidence, style));
      return;
    }
    if (tag === 'label' && evidence === '' && namesShownControl(element)) {
      for (const one of this.inner(element, walk)) if (one.kind !== 'text') level.add(one);
      return;
    }
    const shape = this.structure(element, tag, role, walk);
    if (shape !== null) {
      const takesNumber = shape.kind === 'row' || shape.kind === 'cell' || shape.kind === 'heading';
      if (evidence !== '' && takesNumber) {
        // A calendar's day that is a link within a clickable cell is one target.
        shape.ref = shape.kind === 'row' || textsIn(shape.children).length > 0 || refsIn(shape.children).length === 0;
        shape.states = statesOf(element, role, this.focused);
      } else if (evidence !== '' && shape.kind === 'item') {
        shape.children = this.clickable(element, shape.children, evidence, style);
      } else if (evidence !== '') {
        this.delegate(shape.children);
      }
      level.add(shape);
      return;
    }
    if (evidence !== '') {
      level.flush();
      for (const one of this.clickable(element, this.inner(element, walk), evidence, style)) level.add(one);
      return;
    }
    if (firstChild(element) === null && walk.visible && isSwatch(element)) {
      level.add(node('group', element, 'swatch', { detail: ` ${backgroundOf(element, style)}` }));
      return;
    }
    if (!inline) level.flush();
    this.children(element, level, walk);
    if (!inline) level.flush();
  }

  /** The node of an element whose structure carries meaning, else null. */
  structure(element, tag, role, walk) {
    switch (role) {
      case 'heading': {
        const children = this.inner(element, walk);
        const level = attribute(element, 'aria-level') ?? (/^h[1-6]$/.test(tag) ? tag[1] : '2');
        const one = node('heading', element, `heading ${level}`, { name: nameOf(element, role), children: refsIn(children) });
        return one.name === '' && one.children.length === 0 ? null : one;
      }
      case 'list': return node('list', element, 'list', { name: nameOf(element, role), children: this.inner(element, walk) });
      case 'listitem': return node('item', element, 'item', { children: this.inner(element, walk) });
      case 'table': case 'grid': case 'treegrid':
        return this.table(element, role, walk);
      case 'row': return node('row', element, 'row', { children: this.inner(element, walk) });
      case 'cell': case 'gridcell':
        return node('cell', element, 'cell', { children: this.inner(element, walk), states: statesOf(element, role, null) });
      case 'columnheader': case 'rowheader': return node('cell', element, 'header', { children: this.inner(element, walk) });
      case 'progressbar': case 'meter':
        return node('group', element, role, { name: nameOf(element, role), detail: rangeValue(element), states: rangeEnds(element) });
      case 'separator': return null;
      default: return this.group(element, role, walk);
    }
  }

  table(element, role, walk) {
    const name = nameOf(element, role);
    const children = withoutTitle(this.inner(element, walk), name);
    return node('table', element, role === 'table' ? 'table' : 'grid', { name, children });
  }

  group(element, role, walk) {
    if (!NAMED_GROUPS.has(role) && !ALWAYS_SHOWN.has(role)) return null;
    const name = nameOf(element, role);
    if (name === '' && !ALWAYS_SHOWN.has(role)) return null;
    const children = withoutTitle(this.inner(element, walk), name);
    if (children.length === 0) return null;
    if (role === 'dialog' || role === 'alertdialog') this.dialogs.push(name);
    return node('group', element, role, { name, children });
  }

  /** An element that a script makes clickable, with what is inside, as nodes. */
  clickable(element, inside, evidence, style) {
    const refs = refsIn(inside);
    const texts = textsIn(inside);
    const own = joined(texts);
    const label = nameOfGeneric(element);
    if (own === '' && refs.length === 0 && isEmpty(element)) return inside;
    // A page's container, or an element whose listener serves many others, is not a single target.
    const isFrame = own.length > MOST_OF_A_NAME || refs.length > MOST_INSIDE;
    if (isFrame || (evidence === 'weak' && refs.length === 0 && texts.length > 1)) return this.delegate(inside);
    if (refs.length > 0 && label === '' && (own === '' || evidence === 'drop')) return inside;
    const one = node('widget', element, 'clickable', { name: label || own, children: withoutEcho(refs, own) });
    return [this.finish(one, element, evidence, style)];
  }

  /** Of a list with one listener for all items, each text is something to click, if nothing else is. */
  delegate(nodes) {
    const texts = textsIn(nodes);
    if (refsIn(nodes).length === 0 && texts.length <= MOST_DELEGATED) {
      for (const text of texts) makeClickable(text, this.focused);
    }
    return nodes;
  }

  /** Gives a node a number, and the word for what can be done with it. */
  finish(one, element, evidence, style) {
    if (evidence === '') return one;
    one.ref = true;
    if (one.word === 'clickable' && localName(element) === 'a') one.word = 'link';
    if (evidence === 'drag') one.word = 'draggable';
    if (evidence === 'drop') one.word = 'dropzone';
    const control = localName(element) === 'label' ? attempt(() => element.control, null) : null;
    one.states = statesOf(isElement(control) ? control : element, isElement(control) ? roleOf(control) : 'clickable', this.focused);
    if (one.name === '') one.hint = hintOf(element, style);
    if (evidence === 'drag' || evidence === 'drop') one.detail += placeOf(element, false);
    return one;
  }

  // -- Pictures

  svg(element, tag, role, evidence, style, level, walk) {
    if (tag === 'defs' || tag === 'symbol' || tag === 'clipPath' || tag === 'mask' || tag === 'desc' || tag === 'metadata') return;
    const word = shapeWord(element, tag);
    const acts = evidence !== '' || (word !== undefined && listensTo(element, HOVER_EVENTS));
    if (role === 'link' || WIDGETS.has(role)) {
      const name = nameOf(element, role) || textOf(element);
      level.add(node('widget', element, role, { ref: !walk.inert, name, states: statesOf(element, role, this.focused) }));
      return;
    }
    if (tag === 'svg' || tag === 'g' || tag === 'foreignObject') {
      this.drawing(element, tag, evidence, level, walk);
      return;
    }
    if (word === undefined || !walk.visible || isEmpty(element)) return;
    if (!acts && !walk.drawing && tag !== 'text') return;
    const name = tag === 'text' ? textOf(element) : childText(element, 'title', { seen: new Set(), referenced: false });
    if (!acts && !walk.drawing) {
      level.addText(` ${name} `, walk.block);
      return;
    }
    level.add(this.shape(element, word, name, acts && !walk.inert, evidence));
  }

  shape(element, word, name, ref, evidence) {
    const box = boxOf(element);
    const isGroup = word === 'drawing' || word === 'group';
    const first = word === 'group' ? find(element, DRAWN_IN_GROUP) : isGroup ? null : element;
    const color = first === null ? '' : fillOf(first, computedStyle(first));
    const size = Math.max(box.width, box.height) < SMALL ? ' small' : ' large';
    const detail = `${color === '' ? '' : ` ${color}`}${isGroup ? '' : size}${placeOf(element, isGroup || !ref)}`;
    const states = element === this.focused ? ['focused'] : [];
    return node('widget', element, `${evidence === 'drag' ? 'draggable ' : ''}svg ${word}`, { ref, name: collapse(name), detail, states });
  }

  /** A whole drawing, or a group in it. One of the size of an icon is its name; of others, the shapes are shown. */
  drawing(element, tag, evidence, level, walk) {
    const box = boxOf(element);
    const isPicture = tag === 'svg' && box.width >= PICTURE && box.height >= PICTURE;
    const inside = this.inner(element, { ...walk, drawing: walk.drawing || isPicture, block: element });
    const shown = inside.length > MOST_SHAPES ? refsIn(inside) : inside;
    const name = nameOf(element, 'image');
    const acts = evidence !== '' && evidence !== 'drop';
    if (acts && refsIn(inside).length === 0) {
      const label = name || joined(textsIn(inside));
      const one = this.shape(element, tag === 'svg' ? 'drawing' : 'group', label, true, evidence);
      one.children = tag === 'svg' ? inside.filter((child) => child.kind !== 'text') : [];
      level.add(one);
      return;
    }
    if (tag === 'svg' && name !== '') level.add(node('group', element, 'image', { name, children: refsIn(shown) }));
    else for (const one of shown) level.add(one);
  }

  frame(element, walk) {
    const name = nameOf(element, 'iframe');
    const inner = frameDocument(element);
    if (inner === null || inner === undefined) return node('group', element, 'iframe', { name, states: ['other origin'] });
    return node('group', element, 'iframe', { name, children: this.document(inner, walk) });
  }

  /** Of closed details, the summary alone. */
  details(element, level, walk) {
    const children = childrenOf(element);
    const summary = children.find((child) => isElement(child) && localName(child) === 'summary');
    level.flush();
    if (hasAttribute(element, 'open')) this.children(element, level, walk);
    else if (summary !== undefined) this.element(summary, level, walk);
    level.flush();
  }
}

/** Most characters of the content that can be the name of a clickable element, and most elements to act on inside. */
const MOST_OF_A_NAME = 300;
const MOST_INSIDE = 12;
const MOST_DELEGATED = 50;
/** Drawings below this width or height are icons, of which no shapes are shown. */
const PICTURE = 48;
const MOST_SHAPES = 200;
/** Shapes below this width and height are called small. */
const SMALL = 16;
const MOST_CLASSES = 3;
const MOST_OPTIONS = 100;
const MOST_OF_A_VALUE = 4_000;
const FIELD_TAGS = words('input select textarea');

function isClippedAway(element, display, style) {
  if (display === 'inline' || style.overflowX === 'visible' || localName(element) === 'body') return false;
  const box = boxOf(element);
  return box.width === 0 || box.height === 0;
}

/** Lines have no width or no height; what has neither is not drawn. */
function isEmpty(element) {
  const box = boxOf(element);
  return box.width === 0 && box.height === 0;
}

/** Whether an element shows a colour and nothing else: one that the page gave to this element alone. */
function isSwatch(element) {
  const own = element.style?.backgroundColor;
  return own !== undefined && own !== '' && own !== 'transparent' && !isEmpty(element);
}

/** Whether the label's text is shown as the name of a field already. */
function namesShownControl(label) {
  const control = attempt(() => label.control, null);
  if (!isElement(control) || !isRendered(control, { visibilityProperty: true })) return false;
  return !hasAttribute(control, 'aria-label') && !hasAttribute(control, 'aria-labelledby');
}

function nameOfGeneric(element) {
  return nameIn(element, 'none', { seen: new Set(), referenced: false });
}

/** The nodes that have numbers, without the structure between them. */
function refsIn(nodes) {
  const refs = [];
  for (const one of nodes) {
    if (one.ref) refs.push(one);
    else refs.push(...refsIn(one.children));
  }
  return refs;
}

const labelOf = (one) => (one.kind === 'text' ? one.text : one.name);
const joined = (nodes) => nodes.map(labelOf).join(' ');

/** The nodes that are text, or stand for it, outside those that have numbers. */
function textsIn(nodes) {
  const texts = [];
  for (const one of nodes) {
    if (one.ref) continue;
    if (one.kind === 'text' || (one.name !== '' && (one.kind === 'heading' || one.word === 'image' || one.kind === 'widget'))) texts.push(one);
    if (one.kind !== 'heading') texts.push(...textsIn(one.children));
  }
  return texts;
}

/** A tab that is a link within is one thing to click, not two. */
const withoutEcho = (refs, name) => (refs.length === 1 && refs[0].name === name && name !== '' ? refs[0].children : refs);

const withoutTitle = (nodes, name) => {
  const title = nodes.findIndex((one) => one.kind === 'text' && one.text === name);
  return title < 0 ? nodes : nodes.filter((_, index) => index !== title);
};

function makeClickable(one, focused) {
  Object.assign(one, { ref: true, name: labelOf(one), states: one.element === focused ? ['focused'] : [] });
  if (one.kind === 'text') Object.assign(one, { kind: 'widget', word: 'clickable', text: '' });
}

/** What tells an element without a name from others: its colour, its classes or id, the file of its picture. */
function hintOf(element, style) {
  const classes = (attribute(element, 'class') ?? '').split(/\s+/).filter((one) => one !== '').slice(0, MOST_CLASSES).join('.');
  const id = attribute(element, 'id') ?? '';
  // Fields have similar colours, and their classes describe their look, not their purpose.
  const isField = FIELD_TAGS.has(localName(element));
  const color = isField ? '' : backgroundOf(element, style);
  const hints = [color, id === '' ? '' : `#${id}`, classes === '' || (isField && id !== '') ? '' : `.${classes}`];
  const source = localName(element) === 'img' ? attribute(element, 'src') ?? '' : '';
  // The address of a picture without a file is its content, or generated each time.
  const file = /^\s*(data|blob):/i.test(source) ? null : /([^/?#]+)(?:[?#].*)?$/.exec(source);
  if (file !== null) hints.push(file[1]);
  return hints.filter((hint) => hint !== '').map((hint) => ` ${hint.slice(0, 60)}`).join('');
}

function placeOf(element, withSize) {
  const box = boxOf(element);
  const { x, y } = inTop(documentOf(element), box.left + box.width / 2, box.top + box.height / 2);
  return ` at ${Math.round(x)},${Math.round(y)}${withSize ? ` size ${Math.round(box.width)}x${Math.round(box.height)}` : ''}`;
}

const valueDetail = (value) => (value === '' ? '' : ` = ${quoted(value.slice(0, MOST_OF_A_VALUE))}`);

/** The value of a field, with what can be chosen, and the range that it moves in. */
function detailOf(element, tag, word) {
  const of = (detail, range = []) => ({ detail, range });
  if (tag === 'select') return of(chosenDetail(chosenOptions(element)) + optionsDetail(element.options));
  if (word === 'slider' || word === 'spinbutton' || word === 'scrollbar') return of(rangeValue(element), rangeEnds(element));
  if (tag === 'input') {
    if (element.type === 'password') return of(element.value === '' ? '' : ` = "${'•'.repeat(Math.min(element.value.length, 100))}"`);
    if (element.type === 'file') return of(chosenDetail([...element.files].map((file) => file.name)));
    if (!FIELDS.has(word) || word === 'checkbox' || word === 'radio') return of('');
    return of(valueDetail(element.value) + (element.list ? optionsDetail(element.list.options) : ''));
  }
  if (tag === 'textarea' || FIELDS.has(word)) return of(word === 'checkbox' || word === 'radio' ? '' : valueDetail(fieldValue(element)));
  return of('');
}

const chosenDetail = (chosen) => (chosen.length === 0 ? '' : ` = ${chosen.map(quoted).join(', ')}`);

function optionsDetail(options) {
  const labels = [];
  for (let index = 0; index < options.length && index < MOST_OPTIONS; index += 1) {
    labels.push(quoted(optionLabel(options[index])) + (options[index].disabled ? ' (disabled)' : ''));
  }
  if (options.length > MOST_OPTIONS) labels.push(`and ${options.length - MOST_OPTIONS} more`);
  return labels.length === 0 ? '' : ` options: ${labels.join(', ')}`;
}

function rangeValue(element) {
  const tag = localName(element);
  const native = tag === 'input' || tag === 'progress' || tag === 'meter';
  const share = matches(element, LIBRARY_SLIDER) ? element.style.left || element.style.bottom : '';
  if (share !== '') return ` = ${Math.round(parseFloat(share))}%`;
  const value = attribute(element, 'aria-valuetext') ?? (native ? element.value : attribute(element, 'aria-valuenow') ?? '');
  return value === '' || value === null || (tag === 'progress' && element.position < 0) ? '' : ` = ${value}`;
}

function rangeEnds(element) {
  const tag = localName(element);
  const isRange = tag === 'progress' || tag === 'meter' || (tag === 'input' && element.type === 'range');
  const lowest = tag === 'progress' ? 0 : attribute(element, 'aria-valuemin') ?? attribute(element, 'min') ?? (isRange ? 0 : null);
  const highest = attribute(element, 'aria-valuemax') ?? attribute(element, 'max') ?? (isRange ? (tag === 'input' ? 100 : 1) : null);
  return lowest === null || highest === null || lowest === '' || highest === '' ? [] : [`${lowest} to ${highest}`];
}
