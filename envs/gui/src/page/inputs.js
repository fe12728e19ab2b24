// The agent's input in the page, and the page's timers that react to it.
//
// T1. Which timers react to an input does not depend on the machine's speed: the whole task of an input counts, however long
//     its handlers take. T2. Continuous activity of a page, scrolling included, counts as a reaction only for a moment.

/** How soon after an input a timer has to be set, and how soon it has to be due, to be an answer to the input. */
const ANSWER_SET_WITHIN = 100;
const ANSWER_DUE_WITHIN = 500;
/** How long an input may scroll, which keys do smoothly. */
const SCROLLS_WITHIN = 500;

const INPUT_EVENTS = ['keydown', 'keyup', 'input', 'change', 'mousedown', 'mouseup', 'pointerup', 'click', 'mousemove', 'mouseover',
  'wheel', 'drop', 'dragend', 'popstate'];

/** When the last input was over. */
let lastInput = -Infinity;
/** Whether the task of one is not over yet. */
let isInputUnderWay = false;
/** Until then, what is scrolled is scrolled by the last one; `null` where it has not scrolled yet. */
let scrollsUntil = -Infinity;

const prolongInput = () => {
  if (isInputUnderWay) return;
  isInputUnderWay = true;
  afterTask(() => {
    isInputUnderWay = false;
    lastInput = now();
  });
};

/** Something is being done for the agent. */
const noteInput = () => {
  scrollsUntil = null;
  prolongInput();
};

/** This script is doing something for the agent, of which no event tells that it is an input. */
const noteInputAt = (element) => {
  noteInput();
  frameApi(element)?.noteInputHere();
};

const isAfterInput = () => isInputUnderWay || now() - lastInput <= ANSWER_SET_WITHIN;

/** Counts from now on timers that answer an input: a field that waits until typing stops, a menu that opens late. */
const hookTimers = () => once('timers', () => {
  /** The delay of the answer that runs. */
  let answering = -Infinity;
  const ends = new Map();
  const hear = (event, heard) => addListener(window, event, (given) => { if (given.isTrusted) heard(); }, { capture: true, passive: true });
  for (const event of INPUT_EVENTS) hear(event, noteInput);
  // Pages scroll by themselves, too, and some all the time: only the first scroll after an input belongs to it.
  hear('scroll', () => {
    scrollsUntil ??= now() + SCROLLS_WITHIN;
    if (now() <= scrollsUntil) prolongInput();
  });
  hear('scrollend', () => { scrollsUntil = -Infinity; });
  wrap(window, 'setTimeout', (call, self, args) => {
    const [callback, delay = 0] = args;
    // A timer that fires too early is set again for its remaining time: debounced fields do so.
    const isAnswer = delay >= 0 && delay <= ANSWER_DUE_WITHIN && (isAfterInput() || delay < answering);
    if (typeof callback !== 'function' || !isAnswer) return call();
    const end = beginWait();
    let id;
    args[0] = function answer(...rest) {
      ends.delete(id);
      const outer = answering;
      answering = Number(delay);
      try {
        return apply(callback, this, rest);
      } finally {
        answering = outer;
        end();
      }
    };
    id = call();
    ends.set(id, end);
    return id;
  });
  for (const stop of ['clearTimeout', 'clearInterval']) {
    wrap(window, stop, (call, self, args) => {
      ends.get(args[0])?.();
      ends.delete(args[0]);
      return call();
    });
  }
});
