// Positions of elements.

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

/** Where to click an element; scrolls it into view if it is not, to there: the middle, or no farther than it has to. */
function locate(ref, to = 'center') {
  const element = elementOf(ref);
  if (element === null) return { error: 'gone' };
  return attempt(() => {
    if (!isRendered(element, { visibilityProperty: true })) return { error: 'hidden' };
    // A field that its label draws is clicked there.
    const targets = [element, ...(attempt(() => element.labels, null) ?? [])];
    const shown = targets.find((target) => placesOf(target).length > 0);
    if (shown === undefined) return { error: 'hidden' };
    let place = isInView(placesOf(shown)[0]) ? hitPlace(element, targets) : null;
    if (place === null && to !== 'nowhere') {
      noteInputAt(shown);
      scrollIntoView(shown, { behavior: 'instant', block: to, inline: to });
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
    // Pressing on a selection would drag it away.
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
