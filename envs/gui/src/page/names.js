// Accessible names.

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
  // Content that opens below an item of a tree or menu is not part of its name.
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
