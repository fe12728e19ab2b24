// What the harness knows of a page: its accessibility tree as text, where elements are, what fields hold.
//
// These are the functions that the harness calls. The files beside this one are the parts of one function, of which `api`
// is the value: what stands in one is seen in all. It may run before the page's own scripts, which lets `hookListeners`,
// `hookRequests`, `hookTimers` and `hookErrors` see what those do, or at any time after. A frame that ran it too, and keeps
// its value under the same key, adds what it saw; other frames of the same origin are only read.
//
// I1. No function throws, whatever the page is. What cannot be read counts as not there.
// I2. Reading a page does not change it: no attribute, no style, no property, no event. `locate` may scroll.
// I3. The text depends on the document alone, not on how often it was observed: a number, once given to an element
//     and shown, stays with it, and new elements get the next numbers in document order.
// I4. Forms whose fields have names such as `parentNode`, and pages that replace methods of DOM prototypes, are read
//     as all others are: what is read of nodes goes through the getters that were there when this ran.
//
// Units: CSS pixels of the top document's viewport; milliseconds.
// Source: HTML-AAM 1.0, Accessible Name and Description Computation 1.2, as Chromium has them. Deviations: elements
// that only scripts make clickable have roles of their own (`clickable`, `draggable`, `dropzone`).

const api = Object.freeze({
  observe, resolve, locate, element: elementOf, span, ready, clear, setValue, choose, scroll, settle,
  text, elements, storage,
  hookListeners, hookRequests, hookTimers, hookFiles, hookErrors,
  // For the same script in other frames, and for tests.
  listenersOf: (element) => listeners.get(element),
  noteInputHere: noteInput,
  pendingHere: () => pending,
  takeFilesHere: takeFiles,
  takeErrorsHere: takeErrors,
  roleAndName: (element) => {
    forget();
    return { role: roleOf(element), name: nameOf(element) };
  },
});
