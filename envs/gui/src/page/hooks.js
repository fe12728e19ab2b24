// Hooks that record the effects of scripts.

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

/** Events with which what was begun is over. */
const endsWith = (events, target, end) => {
  for (const event of events) attempt(() => addListener(target, event, end, { once: true }));
};

/** States of an `XMLHttpRequest` that is not under way, and of a `FileReader` that is. */
const UNSENT = 0;
const DONE = 4;
const READING = 1;

/** Counts from now on requests in flight, and whatever else is read, decoded, hashed or looked up in the background. */
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
  // A reused request is notified of its first end after it has started again.
  const countedWhile = (isUnderWay) => (call, self) => {
    const end = beginWait();
    const over = () => {
      removeListener(self, 'loadend', heard);
      end();
    };
    const heard = () => { if (!isUnderWay(self)) over(); };
    attempt(() => addListener(self, 'loadend', heard));
    try {
      return call();
    } catch (error) {
      attempt(over);
      throw error;
    }
  };
  // The returned promise tells when it is over.
  const countedBy = (...events) => (call) => {
    const begun = call();
    endsWith(events, begun, beginWait());
    return begun;
  };
  wrap(window, 'fetch', counted);
  wrap(window, 'createImageBitmap', counted);
  wrap(HTMLImageElement.prototype, 'decode', counted);
  for (const owner of [Response, Request, Blob]) {
    for (const read of ['json', 'text', 'arrayBuffer', 'bytes', 'blob', 'formData']) wrap(owner.prototype, read, counted);
  }
  const requestState = getter(XMLHttpRequest.prototype, 'readyState');
  wrap(XMLHttpRequest.prototype, 'send', countedWhile((request) => ![UNSENT, DONE].includes(requestState(request))));
  const readerState = getter(FileReader.prototype, 'readyState');
  for (const read of ['readAsText', 'readAsDataURL', 'readAsArrayBuffer', 'readAsBinaryString']) {
    wrap(FileReader.prototype, read, countedWhile((reader) => readerState(reader) === READING));
  }
  for (const open of ['open', 'deleteDatabase']) wrap(IDBFactory.prototype, open, countedBy('success', 'error', 'blocked'));
  wrap(IDBDatabase.prototype, 'transaction', countedBy('complete', 'abort'));
  wrap(HTMLCanvasElement.prototype, 'toBlob', (call, self, args) => {
    const [callback] = args;
    if (typeof callback !== 'function') return call();
    const end = beginWait();
    args[0] = function taken(...rest) {
      try {
        return apply(callback, this, rest);
      } finally {
        end();
      }
    };
    try {
      return call();
    } catch (error) {
      end();
      throw error;
    }
  });
  const promised = [
    ['SubtleCrypto', 'digest encrypt decrypt sign verify generateKey deriveBits deriveKey importKey exportKey'],
    ['IDBFactory', 'databases'],
    ['CacheStorage', 'open has keys match delete'],
    ['Cache', 'match matchAll keys add addAll put delete'],
    ['ServiceWorkerContainer', 'register getRegistration getRegistrations'],
    ['Clipboard', 'write writeText'],
  ];
  for (const [owner, names] of promised) {
    // Insecure pages have few of them.
    const methods = window[owner]?.prototype;
    if (methods) for (const name of words(names)) wrap(methods, name, counted);
  }
});

/** Clicks that begin downloads, of which the page has not been asked: files that it made, and those that it asks for. */
let files = { made: 0, asked: 0 };

/**
 * Counts from now on links that are clicked to lay down files. No request says so of what the page made, and for others it
 * may come when the page is at rest already.
 */
const hookFiles = () => once('files', () => {
  const address = getter(HTMLAnchorElement.prototype, 'href');
  const originOf = getter(HTMLAnchorElement.prototype, 'origin');
  // Pages may overwrite it.
  const own = window.origin;
  // Browsers ignore the attribute in links to other origins.
  const kind = (link) => {
    if (!hasAttribute(link, 'download')) return null;
    if (/^(blob|data):/i.test(address(link))) return 'made';
    return /^https?:/i.test(address(link)) && originOf(link) === own ? 'asked' : null;
  };
  const link = (element) => attempt(() => closest(element, 'a[download]'), null);
  addListener(window, 'click', (given) => {
    const [innermost] = attempt(() => given.composedPath(), []);
    const clicked = innermost ? link(innermost) : null;
    // Before the page's own listeners, which may change the link.
    const begins = clicked === null ? null : attempt(() => kind(clicked), null);
    if (begins === null) return;
    // Pages may prevent it.
    const end = beginWait();
    afterTask(() => {
      if (!attempt(() => given.defaultPrevented, false)) files[begins] += 1;
      end();
    });
  }, { capture: true, passive: true });
  // Pages also click links outside the document.
  const countDetached = (call, self, isClick) => {
    const begins = isClick ? attempt(() => (isConnected(self) ? null : kind(self)), null) : null;
    if (begins !== null) files[begins] += 1;
    return call();
  };
  wrap(HTMLElement.prototype, 'click', (call, self) => countDetached(call, self, true));
  wrap(EventTarget.prototype, 'dispatchEvent', (call, self, [event]) => countDetached(call, self, event?.type === 'click'));
});

/** How many there were since the last question. */
const takeFiles = () => {
  const taken = files;
  files = { made: 0, asked: 0 };
  return taken;
};

/** Errors that are told at one look, and characters of each. */
const MOST_ERRORS = 5;
const MOST_OF_AN_ERROR = 200;

/**
 * Text of an error → the event that told of it, where one did, and whether the text that was made last has it. Pages take
 * events back, which says that they dealt with the error.
 */
const errors = new Map();
const isTakenBack = ({ event }) => event !== null && isPrevented(event);

/** An error that comes again and again, with each frame perhaps, is told once: how often is a matter of time. */
function noteError(words, event) {
  const whole = collapse(words);
  const text = whole.length > MOST_OF_AN_ERROR ? `${wellFormed(whole.slice(0, MOST_OF_AN_ERROR - 1))}…` : whole;
  const known = errors.get(text);
  if (known !== undefined) {
    if (known.told || isTakenBack(known)) errors.set(text, { event, told: false });
    return;
  }
  for (const [other, one] of errors) if (!one.told && isTakenBack(one)) errors.delete(other);
  // One more than is reported, to show that there are more.
  if ([...errors.values()].filter((one) => !one.told).length > MOST_ERRORS) return;
  errors.set(text, { event, told: false });
}

/** What was thrown, as text; pages may have written what makes one of it. */
const wordsOf = (thrown) => attempt(() => String(thrown), 'unknown');

/** Hears from now on of what the page throws and nobody catches, and of what it tells its developer as an error. */
const hookErrors = () => once('errors', () => {
  addListener(window, 'error', (given) => attempt(() => {
    // Pictures that fail to load are reported here, too.
    if (targetOf(given) === window) noteError(messageOf(given).replace(/^Uncaught /, ''), given);
  }), { capture: true });
  addListener(window, 'unhandledrejection', (given) => attempt(() => noteError(wordsOf(reasonOf(given)), given)), { capture: true });
  wrap(console, 'error', (call, self, args) => {
    attempt(() => noteError([...args].map(wordsOf).join(' '), null));
    return call();
  });
});

/** Errors that nobody was shown; with `unseen`, nobody was shown the text that was made last. */
function takeErrors(unseen) {
  for (const [text, one] of errors) {
    if ((one.told && !unseen) || isTakenBack(one)) errors.delete(text);
    one.told = true;
  }
  return [...errors.keys()];
}

/** Those of all documents. */
function errorsSeen(unseen) {
  const all = new Set();
  for (const one of documents()) {
    const inner = one === document ? takeErrors(unseen) : frameApi(documentElementOf(one) ?? one)?.takeErrorsHere(unseen) ?? [];
    for (const text of inner) all.add(text);
  }
  return all.size > MOST_ERRORS ? [...[...all].slice(0, MOST_ERRORS), 'and more'] : [...all];
}
