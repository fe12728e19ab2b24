// Original getters and methods, saved before the page can replace them, and the relations between nodes.

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
// Pictures and forms with names such as `body` shadow properties of the document.
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
const isHidden = getter(Document.prototype, 'hidden');
const addListener = method(EventTarget.prototype, 'addEventListener');
const removeListener = method(EventTarget.prototype, 'removeEventListener');
const dispatch = method(EventTarget.prototype, 'dispatchEvent');
const computedStyle = window.getComputedStyle.bind(window);
const nextFrame = window.requestAnimationFrame.bind(window);
const startTimer = window.setTimeout.bind(window);
const stopTimer = window.clearTimeout.bind(window);
const now = performance.now.bind(performance);
const { Event, IntersectionObserver, MessageChannel, MutationObserver, Promise } = window;
const isPrevented = getter(Event.prototype, 'defaultPrevented');
const targetOf = getter(Event.prototype, 'target');
const messageOf = getter(ErrorEvent.prototype, 'message');
const reasonOf = getter(PromiseRejectionEvent.prototype, 'reason');
const postMessage = method(MessagePort.prototype, 'postMessage');

/** Runs something when the task is over that runs now. Messages come in tasks of their own; timers a page can take back. */
const afterTask = (() => {
  const { port1, port2 } = new MessageChannel();
  let acts = [];
  port1.onmessage = () => {
    const all = acts;
    acts = [];
    for (const act of all) act();
  };
  return (act) => {
    if (acts.length === 0) postMessage(port2, null);
    acts.push(act);
  };
})();

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
