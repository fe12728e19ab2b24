// Roles.

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
    // Elements that can be focused or have a description cannot be removed from the tree.
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
    // A form without a name is not a landmark, and has no other role.
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
  // Without a scope it is a column header, unless data cells are beside it.
  return find(parentNode(element), ':scope > td') === null ? 'columnheader' : 'rowheader';
}
