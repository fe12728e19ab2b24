// Values and states.

const fieldValue = (element) => {
  const tag = localName(element);
  if (tag === 'input' || tag === 'textarea') return element.value;
  if (tag === 'select') return element.value;
  // An element that only looks like a field shows its value as its content.
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
