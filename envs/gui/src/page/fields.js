// Reading and changing the values of fields.

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
    const typed = TYPED_KINDS.has(kind);
    const prepare = () => {
      element.focus({ preventScroll: false });
      if (typed && kind !== 'number' && kind !== 'email') moveCaretToEnd(element);
    };
    // Keys go to the focused element; an element behind a modal dialog cannot be focused.
    const moved = movesFocus(element, prepare);
    if ((typed || SET_KINDS.has(kind)) && !moved) return { error: 'hidden' };
    return { ok: true, kind, editable: typed && element.readOnly !== true };
  });
}

/** Does what gives an element the focus. Whether it was given, though the page may have moved it on since. */
function movesFocus(element, focus) {
  let came = false;
  const heard = () => { came = true; };
  const before = focusedElement();
  addListener(element, 'focus', heard, { capture: true });
  try {
    focus();
  } finally {
    removeListener(element, 'focus', heard, { capture: true });
  }
  const after = focusedElement();
  const isOfHost = () => isElement(after) && attempt(() => isEditable(after), false) && isInside(element, after);
  return came || after !== before || after === element || isOfHost();
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
    noteInputAt(element);
    element.focus();
    // Frameworks put their own setter on the element; a user's choice goes through the prototype's.
    const { set } = Object.getOwnPropertyDescriptor(documentOf(element).defaultView.HTMLInputElement.prototype, 'value');
    apply(set, element, [String(value)]);
    // An unreadable value becomes empty, black, or the middle.
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
    noteInputAt(element);
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
      noteInputAt(at);
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
