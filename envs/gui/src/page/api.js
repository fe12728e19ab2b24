// The harness's view of a page: its accessibility tree as text, positions of elements, values of fields.
//
// These are the functions that the harness calls. The files beside this one are parts of one function, which returns
// `api`: they share one scope. It may run before the page's own scripts, so that `hookListeners`, `hookRequests`,
// `hookTimers` and `hookErrors` observe them, or at any time after. A frame that ran it as well, and keeps
// its value under the same key, adds its observations; other frames of the same origin are only read.
//
// I1. No function throws, whatever the page is. Unreadable content counts as missing.
// I2. Reading a page does not change it: no attribute, no style, no property, no event. `locate` may scroll.
// I3. The text depends on the document alone, not on how often it was observed: a number, once given to an element
//     and shown, stays with it, and new elements get the next numbers in document order.
// I4. Forms whose fields have names such as `parentNode`, and pages that replace methods of DOM prototypes, are read
//     like all others: nodes are read through the getters that existed when this ran.
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
