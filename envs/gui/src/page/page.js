// What the harness knows of a page: its accessibility tree as text, where elements are, what fields hold.
//
// One expression, whose value is the functions that the harness calls. It may run before the page's own scripts, which
// lets `hookListeners`, `hookRequests` and `hookTimers` see what those do, or at any time after. A frame that ran it
// too, and keeps its value under the same key, adds what it saw; other frames of the same origin are only read.
//
// I1. No function throws, whatever the page is. What cannot be read counts as not there.
// I2. Reading a page does not change it: no attribute, no style, no property, no event. `locate` may scroll.
// I3. The text depends on the document alone, not on how often it was observed: a number, once given to an element,
//     stays with it, and new elements get the next numbers in document order.
// I4. Forms whose fields have names such as `parentNode`, and pages that replace methods of DOM prototypes, are read
//     as all others are: what is read of nodes goes through the getters that were there when this ran.
//
// Units: CSS pixels of the top document's viewport; milliseconds.
// Source: HTML-AAM 1.0, Accessible Name and Description Computation 1.2, as Chromium has them. Deviations: elements
// that only scripts make clickable have roles of their own (`clickable`, `draggable`, `dropzone`).
(() => {
  'use strict';

  // ---- What this holds on to ----------------------------------------------------------------------------------

  /** The harness keeps the functions in `window` under this key, which is the same in all frames. */
  const KEY = Symbol.for('clawrl.page');
  const { apply } = Reflect;
  const method = (prototype, name) => {
    const native = prototype[name];
    return (self, ...rest) => apply(native, self, rest);
  };
  const getter = (prototype, name) => {
    const native = Object.getOwnPropertyDescriptor(prototype, name).get;
    return (self) => apply(native, self, []);
  };
  const firstChild = getter(Node.prototype, 'firstChild');
  const nextSibling = getter(Node.prototype, 'nextSibling');
  const parentNode = getter(Node.prototype, 'parentNode');
  const nodeType = getter(Node.prototype, 'nodeType');
  const isConnected = getter(Node.prototype, 'isConnected');
  const documentOf = getter(Node.prototype, 'ownerDocument');
  const rootOf = method(Node.prototype, 'getRootNode');
  // Pictures and forms with names such as `body` stand before what documents have.
  const bodyOf = getter(Document.prototype, 'body');
  const documentElementOf = getter(Document.prototype, 'documentElement');
  const activeIn = (root) => attempt(() => (nodeType(root) === DOCUMENT ? activeInDocument(root) : activeInShadow(root)), null);
  const activeInDocument = getter(Document.prototype, 'activeElement');
  const activeInShadow = getter(ShadowRoot.prototype, 'activeElement');
  const dataOf = getter(CharacterData.prototype, 'data');
  const localName = getter(Element.prototype, 'localName');
  const namespaceOf = getter(Element.prototype, 'namespaceURI');
  const shadowOf = getter(Element.prototype, 'shadowRoot');
  const slotOf = getter(Element.prototype, 'assignedSlot');
  const attribute = method(Element.prototype, 'getAttribute');
  const hasAttribute = method(Element.prototype, 'hasAttribute');
  const attributeNames = method(Element.prototype, 'getAttributeNames');
  const matches = method(Element.prototype, 'matches');
  const closest = method(Element.prototype, 'closest');
  const find = method(Element.prototype, 'querySelector');
  const boxOf = method(Element.prototype, 'getBoundingClientRect');
  const boxesOf = method(Element.prototype, 'getClientRects');
  const isRendered = method(Element.prototype, 'checkVisibility');
  const scrollIntoView = method(Element.prototype, 'scrollIntoView');
  const assignedNodes = method(HTMLSlotElement.prototype, 'assignedNodes');
  const isEditable = getter(HTMLElement.prototype, 'isContentEditable');
  const addListener = method(EventTarget.prototype, 'addEventListener');
  const dispatch = method(EventTarget.prototype, 'dispatchEvent');
  const computedStyle = window.getComputedStyle.bind(window);
  const nextFrame = window.requestAnimationFrame.bind(window);
  const startTimer = window.setTimeout.bind(window);
  const stopTimer = window.clearTimeout.bind(window);
  const now = performance.now.bind(performance);
  const { Event, MutationObserver, Promise } = window;

  const ELEMENT = 1;
  const TEXT = 3;
  const DOCUMENT = 9;
  const SVG = 'http://www.w3.org/2000/svg';
  const words = (text) => new Set(text.split(' '));

  const attempt = (read, otherwise) => {
    try {
      return read();
    } catch {
      return otherwise;
    }
  };
  /** Halves of characters, which cuts and odd pages leave, are no JSON. */
  const wellFormed = (text) => (text.isWellFormed?.() === false ? text.toWellFormed() : text);
  const collapse = (text) => wellFormed(text).replace(/[\s\u200b\ufeff]+/g, ' ').trim();
  const isElement = (node) => node !== null && node !== undefined && nodeType(node) === ELEMENT;
  /** The document of a frame, where it has the page's origin. */
  const frameDocument = (element) => attempt(() => element.contentDocument, null);

  /** Children as they are laid out: those of the open shadow root, and of slots what is put into them. */
  function childrenOf(node) {
    const shadow = nodeType(node) === ELEMENT ? shadowOf(node) : null;
    if (shadow === null && nodeType(node) === ELEMENT && localName(node) === 'slot') {
      const assigned = attempt(() => assignedNodes(node, { flatten: true }), []);
      if (assigned.length > 0) return assigned;
    }
    const children = [];
    for (let child = firstChild(shadow ?? node); child !== null; child = nextSibling(child)) children.push(child);
    return children;
  }

  /** The parent in the same sense; of a frame's document, the frame. */
  function parentOf(node) {
    const slot = nodeType(node) === ELEMENT ? slotOf(node) : null;
    const parent = slot ?? parentNode(node);
    if (parent === null) return null;
    if (nodeType(parent) === ELEMENT) return parent;
    if (parent.host !== undefined) return parent.host;
    return attempt(() => parent.defaultView.frameElement, null);
  }

  const isInside = (node, ancestor) => {
    for (let at = node; at !== null; at = parentOf(at)) if (at === ancestor) return true;
    return false;
  };

  // ---- Roles --------------------------------------------------------------------------------------------------

  const ROLES = words('alert alertdialog application article banner blockquote button caption cell checkbox code columnheader '
    + 'combobox comment complementary contentinfo definition deletion dialog document emphasis feed figure form generic grid '
    + 'gridcell group heading image img insertion link list listbox listitem log main mark marquee math menu menubar menuitem '
    + 'menuitemcheckbox menuitemradio meter navigation none note option paragraph presentation progressbar radio '
    + 'radiogroup region row rowgroup rowheader scrollbar search searchbox separator slider spinbutton status strong '
    + 'subscript suggestion superscript switch tab table tablist tabpanel term textbox time timer toolbar tooltip tree '
    + 'treegrid treeitem graphics-document graphics-object graphics-symbol');
  const ROLE_OF_TAG = {
    article: 'article', blockquote: 'blockquote', button: 'button', caption: 'caption', code: 'code', dd: 'definition',
    del: 'deletion', details: 'group', dfn: 'term', dialog: 'dialog', dt: 'term', em: 'emphasis', fieldset: 'group',
    figure: 'figure', h1: 'heading', h2: 'heading', h3: 'heading', h4: 'heading', h5: 'heading', h6: 'heading',
    hr: 'separator', ins: 'insertion', main: 'main', mark: 'mark', math: 'math', menu: 'list', meter: 'meter',
    nav: 'navigation', ol: 'list', optgroup: 'group', option: 'option', output: 'status', p: 'paragraph',
    progress: 'progressbar', s: 'deletion', search: 'search', strong: 'strong', sub: 'subscript', sup: 'superscript',
    summary: 'button', tbody: 'rowgroup', textarea: 'textbox', tfoot: 'rowgroup', thead: 'rowgroup', time: 'time',
    ul: 'list', address: 'group', hgroup: 'group', iframe: 'iframe', canvas: 'canvas',
    audio: 'audio', video: 'video',
  };
  const ROLE_OF_INPUT = {
    button: 'button', submit: 'button', reset: 'button', image: 'button', checkbox: 'checkbox', radio: 'radio',
    range: 'slider', number: 'spinbutton', search: 'searchbox', color: 'color', file: 'file', date: 'date', time: 'time',
    month: 'month', week: 'week', 'datetime-local': 'datetime', hidden: 'none',
  };
  const DRAWN_IN_GROUP = 'circle, ellipse, rect, polygon, path';
  const LIBRARY_SLIDER = '.ui-slider-handle';
  const DRAWN = words('circle ellipse rect line polyline polygon path');
  const SUGGESTING = words('text search email url tel');
  const SECTIONS = 'article, aside, main, nav, section';

  /** The role that the page's author wrote, if it is one. */
  function writtenRole(element) {
    const written = attribute(element, 'role');
    if (written === null) return matches(element, LIBRARY_SLIDER) ? 'slider' : null;
    for (const role of written.toLowerCase().split(/\s+/)) {
      if (!ROLES.has(role)) continue;
      if (role !== 'none' && role !== 'presentation') return role === 'img' ? 'image' : role;
      // What can be focused, or is described further, cannot be taken out of the tree.
      if (isFocusable(element) || hasAttribute(element, 'aria-label')) return null;
      return 'none';
    }
    return null;
  }

  function isFocusable(element) {
    if (hasAttribute(element, 'tabindex')) return true;
    const tag = localName(element);
    if (tag === 'a' || tag === 'area') return hasAttribute(element, 'href');
    return (tag === 'button' || tag === 'input' || tag === 'select' || tag === 'textarea') && !element.disabled;
  }

  const isNamed = (element) =>
    hasAttribute(element, 'aria-label') || hasAttribute(element, 'aria-labelledby') || hasAttribute(element, 'title');

  function roleOf(element) {
    const written = writtenRole(element);
    if (written !== null) return written;
    const tag = localName(element);
    if (namespaceOf(element) === SVG) {
      if (tag === 'svg') return 'image';
      if (tag === 'a') return 'link';
      return DRAWN.has(tag) ? 'graphics-symbol' : 'generic';
    }
    switch (tag) {
      case 'a': case 'area': return hasAttribute(element, 'href') ? 'link' : 'generic';
      case 'aside': return !closestAbove(element, SECTIONS) || isNamed(element) ? 'complementary' : 'generic';
      case 'header': return closestAbove(element, SECTIONS) ? 'generic' : 'banner';
      // A form without a name is no landmark, and nothing else.
      case 'form': return isNamed(element) ? 'form' : 'generic';
      case 'footer': return closestAbove(element, SECTIONS) ? 'generic' : 'contentinfo';
      case 'img': return attribute(element, 'alt') === '' && !isNamed(element) ? 'none' : 'image';
      case 'input': return roleOfInput(element);
      case 'li': return roleOfItem(element);
      case 'section': return isNamed(element) ? 'region' : 'generic';
      case 'select': return element.multiple || element.size > 1 ? 'listbox' : 'combobox';
      case 'table': case 'tr': case 'td': case 'th': return roleInTable(element, tag);
      default: return ROLE_OF_TAG[tag] ?? 'generic';
    }
  }

  const closestAbove = (element, selector) => {
    const parent = parentNode(element);
    return isElement(parent) ? closest(parent, selector) : null;
  };

  function roleOfInput(element) {
    const type = element.type;
    if (hasAttribute(element, 'list') && SUGGESTING.has(type)) return 'combobox';
    return ROLE_OF_INPUT[type] ?? 'textbox';
  }

  /** An item is one only within a list that has not been declared to be something else. */
  function roleOfItem(element) {
    const parent = parentNode(element);
    if (!isElement(parent)) return 'listitem';
    const role = writtenRole(parent);
    if (role === 'none') return 'none';
    return role === null || role === 'list' ? 'listitem' : 'none';
  }

  function roleInTable(element, tag) {
    const table = tag === 'table' ? element : closest(element, 'table');
    const role = table === null ? 'none' : writtenRole(table) ?? 'table';
    if (role === 'none') return tag === 'table' ? 'none' : 'generic';
    if (tag === 'table') return role;
    if (role !== 'table' && role !== 'grid' && role !== 'treegrid') return 'generic';
    if (tag === 'tr') return 'row';
    if (tag === 'td') return role === 'table' ? 'cell' : 'gridcell';
    const scope = attribute(element, 'scope');
    if (scope === 'row' || scope === 'rowgroup') return 'rowheader';
    if (scope === 'col' || scope === 'colgroup') return 'columnheader';
    // Without a scope it heads the column, unless cells of data stand beside it.
    return find(parentNode(element), ':scope > td') === null ? 'columnheader' : 'rowheader';
  }

  // ---- Names --------------------------------------------------------------------------------------------------

  const NAMED_BY_CONTENT = words('button cell checkbox columnheader gridcell heading link menuitem menuitemcheckbox '
    + 'menuitemradio option radio rowheader switch tab tooltip treeitem');
  const NOT_NAMED = words('caption code definition deletion emphasis generic insertion mark none paragraph strong subscript '
    + 'superscript term time');
  const UNSEEN_TAGS = words('script style template head meta link title base noscript datalist param source track col '
    + 'colgroup noframes area map rp');
  const NESTED = words('group menu tree');
  const LABELLED_TAGS = words('input select textarea button meter progress output');

  /** The accessible name. */
  function nameOf(element, role = roleOf(element)) {
    if (NOT_NAMED.has(role) && localName(element) !== 'input') return '';
    return nameIn(element, role, { seen: new Set(), referenced: false });
  }

  function nameIn(element, role, walk) {
    const tag = localName(element);
    const referenced = walk.referenced ? '' : namesOfIds(element, attribute(element, 'aria-labelledby'), walk);
    if (referenced !== '') return referenced;
    const label = collapse(attribute(element, 'aria-label') ?? '');
    if (label !== '') return label;
    if (role !== 'none') {
      const native = collapse(nativeName(element, tag, walk));
      if (native !== '') return native;
    }
    if (NAMED_BY_CONTENT.has(role)) {
      const content = collapse(contentOf(element, walk));
      if (content !== '') return content;
    }
    const title = collapse(attribute(element, 'title') ?? '');
    if (title !== '') return title;
    if (tag !== 'input' && tag !== 'textarea') return '';
    return collapse(attribute(element, 'placeholder') ?? attribute(element, 'aria-placeholder') ?? '');
  }

  function namesOfIds(element, ids, walk) {
    if (ids === null) return '';
    const root = rootOf(element);
    const names = [];
    for (const id of ids.split(/\s+/)) {
      const target = id === '' ? null : attempt(() => root.getElementById(id), null);
      if (target !== null && !walk.seen.has(target)) names.push(partOf(target, { ...walk, referenced: true }));
    }
    return collapse(names.join(' '));
  }

  /** The name by what HTML has for it. */
  function nativeName(element, tag, walk) {
    if (namespaceOf(element) === SVG) return childText(element, 'title', walk);
    if (tag === 'input') {
      const type = element.type;
      if (type === 'image') return attribute(element, 'alt') ?? attribute(element, 'value') ?? labelsOf(element, walk);
      if (type === 'submit' || type === 'reset' || type === 'button') {
        return labelsOf(element, walk) || (attribute(element, 'value') ?? { submit: 'Submit', reset: 'Reset', button: '' }[type]);
      }
    }
    if (LABELLED_TAGS.has(tag)) return labelsOf(element, walk);
    switch (tag) {
      case 'img': case 'area': return attribute(element, 'alt') ?? '';
      case 'fieldset': return childText(element, 'legend', walk);
      case 'table': return childText(element, 'caption', walk);
      case 'figure': return childText(element, 'figcaption', walk);
      case 'optgroup': case 'option': case 'track': return attribute(element, 'label') ?? '';
      default: return '';
    }
  }

  function labelsOf(element, walk) {
    const names = [];
    for (const label of labelsIn(rootOf(element)).get(element) ?? []) {
      if (!walk.seen.has(label)) names.push(partOf(label, { ...walk, seen: new Set([...walk.seen, element]), referenced: true }));
    }
    return names.join(' ');
  }

  /** Root → field → its labels. To ask each field for its labels would be to walk the whole page for each. */
  let labelsByRoot = new Map();

  function labelsIn(root) {
    if (labelsByRoot.has(root)) return labelsByRoot.get(root);
    const labels = new Map();
    const found = attempt(() => root.querySelectorAll('label'), []);
    for (let index = 0; index < found.length; index += 1) {
      const control = attempt(() => found[index].control, null);
      if (control !== null) labels.set(control, [...(labels.get(control) ?? []), found[index]]);
    }
    labelsByRoot.set(root, labels);
    return labels;
  }

  /** Forgets what was remembered of a page while it was read, which may change until it is read again. */
  function forget() {
    labelsByRoot = new Map();
    generatesByRoot = new Map();
  }

  function childText(element, tag, walk) {
    for (let child = firstChild(element); child !== null; child = nextSibling(child)) {
      if (nodeType(child) === ELEMENT && localName(child) === tag) return partOf(child, walk);
    }
    return '';
  }

  /** What an element adds to the name of another: its own name, the value of a field, or its content. */
  function partOf(element, walk) {
    if (walk.seen.has(element)) return '';
    walk.seen.add(element);
    const role = roleOf(element);
    const value = walk.referenced ? valueInName(element, role) : null;
    if (value !== null) return value;
    const name = nameIn(element, role, walk);
    return name !== '' ? name : contentOf(element, walk);
  }

  function valueInName(element, role) {
    if (role === 'textbox' || role === 'searchbox') return fieldValue(element);
    if (role === 'combobox' || role === 'listbox') return chosenOptions(element).join(' ') || fieldValue(element);
    if (role === 'slider' || role === 'spinbutton') {
      return String(attribute(element, 'aria-valuetext') ?? attribute(element, 'aria-valuenow') ?? element.value ?? '');
    }
    return null;
  }

  /** The content as it is seen, blocks apart from each other. */
  function contentOf(element, walk) {
    let text = pseudoText(element, '::before');
    for (const child of childrenOf(element)) {
      if (nodeType(child) === TEXT) text += dataOf(child);
      else if (nodeType(child) === ELEMENT) text += contentOfChild(child, walk);
    }
    return text + pseudoText(element, '::after');
  }

  function contentOfChild(child, walk) {
    const tag = localName(child);
    if (tag === 'br') return ' ';
    if (UNSEEN_TAGS.has(tag) || attribute(child, 'aria-hidden') === 'true') return '';
    // What opens below an item of a tree or menu is not part of its name.
    if (NESTED.has(attribute(child, 'role'))) return '';
    const style = computedStyle(child);
    if (style.display === 'none' || style.visibility !== 'visible') return '';
    const part = partOf(child, walk);
    return isInline(style.display) ? part : ` ${part} `;
  }

  const isInline = (display) => display.startsWith('inline') || display === 'contents' || display.startsWith('ruby') || display.endsWith('math');

  /** Whether any style sheet of a root adds content; few do, and to ask each element is slow. */
  let generatesByRoot = new Map();

  function generates(root) {
    if (!generatesByRoot.has(root)) {
      const sheets = attempt(() => [...root.styleSheets, ...root.adoptedStyleSheets], []);
      generatesByRoot.set(root, sheets.some((sheet) => attempt(() => rulesGenerate(sheet), true)));
    }
    return generatesByRoot.get(root);
  }

  /** Sheet → how many rules it had, and whether one of them adds content. */
  const generatingSheets = new WeakMap();

  function rulesGenerate(sheet) {
    const rules = sheet.cssRules;
    const known = generatingSheets.get(sheet);
    if (known !== undefined && known[0] === rules.length) return known[1];
    const any = [...rules].some((rule) => /:(before|after)/.test(rule.selectorText ?? rule.cssText));
    generatingSheets.set(sheet, [rules.length, any]);
    return any;
  }

  /** Text that a style sheet adds; symbols of icon fonts say nothing. */
  function pseudoText(element, which) {
    if (!generates(rootOf(element))) return '';
    const { content } = computedStyle(element, which);
    if (content === 'none' || content === 'normal' || content === '') return '';
    const quoted = /"((?:[^"\\]|\\.)*)"\s*$/.exec(content);
    return quoted === null ? '' : quoted[1].replace(/\\(.)/g, '$1').replace(/[\ue000-\uf8ff]/g, '');
  }

  // ---- Values and states --------------------------------------------------------------------------------------

  const fieldValue = (element) => {
    const tag = localName(element);
    if (tag === 'input' || tag === 'textarea') return element.value;
    if (tag === 'select') return element.value;
    // What only looks like a field shows its value as its content.
    return attribute(element, 'aria-valuetext') ?? attempt(() => textOf(element), '');
  };

  const optionLabel = (option) => collapse(option.label || option.text || '');

  function chosenOptions(element) {
    if (localName(element) !== 'select') return [];
    const chosen = [];
    for (const option of element.selectedOptions) chosen.push(optionLabel(option));
    return chosen;
  }

  /** The seen text of an element, white space as single spaces. */
  function textOf(element) {
    const parts = [];
    const visit = (node) => {
      if (nodeType(node) === TEXT) parts.push(dataOf(node));
      if (nodeType(node) !== ELEMENT) return;
      const tag = localName(node);
      if (tag === 'br') parts.push(' ');
      if (UNSEEN_TAGS.has(tag) || tag === 'textarea' || tag === 'select') return;
      const style = computedStyle(node);
      if (style.display === 'none' && node !== element) return;
      const block = !isInline(style.display);
      if (block) parts.push(' ');
      for (const child of childrenOf(node)) {
        if (nodeType(child) !== TEXT || style.visibility === 'visible' || style.visibility === '') visit(child);
      }
      if (block) parts.push(' ');
    };
    visit(element);
    return collapse(parts.join(''));
  }

  const isTrue = (element, name) => attribute(element, name) === 'true';

  function isDisabled(element) {
    return attempt(() => matches(element, ':disabled'), false) || isTrue(element, 'aria-disabled');
  }

  function isChecked(element) {
    if (localName(element) === 'input') return element.checked;
    if (localName(element) === 'option') return element.selected;
    return isTrue(element, 'aria-checked') || isTrue(element, 'aria-selected');
  }

  /** The element that has the focus, through shadow roots and frames. */
  function focusedElement() {
    let focused = activeIn(document);
    for (;;) {
      const root = focused === null ? null : shadowOf(focused) ?? frameDocument(focused) ?? null;
      const inner = root === null ? null : activeIn(root);
      if (inner === null) return focused;
      focused = inner;
    }
  }

  const CHECKABLE = words('checkbox radio switch menuitemcheckbox menuitemradio option treeitem');
  const FIELDS = words('textbox searchbox combobox spinbutton date time month week datetime listbox checkbox radio file color');

  function statesOf(element, role, focused) {
    const states = [];
    const add = (condition, word) => {
      if (condition) states.push(word);
    };
    if (CHECKABLE.has(role)) {
      const mixed = attribute(element, 'aria-checked') === 'mixed' || (localName(element) === 'input' && element.indeterminate);
      if (mixed) states.push('mixed');
      else add(localName(element) === 'input' ? element.checked : isTrue(element, 'aria-checked'), 'checked');
    }
    add(isTrue(element, 'aria-selected'), 'selected');
    add(isTrue(element, 'aria-pressed'), 'pressed');
    const expanded = expansionOf(element);
    add(expanded === true, 'expanded');
    add(expanded === false, 'collapsed');
    const current = attribute(element, 'aria-current');
    const popup = attribute(element, 'aria-haspopup');
    add(popup !== null && popup !== '' && popup !== 'false', 'popup');
    add(current !== null && current !== '' && current !== 'false', 'current');
    add(element === focused, 'focused');
    add(isDisabled(element), 'disabled');
    if (FIELDS.has(role)) {
      add(localName(element) === 'textarea' || isTrue(element, 'aria-multiline'), 'multiline');
      add(element.type === 'password', 'password');
      add(isTrue(element, 'aria-readonly') || attempt(() => element.readOnly === true, false), 'readonly');
      add(isTrue(element, 'aria-required') || attempt(() => element.required === true, false), 'required');
      const invalid = attribute(element, 'aria-invalid');
      add((invalid !== null && invalid !== 'false' && invalid !== '') || attempt(() => matches(element, ':user-invalid'), false), 'invalid');
    }
    return states;
  }

  function expansionOf(element) {
    if (localName(element) === 'summary') {
      const details = parentNode(element);
      return isElement(details) && localName(details) === 'details' ? hasAttribute(details, 'open') : null;
    }
    const expanded = attribute(element, 'aria-expanded');
    return expanded === 'true' ? true : expanded === 'false' ? false : null;
  }

  // ---- Colours and shapes -------------------------------------------------------------------------------------

  /** Where each hue ends, in degrees. */
  const HUES = [[15, 'red'], [45, 'orange'], [70, 'yellow'], [165, 'green'], [195, 'cyan'], [255, 'blue'], [285, 'purple'],
    [330, 'magenta'], [360, 'red']];
  const NO_COLORS = words('inherit initial unset revert currentcolor transparent none auto');

  /** A colour in words: the author's own word where there is one. */
  function colorWord(computed, written) {
    const word = (written ?? '').toLowerCase();
    if (/^[a-z]+$/.test(word) && !NO_COLORS.has(word)) return word;
    const numbers = /^rgba?\(([^)]*)\)/.exec(computed);
    if (numbers === null) return '';
    const [red, green, blue, alpha = 1] = numbers[1].split(/[\s,/]+/).map(Number);
    if (alpha === 0) return '';
    const most = Math.max(red, green, blue) / 255;
    const least = Math.min(red, green, blue) / 255;
    const light = (most + least) / 2;
    const range = most - least;
    if (light < 0.08) return 'black';
    if (light > 0.95) return 'white';
    if (range / (1 - Math.abs(2 * light - 1)) < 0.12) return light < 0.35 ? 'dark grey' : light > 0.75 ? 'light grey' : 'grey';
    const hue = HUES.find(([end]) => hueOf(red, green, blue) <= end)[1];
    return light < 0.3 ? `dark ${hue}` : light > 0.7 ? `light ${hue}` : hue;
  }

  /** Degrees from 0 to 360. */
  function hueOf(red, green, blue) {
    const most = Math.max(red, green, blue);
    const range = most - Math.min(red, green, blue);
    if (most === red) return (((green - blue) / range + 6) % 6) * 60;
    return most === green ? ((blue - red) / range + 2) * 60 : ((red - green) / range + 4) * 60;
  }

  const SHAPES = { circle: 'circle', ellipse: 'ellipse', rect: 'rectangle', line: 'line', polyline: 'line', polygon: 'polygon',
    path: 'path', text: 'text', image: 'image', use: 'symbol', g: 'group' };

  function shapeWord(element, tag) {
    if (tag === 'polygon' && attempt(() => element.points.numberOfItems, 0) === 3) return 'triangle';
    return SHAPES[tag];
  }

  const fillOf = (element, style) => {
    const fill = colorWord(style.fill, element.style?.fill || attribute(element, 'fill'));
    return fill || colorWord(style.stroke, element.style?.stroke || attribute(element, 'stroke'));
  };

  const backgroundOf = (element, style) => colorWord(style.backgroundColor, element.style?.backgroundColor || element.style?.background);

  // ---- What scripts did, as far as hooks saw it -----------------------------------------------------------------

  const PRESS_EVENTS = words('click dblclick contextmenu mousedown mouseup pointerdown pointerup touchstart touchend');
  const HOVER_EVENTS = words('mouseover mouseenter pointerover pointerenter');
  const DROP_EVENTS = words('drop dragover');
  const HANDLERS = ['onclick', 'onmousedown', 'onmouseup', 'ondblclick', 'oncontextmenu', 'onpointerdown', 'onpointerup', 'ontouchstart'];

  /** Element → event → listeners; only what tells that an element can be pressed, hovered over or dropped on. */
  const listeners = new WeakMap();

  const listensTo = (element, events) => {
    const own = listeners.get(element) ?? frameApi(element)?.listenersOf(element);
    if (own === undefined) return false;
    for (const [event, all] of own) if (all.size > 0 && events.has(event)) return true;
    return false;
  };

  const frameApi = (element) => {
    const view = documentOf(element)?.defaultView;
    return view && view !== window ? attempt(() => view[KEY], undefined) : undefined;
  };

  const hooked = new Set();
  const once = (name, hook) => {
    if (hooked.has(name)) return false;
    hooked.add(name);
    attempt(hook);
    return true;
  };

  /** Puts a proxy before a function: pages see the same name, length, properties and source text. */
  function wrap(owner, name, around) {
    const native = owner[name];
    if (typeof native !== 'function') return;
    const descriptor = Object.getOwnPropertyDescriptor(owner, name);
    const handler = { apply: (target, self, args) => around(() => apply(target, self, args), self, args) };
    Object.defineProperty(owner, name, { ...descriptor, value: new Proxy(native, handler) });
  }

  /** Sees from now on which elements listen to the pointer. */
  const hookListeners = () => once('listeners', () => {
    wrap(EventTarget.prototype, 'addEventListener', (call, self, args) => {
      const result = call();
      attempt(() => noteListener(self, String(args[0]), args[1]));
      return result;
    });
    wrap(EventTarget.prototype, 'removeEventListener', (call, self, args) => {
      const result = call();
      attempt(() => listeners.get(self)?.get(String(args[0]))?.delete(args[1]));
      return result;
    });
  });

  function noteListener(target, event, listener) {
    if (!listener || !(PRESS_EVENTS.has(event) || HOVER_EVENTS.has(event) || DROP_EVENTS.has(event))) return;
    if (nodeType(target) !== ELEMENT) return;
    if (!listeners.has(target)) listeners.set(target, new Map());
    const own = listeners.get(target);
    if (!own.has(event)) own.set(event, new Set());
    own.get(event).add(listener);
  }

  /** What the page waits for: requests, and timers that answer the user's last input. */
  let pending = 0;
  const beginWait = () => {
    let open = true;
    pending += 1;
    return () => {
      if (open) pending -= 1;
      open = false;
    };
  };

  /** Counts from now on requests in flight, and bodies of answers that are being read. */
  const hookRequests = () => once('requests', () => {
    const counted = (call) => {
      const end = beginWait();
      try {
        const promise = call();
        promise.then(end, end);
        return promise;
      } catch (error) {
        end();
        throw error;
      }
    };
    wrap(window, 'fetch', counted);
    for (const read of ['json', 'text', 'arrayBuffer', 'blob', 'formData']) wrap(Response.prototype, read, counted);
    wrap(XMLHttpRequest.prototype, 'send', (call, self) => {
      const end = beginWait();
      attempt(() => addListener(self, 'loadend', end, { once: true }));
      try {
        return call();
      } catch (error) {
        end();
        throw error;
      }
    });
  });

  /** How soon after an input a timer has to be set, and how soon it has to be due, to be an answer to the input. */
  const ANSWER_SET_WITHIN = 100;
  const ANSWER_DUE_WITHIN = 500;

  /** Counts from now on timers that answer an input: a field that waits until typing stops, a menu that opens late. */
  const hookTimers = () => once('timers', () => {
    let lastInput = -Infinity;
    const ends = new Map();
    for (const event of ['keydown', 'keyup', 'input', 'mousedown', 'mouseup', 'click', 'mousemove', 'mouseover']) {
      addListener(window, event, (given) => { if (given.isTrusted) lastInput = now(); }, { capture: true, passive: true });
    }
    wrap(window, 'setTimeout', (call, self, args) => {
      const [callback, delay] = args;
      if (typeof callback !== 'function' || !(delay >= 0 && delay <= ANSWER_DUE_WITHIN) || now() - lastInput > ANSWER_SET_WITHIN) return call();
      const end = beginWait();
      let id;
      args[0] = function answer(...rest) {
        ends.delete(id);
        try {
          return apply(callback, this, rest);
        } finally {
          end();
        }
      };
      id = call();
      ends.set(id, end);
      return id;
    });
    for (const stop of ['clearTimeout', 'clearInterval']) {
      wrap(window, stop, (call, self, args) => {
        ends.get(args[0])?.();
        ends.delete(args[0]);
        return call();
      });
    }
  });

  // ---- What can be acted on -------------------------------------------------------------------------------------

  const WIDGETS = words('button checkbox color combobox date datetime file link listbox menuitem menuitemcheckbox menuitemradio '
    + 'month option radio scrollbar searchbox slider spinbutton switch tab textbox treeitem week');
  const CONTAINERS = words('alertdialog application article banner complementary contentinfo dialog document feed figure form grid group '
    + 'list log main menu menubar navigation none radiogroup region search table tablist tabpanel toolbar tree treegrid');
  // jQuery UI says by class names alone what other libraries say by roles.
  const LIBRARY_DRAGGABLE = '.ui-draggable, .ui-sortable-handle';
  const LIBRARY_DROPZONE = '.ui-droppable';

  /**
   * Why an element can be acted on: `widget` by its role, `text` as editable content, `drag`, `drop`, `strong` as the
   * page shows it, `weak` if only a listener tells, which may be there for what is inside. Empty if nothing tells.
   */
  function evidenceOf(element, tag, role, style, walk) {
    if (walk.inert || tag === 'body' || tag === 'html') return '';
    if (tag === 'canvas' || ((tag === 'video' || tag === 'audio') && hasAttribute(element, 'controls'))) return 'widget';
    if (WIDGETS.has(role) && !(role === 'listbox' && tag !== 'select')) return 'widget';
    if (role === 'time' && tag === 'input') return 'widget';
    if (isEditingHost(element)) return 'text';
    const draggable = attribute(element, 'draggable') === 'true' || matches(element, LIBRARY_DRAGGABLE);
    const { cursor } = style;
    if (draggable || ((cursor === 'move' || cursor === 'grab' || cursor.endsWith('-resize')) && walk.cursor !== cursor)) return 'drag';
    if (HANDLERS.some((handler) => typeof element[handler] === 'function')) return 'strong';
    if (cursor === 'pointer' && walk.cursor !== 'pointer') return 'strong';
    const tabindex = attribute(element, 'tabindex');
    if (tabindex !== null && Number(tabindex) >= 0 && !CONTAINERS.has(role)) return 'strong';
    if (tag === 'label' && hidesControl(element)) return 'strong';
    if (listensTo(element, PRESS_EVENTS)) return 'weak';
    if (listensTo(element, DROP_EVENTS) || matches(element, LIBRARY_DROPZONE)) return 'drop';
    return '';
  }

  function isEditingHost(element) {
    const editable = attribute(element, 'contenteditable');
    return editable !== null && editable.toLowerCase() !== 'false' && attempt(() => isEditable(element), false);
  }

  /** Whether the label stands for a control that is not shown itself. */
  function hidesControl(label) {
    const control = attempt(() => label.control, null);
    return isElement(control) && control.type !== 'hidden' && !isRendered(control, { visibilityProperty: true });
  }

  // ---- The tree that is shown -----------------------------------------------------------------------------------

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
      if (display === 'none' || isClippedAway(element, style)) return;
      const inline = isInline(display);
      const visible = style.visibility === 'visible';
      const walk = { ...outer, visible, cursor: style.cursor, block: inline ? outer.block : element, inert: outer.inert && element !== outer.modal };
      if (this.special(element, tag, level, walk)) return;
      const role = roleOf(element);
      const evidence = visible ? evidenceOf(element, tag, role, style, { ...walk, cursor: outer.cursor }) : '';
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
      // A field that cannot be acted on now; its options are no text.
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
          // A day of a calendar that is a link within a cell that listens is one thing to click.
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
      // A page's frame, or the place where one listener serves many elements, is not one thing to click.
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

  function isClippedAway(element, style) {
    if (style.overflowX === 'visible' || style.display === 'inline' || localName(element) === 'body') return false;
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
    // Fields are all of about the same colour, and their classes say how they look, not what they are for.
    const isField = FIELD_TAGS.has(localName(element));
    const color = isField ? '' : backgroundOf(element, style);
    const hints = [color, id === '' ? '' : `#${id}`, classes === '' || (isField && id !== '') ? '' : `.${classes}`];
    const file = /([^/?#]+)(?:[?#].*)?$/.exec(localName(element) === 'img' ? attribute(element, 'src') ?? '' : '');
    if (file !== null && !file[0].startsWith('data:')) hints.push(file[1]);
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

  // ---- The text -------------------------------------------------------------------------------------------------

  const quoted = (text) => `"${text.replace(/[\\"]/g, '\\$&').replace(/\r?\n/g, '\\n')}"`;

  /** Element → number, and back. Elements are not kept alive by their numbers. */
  const numbers = new WeakMap();
  const numbered = [null];
  /** Element → what it was called when it was last shown. */
  const descriptions = new WeakMap();
  /** What has a number in the text that was shown last, in its order: `{number, word, name, description}`. */
  let shown = [];

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
   */
  function observe(options) {
    forget();
    const observation = new Observation(options ?? {});
    const page = new Page(observation.textRefs);
    const nodes = attempt(() => observation.document(document, { inert: false, drawing: false }), []);
    attempt(() => page.write(nodes, ''));
    ({ shown } = page);
    forget();
    const root = document.scrollingElement ?? documentElementOf(document);
    return {
      url: String(document.URL),
      title: attempt(() => collapse(String(document.title)), ''),
      text: wellFormed(page.lines.join('\n')),
      refs: page.refs,
      truncated: observation.truncated,
      unread: observation.unread,
      dialogs: observation.dialogs,
      focused: observation.focused === null ? null : numbers.get(observation.focused) ?? null,
      scroll: !root ? [0, 0] : [Math.round(root.scrollTop), Math.max(0, root.scrollHeight - root.clientHeight)],
    };
  }

  // ---- Where elements are ---------------------------------------------------------------------------------------

  /** The element of a number, or null if it is no longer in the page. */
  function elementOf(ref) {
    const element = numbered[ref]?.deref() ?? null;
    return element !== null && isShownDocument(element) ? element : null;
  }

  /** A heading's level is part of its word, and need not be said. */
  const isCalled = (word, role) => word === role || (role === 'heading' && /^heading \d$/.test(word));
  const MOST_NEAR = 5;

  /**
   * The number of what the text that was shown last calls so: by its name, the word before it unless that is null, and, of
   * several, its place from 1. Else what is called nearly so, or which ones are.
   */
  function resolve(role, name, place) {
    const wanted = collapse(name);
    const word = role === null ? null : collapse(role).toLowerCase();
    const hasWord = (one) => word === null || isCalled(one.word, word);
    const found = shown.filter((one) => one.name === wanted && hasWord(one));
    if (place !== null && found.length > 0) {
      return place <= found.length ? { number: found[place - 1].number } : { error: 'place', count: found.length };
    }
    if (found.length === 1) return { number: found[0].number };
    if (found.length > 1) return { error: 'several', numbers: found.map((one) => one.number) };
    const part = wanted.toLowerCase();
    const contains = (one) => part !== '' && one.name.toLowerCase().includes(part);
    const near = [...new Set([...shown.filter((one) => contains(one) && hasWord(one)), ...shown.filter(contains),
      ...shown.filter((one) => word !== null && hasWord(one))])];
    return { error: 'none', near: near.slice(0, MOST_NEAR).map((one) => wellFormed(one.description)) };
  }

  /** Whether the element is in the document, or in that of a frame that is still in it. */
  function isShownDocument(element) {
    let at = element;
    for (;;) {
      if (!isConnected(at)) return false;
      const owner = documentOf(at);
      if (owner === document) return true;
      const frame = attempt(() => owner.defaultView.frameElement, null);
      if (!isElement(frame)) return false;
      at = frame;
    }
  }

  /** Coordinates of a document, in the top document's. */
  function inTop(inside, x, y) {
    let point = { x, y };
    for (let at = inside; at !== document; ) {
      const frame = attempt(() => at.defaultView.frameElement, null);
      if (!isElement(frame)) break;
      const { left, top, scaleX, scaleY } = contentOfFrame(frame);
      point = { x: left + point.x * scaleX, y: top + point.y * scaleY };
      at = documentOf(frame);
    }
    return point;
  }

  /** Where a frame's content begins, and how much larger it is drawn. */
  function contentOfFrame(frame) {
    const box = boxOf(frame);
    const style = computedStyle(frame);
    const scaleX = frame.offsetWidth > 0 ? box.width / frame.offsetWidth : 1;
    const scaleY = frame.offsetHeight > 0 ? box.height / frame.offsetHeight : 1;
    const left = box.left + (frame.clientLeft + parseFloat(style.paddingLeft)) * scaleX;
    const top = box.top + (frame.clientTop + parseFloat(style.paddingTop)) * scaleY;
    return { left, top, scaleX, scaleY };
  }

  /** The innermost element that a click at a point of the top document's viewport meets. */
  function elementAt(x, y) {
    let hit = document.elementFromPoint(x, y);
    let inner = { x, y };
    while (hit !== null) {
      const frame = frameDocument(hit);
      const shadow = shadowOf(hit);
      if (frame) {
        const { left, top, scaleX, scaleY } = contentOfFrame(hit);
        inner = { x: (inner.x - left) / scaleX, y: (inner.y - top) / scaleY };
      }
      const next = (frame ?? shadow)?.elementFromPoint(inner.x, inner.y) ?? null;
      if (next === null || next === hit) return hit;
      hit = next;
    }
    return null;
  }

  /** Places within a box to try, as shares of its width and height: the middle, then around it, then near the edges. */
  const PLACES = [[0.5, 0.5], [0.3, 0.5], [0.7, 0.5], [0.5, 0.3], [0.5, 0.7], [0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75],
    [0.1, 0.5], [0.9, 0.5], [0.5, 0.1], [0.5, 0.9], [0.1, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.9]];
  const MOST_BOXES = 4;

  function placesOf(element) {
    const places = [];
    const boxes = boxesOf(element);
    for (let index = 0; index < boxes.length && index < MOST_BOXES; index += 1) {
      const box = boxes[index];
      if (box.width === 0 || box.height === 0) continue;
      for (const [across, down] of PLACES) {
        const { x, y } = inTop(documentOf(element), box.left + box.width * across, box.top + box.height * down);
        places.push({ x: Math.floor(x), y: Math.floor(y) });
      }
    }
    return places;
  }

  const isInView = ({ x, y }) => x >= 0 && y >= 0 && x < window.innerWidth && y < window.innerHeight;

  /** Whether a click on what was hit is one on the element, through a label of it too. */
  function isHitOf(element, hit) {
    if (hit === null) return false;
    if (isInside(hit, element)) return true;
    const label = closest(hit, 'label');
    return label !== null && attempt(() => label.control, null) === element;
  }

  /** The nearest element with a number, from inside out. */
  function numberedAbove(element) {
    for (let at = element; at !== null; at = parentOf(at)) if (numbers.has(at)) return at;
    return null;
  }

  /** The first place where a click meets the element, best one that no other numbered element takes. */
  function hitPlace(element, targets) {
    let taken = null;
    for (const place of targets.flatMap(placesOf)) {
      if (!isInView(place)) continue;
      const hit = elementAt(place.x, place.y);
      if (!isHitOf(element, hit)) continue;
      if (numberedAbove(hit) === element || !isInside(hit, element)) return place;
      taken ??= place;
    }
    return taken;
  }

  /** Where to click an element; scrolls it into view if it is not. */
  function locate(ref) {
    const element = elementOf(ref);
    if (element === null) return { error: 'gone' };
    return attempt(() => {
      if (!isRendered(element, { visibilityProperty: true })) return { error: 'hidden' };
      // A field that is drawn by its label is clicked there.
      const targets = [element, ...(attempt(() => element.labels, null) ?? [])];
      const shown = targets.find((target) => placesOf(target).length > 0);
      if (shown === undefined) return { error: 'hidden' };
      let place = isInView(placesOf(shown)[0]) ? hitPlace(element, targets) : null;
      if (place === null) {
        scrollIntoView(shown, { behavior: 'instant', block: 'center', inline: 'center' });
        place = hitPlace(element, targets);
      }
      if (place === null) return coveredAt(shown);
      return { ...place, ...boxInTop(element), disabled: isDisabled(element) };
    }, { error: 'hidden' });
  }

  function coveredAt(element) {
    const place = placesOf(element).find(isInView);
    const hit = place === undefined ? null : elementAt(place.x, place.y);
    return hit === null ? { error: 'hidden' } : { error: 'covered', by: described(hit) };
  }

  function boxInTop(element) {
    const box = boxOf(element);
    const start = inTop(documentOf(element), box.left, box.top);
    const end = inTop(documentOf(element), box.right, box.bottom);
    return { left: Math.round(start.x), top: Math.round(start.y), width: Math.round(end.x - start.x), height: Math.round(end.y - start.y) };
  }

  /** An element in words, or the first above it that has some. */
  function described(element) {
    forget();
    for (let at = element; at !== null; at = parentOf(at)) {
      if (descriptions.has(at)) return descriptions.get(at);
      const role = roleOf(at);
      const name = nameOf(at, role);
      if (name !== '' && role !== 'document') return `${role} ${quoted(name)}`;
    }
    return `${localName(element)}${hintOf(element, computedStyle(element))}`;
  }

  /** Where a text within an element starts and ends, to select it by dragging; all its text if none is given. */
  function span(ref, text) {
    const element = elementOf(ref);
    if (element === null) return { error: 'gone' };
    return attempt(() => {
      const range = rangeOf(element, text ?? null);
      if (range === null) return { error: 'missing' };
      // To press on what is selected already would be to drag it away.
      documentOf(element).defaultView.getSelection().removeAllRanges();
      scrollIntoView(element, { behavior: 'instant', block: 'nearest', inline: 'nearest' });
      const boxes = [...range.getClientRects()].filter((box) => box.width > 0 && box.height > 0);
      if (boxes.length === 0) return { error: 'hidden' };
      const last = boxes[boxes.length - 1];
      const owner = documentOf(element);
      const point = (x, y) => {
        const top = inTop(owner, x, y);
        return { x: Math.round(top.x), y: Math.round(top.y) };
      };
      return { start: point(boxes[0].left, boxes[0].top + boxes[0].height / 2), end: point(last.right, last.top + last.height / 2) };
    }, { error: 'hidden' });
  }

  /** The range of a text, whose white space may differ from the page's, or of all text of the element. */
  function rangeOf(element, text) {
    const owner = documentOf(element);
    const walker = owner.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const places = [];
    let seen = '';
    for (let at = walker.nextNode(); at !== null; at = walker.nextNode()) {
      const data = dataOf(at);
      for (let index = 0; index < data.length; index += 1) {
        const isSpace = /\s/.test(data[index]);
        if (isSpace && (seen === '' || seen.endsWith(' '))) continue;
        seen += isSpace ? ' ' : data[index];
        places.push([at, index]);
      }
    }
    const sought = text === null ? seen.trimEnd() : collapse(text);
    const start = seen.indexOf(sought);
    if (start < 0 || sought === '') return null;
    const range = owner.createRange();
    range.setStart(...places[start]);
    const [last, offset] = places[start + sought.length - 1];
    range.setEnd(last, offset + 1);
    return range;
  }

  // ---- Fields ---------------------------------------------------------------------------------------------------

  const TYPED_KINDS = words('text search email url tel password number');
  const SET_KINDS = words('date time month week datetime-local color range');

  function kindOf(element) {
    const tag = localName(element);
    if (tag === 'input') return element.type;
    if (tag === 'textarea') return 'text';
    if (tag === 'select') return 'select';
    return attempt(() => isEditable(element), false) ? 'text' : 'none';
  }

  /** Runs `act` with an element that can be changed, or says why it cannot. */
  function withElement(ref, act) {
    const element = elementOf(ref);
    if (element === null) return { error: 'gone' };
    return attempt(() => (isDisabled(element) ? { error: 'disabled' } : act(element, kindOf(element))), { error: 'hidden' });
  }

  /** Prepares an element for typing: gives it the focus, the caret behind what it holds. */
  function ready(ref) {
    return withElement(ref, (element, kind) => {
      element.focus({ preventScroll: false });
      const typed = TYPED_KINDS.has(kind);
      if (typed && kind !== 'number' && kind !== 'email') moveCaretToEnd(element);
      return { ok: focusedElement() === element, kind, editable: typed && element.readOnly !== true };
    });
  }

  function moveCaretToEnd(element) {
    if (localName(element) === 'input' || localName(element) === 'textarea') {
      attempt(() => element.setSelectionRange(element.value.length, element.value.length));
    } else {
      const selection = documentOf(element).defaultView.getSelection();
      selection.selectAllChildren(element);
      selection.collapseToEnd();
    }
  }

  /** Selects all that a field holds, so that what is typed next takes its place. */
  function clear(ref) {
    return withElement(ref, (element, kind) => {
      if (!TYPED_KINDS.has(kind)) return { error: 'kind', kind };
      element.focus();
      if (localName(element) === 'input' || localName(element) === 'textarea') element.select();
      else documentOf(element).defaultView.getSelection().selectAllChildren(element);
      return { ok: true, kind, empty: fieldValue(element) === '' };
    });
  }

  const changed = (element) => {
    dispatch(element, new Event('input', { bubbles: true, composed: true }));
    dispatch(element, new Event('change', { bubbles: true }));
  };

  const EXAMPLES = { date: '2031-02-28', time: '14:30', month: '2031-02', week: '2031-W09', 'datetime-local': '2031-02-28T14:30',
    color: '#ff8800', range: '50' };

  /** Sets a field whose value is picked, not typed, as a user's choice would. */
  function setValue(ref, value) {
    return withElement(ref, (element, kind) => {
      if (!SET_KINDS.has(kind)) return { error: 'kind', kind };
      if (element.readOnly === true) return { error: 'readonly' };
      const before = element.value;
      element.focus();
      // Frameworks put their own setter on the element; the prototype's is the one that a user's choice goes through.
      const { set } = Object.getOwnPropertyDescriptor(documentOf(element).defaultView.HTMLInputElement.prototype, 'value');
      apply(set, element, [String(value)]);
      // What cannot be read becomes empty, black, or the middle.
      const isRead = { range: !Number.isNaN(Number(value)), color: /^#[0-9a-f]{6}$/i.test(value) }[kind] ?? element.value !== '';
      if (!isRead && String(value) !== '') {
        apply(set, element, [before]);
        return { error: 'value', kind, example: EXAMPLES[kind] };
      }
      if (element.value !== before) changed(element);
      return { ok: true, kind, value: element.value };
    });
  }

  /** Chooses options of a select by their labels, or else by their values. */
  function choose(ref, wanted) {
    return withElement(ref, (element, kind) => {
      if (kind !== 'select') return { error: 'kind', kind };
      const options = [...element.options];
      const labels = options.map(optionLabel);
      const found = wanted.map((one) => {
        const byLabel = labels.indexOf(collapse(String(one)));
        return byLabel >= 0 ? byLabel : options.findIndex((option) => option.value === String(one));
      });
      const missing = wanted.filter((_, index) => found[index] < 0);
      if (missing.length > 0) return { error: 'missing', missing, options: labels.slice(0, MOST_OPTIONS) };
      if (!element.multiple && found.length !== 1) return { error: 'single', options: labels.slice(0, MOST_OPTIONS) };
      if (found.some((index) => matches(options[index], ':disabled'))) return { error: 'disabled option' };
      const before = options.map((option) => option.selected);
      element.focus();
      options.forEach((option, index) => { option.selected = found.includes(index); });
      if (options.some((option, index) => option.selected !== before[index])) changed(element);
      return { ok: true, chosen: chosenOptions(element) };
    });
  }

  /** Scrolls the nearest element that can scroll that way, from the given one outwards, or the page. */
  function scroll(ref, dx, dy) {
    const start = ref === null || ref === undefined ? attempt(mainScroller, null) : elementOf(ref);
    if (start === null) return { error: 'gone' };
    return attempt(() => {
      for (let at = start; at !== null; at = parentOf(at)) {
        const before = [at.scrollLeft, at.scrollTop];
        if (!canScroll(at)) continue;
        at.scrollBy({ left: dx, top: dy, behavior: 'instant' });
        if (at.scrollLeft === before[0] && at.scrollTop === before[1]) continue;
        return { moved: true, x: Math.round(at.scrollLeft), y: Math.round(at.scrollTop) };
      }
      return { moved: false };
    }, { moved: false });
  }

  function canScroll(element) {
    if (element === documentOf(element).scrollingElement) return true;
    const style = computedStyle(element);
    const scrolls = (overflow) => overflow === 'auto' || overflow === 'scroll' || overflow === 'overlay';
    return scrolls(style.overflowX) || scrolls(style.overflowY);
  }

  /** The page itself, or, where it cannot scroll, what is in its middle. */
  function mainScroller() {
    const root = document.scrollingElement ?? documentElementOf(document);
    if (root.scrollHeight > root.clientHeight || root.scrollWidth > root.clientWidth) return root;
    return elementAt(window.innerWidth / 2, window.innerHeight / 2) ?? root;
  }

  // ---- Checks ---------------------------------------------------------------------------------------------------

  const MOST_ELEMENTS = 1_000;

  /** What checks ask of elements. */
  function elements(selector) {
    const found = attempt(() => document.querySelectorAll(selector), null);
    if (found === null) return { error: 'selector' };
    const list = [];
    for (let index = 0; index < found.length && index < MOST_ELEMENTS; index += 1) attempt(() => list.push(factsOf(found[index])));
    return { elements: list, total: found.length };
  }

  function factsOf(element) {
    const attributes = {};
    for (const name of attributeNames(element)) attributes[name] = attribute(element, name);
    const tag = localName(element);
    const isCheckable = CHECKABLE.has(roleOf(element)) || hasAttribute(element, 'aria-selected') || hasAttribute(element, 'aria-checked');
    const hasValue = FIELD_TAGS.has(tag) || tag === 'option' || tag === 'button' || tag === 'progress' || tag === 'meter' || tag === 'output';
    const box = boxOf(element);
    return {
      text: attempt(() => textOf(element), ''),
      value: hasValue ? attempt(() => String(element.value), null) : null,
      attributes,
      checked: isCheckable ? isChecked(element) : null,
      visible: isRendered(element, { visibilityProperty: true }) && box.width > 0 && box.height > 0,
    };
  }

  /** The seen text of the first element that a selector finds, or null. */
  function text(selector) {
    return attempt(() => {
      const element = document.querySelector(selector);
      return element === null ? null : textOf(element);
    }, null);
  }


  const failure = (error) => ({ error: attempt(() => String(error?.message ?? error), 'unknown') });

  /** What the page's origin keeps under a key in `local` or `session` storage; null where there is no such key. */
  function storage(area, key) {
    try {
      return { value: (area === 'local' ? window.localStorage : window.sessionStorage).getItem(key) };
    } catch (error) {
      return failure(error);
    }
  }

  // ---- Quiet ----------------------------------------------------------------------------------------------------

  /** How long a page may change all the time, waiting for nothing, before it counts as one that always does. */
  const RESTLESS_AFTER = 2_000;
  /** Pages in the background draw no frames. */
  const LONGEST_FRAME = 100;

  /** All documents of the page's origin: its own, and those of frames. */
  function documents() {
    const all = [document];
    for (let index = 0; index < all.length; index += 1) {
      const frames = all[index].getElementsByTagName('iframe');
      for (let at = 0; at < frames.length; at += 1) {
        const inner = frameDocument(frames[at]);
        if (inner) all.push(inner);
      }
    }
    return all;
  }

  const waiting = () => pending + documents().reduce((sum, one) => sum + (frameApi(documentElementOf(one) ?? one)?.pendingHere() ?? 0), 0);

  const isPendingImage = (image) => !image.complete && image.loading !== 'lazy' && attribute(image, 'src') !== null;

  function endsByItself(animation) {
    const timing = animation.effect?.getComputedTiming();
    if (timing === undefined || !Number.isFinite(timing.endTime)) return false;
    return animation.playState === 'running' && animation.timeline === timelineOf(animation);
  }

  /** Animations that follow scrolling do not end by themselves. */
  const timelineOf = (animation) => animation.effect?.target?.ownerDocument?.timeline ?? document.timeline;

  /** Whether a document has all that it loads, and moves nothing that comes to rest. */
  function isStill(one) {
    if (one.readyState !== 'complete' || one.fonts?.status === 'loading') return false;
    if ([...one.images].some(isPendingImage)) return false;
    return !one.getAnimations().some(endsByItself);
  }

  const frame = () => new Promise((resolve) => {
    const timer = startTimer(resolve, LONGEST_FRAME);
    nextFrame(() => {
      stopTimer(timer);
      resolve();
    });
  });

  /** Waits until nothing is loaded and nothing moves, and one frame passed without a change of the document. */
  async function settle(limitMs, hidden) {
    const selector = attempt(() => (hidden?.length > 0 && document.querySelector(hidden.join(',')) !== undefined ? hidden.join(',') : ''), '');
    const matters = (change) => {
      const target = nodeType(change.target) === ELEMENT ? change.target : parentNode(change.target);
      return selector === '' || !isElement(target) || closest(target, selector) === null;
    };
    const end = now() + limitMs;
    let changes = 0;
    const count = (records) => { changes += records.filter(matters).length; };
    const observer = new MutationObserver(count);
    let restlessSince = null;
    let watched = [];
    try {
      for (;;) {
        watched = watchAll(observer, watched);
        changes = 0;
        await frame();
        count(observer.takeRecords());
        const still = waiting() === 0 && documents().every((one) => attempt(() => isStill(one), true));
        if (still && changes === 0) return { quiet: true };
        restlessSince = still ? restlessSince ?? now() : null;
        if (now() >= end || (restlessSince !== null && now() - restlessSince > RESTLESS_AFTER)) return { quiet: false };
      }
    } finally {
      observer.disconnect();
    }
  }

  function watchAll(observer, watched) {
    const all = documents();
    for (const one of all) {
      if (!watched.includes(one)) observer.observe(one, { subtree: true, childList: true, attributes: true, characterData: true });
    }
    return all;
  }

  return Object.freeze({
    observe, resolve, locate, element: elementOf, span, ready, clear, setValue, choose, scroll, settle,
    text, elements, storage,
    hookListeners, hookRequests, hookTimers,
    // For the same script in other frames, and for tests.
    listenersOf: (element) => listeners.get(element),
    pendingHere: () => pending,
    roleAndName: (element) => {
      forget();
      return { role: roleOf(element), name: nameOf(element) };
    },
  });
})()
