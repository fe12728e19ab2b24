// When a page is at rest.

/** How long a page may change all the time, waiting for nothing, before it counts as one that always does. */
const RESTLESS_AFTER = 2_000;
/** Pages in the background draw no frames. */
const LONGEST_FRAME = 100;

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

const frame = () => new Promise((resolve) => {
  const timer = startTimer(resolve, LONGEST_FRAME);
  nextFrame(() => {
    stopTimer(timer);
    resolve();
  });
});

/** Waits until nothing is loaded and nothing moves, and one frame passed without a change of the document. */
async function settle(limitMs, hidden) {
  const selector = attempt(() => (hidden?.length > 0 && document.querySelector(hidden.join(',')) !== undefined ? hidden.join(',') : ''), '');
  const matters = (change) => {
    const target = nodeType(change.target) === ELEMENT ? change.target : parentNode(change.target);
    return selector === '' || !isElement(target) || closest(target, selector) === null;
  };
  const end = now() + limitMs;
  let changes = 0;
  const count = (records) => { changes += records.filter(matters).length; };
  const observer = new MutationObserver(count);
  let restlessSince = null;
  let watched = [];
  try {
    for (;;) {
      watched = watchAll(observer, watched);
      changes = 0;
      await frame();
      count(observer.takeRecords());
      const still = waiting() === 0 && documents().every((one) => attempt(() => isStill(one), true));
      if (still && changes === 0) return { quiet: true, identity };
      restlessSince = still ? restlessSince ?? now() : null;
      if (now() >= end || (restlessSince !== null && now() - restlessSince > RESTLESS_AFTER)) return { quiet: false, identity };
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
