'use strict';
// Keeps a page live: the server tells what has changed, and the live part of the page is fetched again.
//
// L1. What comes is text that the server has escaped, and the page's policy lets no script in it run. L2. One fetch at a time, and no more than
// four in a second, whatever happens. L3. What the reader has unfolded stays so, and what they write is never touched: forms stand outside.
(() => {
  const live = document.getElementById('live');
  const state = document.getElementById('state');
  if (!live || !window.EventSource) return;
  const { session, turn } = document.body.dataset;
  const PAUSE_MS = 250;
  let isFetching = false;
  let isWanted = false;

  /** Whether the page is about one thing, and what has changed is another one. An event may name none. */
  const isOther = (own, changed) => own !== undefined && typeof changed === 'number' && String(changed) !== own;

  const say = words => { if (state) state.textContent = words; };

  /** Unfolded parts, by their ids, and by their places where they have none. */
  const parts = () => [...live.querySelectorAll('details')].map((part, place) => [part.id || String(place), part]);

  function show(text) {
    const open = new Set(parts().filter(([, part]) => part.open).map(([key]) => key));
    const fresh = new DOMParser().parseFromString(text, 'text/html');
    live.replaceChildren(...fresh.body.childNodes);
    for (const [key, part] of parts()) if (open.has(key)) part.open = true;
  }

  async function refresh() {
    isWanted = true;
    if (isFetching) return;
    isFetching = true;
    while (isWanted) {
      isWanted = false;
      try {
        const answer = await fetch(location.pathname + location.search, { headers: { 'x-clawrl-part': 'live' } });
        if (answer.status === 401) return location.assign('/login');
        if (answer.ok) show(await answer.text());
      } catch {
        say('the server cannot be reached');
      }
      await new Promise(done => setTimeout(done, PAUSE_MS));
    }
    isFetching = false;
  }

  const changes = new EventSource('/events');
  changes.addEventListener('message', message => {
    const event = JSON.parse(message.data);
    if (event.what === 'watching') say('live');
    // What was missed while nobody listened is seen by looking once. What is of another session or turn does not concern this page.
    if (!isOther(session, event.session) && !isOther(turn, event.turn)) refresh();
  });
  changes.addEventListener('error', () => {
    say(changes.readyState === EventSource.CLOSED ? 'not live: load the page again' : 'not live for the moment');
  });
  addEventListener('pagehide', () => changes.close());
})();
