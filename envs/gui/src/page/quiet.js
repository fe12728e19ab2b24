// Detects when a page has settled.

/** How long a page may change all the time, waiting for nothing, before it counts as one that always does. */
const RESTLESS_AFTER = 2_000;
/** Pages in the background draw no frames. */
const HIDDEN_FRAME = 100;
/** What a frame counts for at most, of the time that a page is given: where the machine is busy, frames take long. */
const COUNTED_FRAME = 100;
/** How much longer than it is given, by the clock, a page may take for all that. */
const GRACE = 5_000;

/** Which document this is: one that came to rest may be gone when the next question comes. */
const identity = `${performance.timeOrigin} ${Math.random()}`;

/** All documents of the page's origin: its own, and those of frames. */
function documents() {
  const all = [document];
  for (let index = 0; index < all.length; index += 1) {
    const frames = all[index].getElementsByTagName('iframe');
    for (let at = 0; at < frames.length; at += 1) {
      const inner = frameDocument(frames[at]);
      if (inner) all.push(inner);
    }
  }
  return all;
}

const waiting = () => pending + documents().reduce((sum, one) => sum + (frameApi(documentElementOf(one) ?? one)?.pendingHere() ?? 0), 0);

/** Clicks that began downloads since the last question. */
function filesBegun() {
  const all = takeFiles();
  for (const one of documents()) {
    const here = frameApi(documentElementOf(one) ?? one)?.takeFilesHere();
    all.made += here?.made ?? 0;
    all.asked += here?.asked ?? 0;
  }
  return all;
}

const isPendingImage = (image) => !image.complete && image.loading !== 'lazy' && attribute(image, 'src') !== null;

function endsByItself(animation) {
  const timing = animation.effect?.getComputedTiming();
  if (timing === undefined || !Number.isFinite(timing.endTime)) return false;
  return animation.playState === 'running' && animation.timeline === timelineOf(animation);
}

/** Animations that follow scrolling do not end by themselves. */
const timelineOf = (animation) => animation.effect?.target?.ownerDocument?.timeline ?? document.timeline;

/** Whether a document has all that it loads, and moves nothing that comes to rest. */
function isStill(one) {
  if (one.readyState !== 'complete' || one.fonts?.status === 'loading') return false;
  if ([...one.images].some(isPendingImage)) return false;
  return !one.getAnimations().some(endsByItself);
}

/**
 * Waits until a frame was drawn, and those who watch what is in view were told of it: they are told after it, and what
 * they do then belongs to it. A page in the background gets a moment instead; nobody waits beyond `longest`.
 */
const frame = (longest) => new Promise((resolve) => {
  let timer;
  const done = () => {
    stopTimer(timer);
    removeListener(document, 'visibilitychange', hidden);
    resolve();
  };
  const hidden = () => {
    if (!isHidden(document)) return;
    stopTimer(timer);
    timer = startTimer(done, HIDDEN_FRAME);
  };
  timer = startTimer(done, longest);
  addListener(document, 'visibilitychange', hidden);
  hidden();
  nextFrame(() => {
    const root = documentElementOf(document);
    if (root === null) return done();
    const watcher = new IntersectionObserver(() => {
      watcher.disconnect();
      // Observers in frames are notified in separate tasks.
      startTimer(done, 0);
    });
    watcher.observe(root);
  });
});

/** Waits until nothing is loaded and nothing moves, and one frame passed without a change of the document. */
async function settle(limitMs, hidden) {
  const selector = attempt(() => (hidden?.length > 0 && document.querySelector(hidden.join(',')) !== undefined ? hidden.join(',') : ''), '');
  const matters = (change) => {
    const target = nodeType(change.target) === ELEMENT ? change.target : parentNode(change.target);
    return selector === '' || !isElement(target) || closest(target, selector) === null;
  };
  const end = now() + limitMs + GRACE;
  let left = limitMs;
  let changes = 0;
  const count = (records) => { changes += records.filter(matters).length; };
  const observer = new MutationObserver(count);
  /** How long it has changed, waiting for nothing. */
  let since = 0;
  let watched = [];
  try {
    for (;;) {
      watched = watchAll(observer, watched);
      changes = 0;
      const before = now();
      await frame(Math.max(end - before, 0));
      const counted = Math.min(now() - before, COUNTED_FRAME);
      left -= counted;
      count(observer.takeRecords());
      const still = waiting() === 0 && documents().every((one) => attempt(() => isStill(one), true));
      const quiet = still && changes === 0;
      since = still ? since + counted : 0;
      const restless = !quiet && since > RESTLESS_AFTER;
      if (quiet || restless || left <= 0 || now() >= end) return { quiet, restless, identity, files: filesBegun() };
    }
  } finally {
    observer.disconnect();
  }
}

function watchAll(observer, watched) {
  const all = documents();
  for (const one of all) {
    if (!watched.includes(one)) observer.observe(one, { subtree: true, childList: true, attributes: true, characterData: true });
  }
  return all;
}
