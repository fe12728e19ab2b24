// Functions for checks.

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
