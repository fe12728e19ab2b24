'use strict';
// Keeps a page live: the server sends changes, and the script fetches the live part of the page again.
//
// L1. The server has escaped the fetched text, and the page's policy runs no script in it. L2. One fetch at a time, at most four per second.
// L3. Unfolded parts stay unfolded, and forms, which are outside of the live part, keep their content.
(() => {
  const live = document.getElementById('live');
  const state = document.getElementById('state');
  if (!live || !window.EventSource) return;
  const { session, turn } = document.body.dataset;
  const PAUSE_MS = 250;
  let isFetching = false;
  let isWanted = false;

  /** Whether the page shows one session or turn, and another one has changed. An event may name none. */
  const isOther = (own, changed) => own !== undefined && typeof changed === 'number' && String(changed) !== own;

  const say = words => { if (state) state.textContent = words; };

  /** Foldable parts by id, or by position without one. */
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
        say('server unreachable');
      }
      await new Promise(done => setTimeout(done, PAUSE_MS));
    }
    isFetching = false;
  }

  const changes = new EventSource('/events');
  changes.addEventListener('message', message => {
    const event = JSON.parse(message.data);
    if (event.what === 'watching') say('live');
    // One refresh after a reconnect shows what was missed. Changes of other sessions or turns do not concern this page.
    if (!isOther(session, event.session) && !isOther(turn, event.turn)) refresh();
  });
  changes.addEventListener('error', () => {
    say(changes.readyState === EventSource.CLOSED ? 'disconnected: reload the page' : 'reconnecting');
  });
  addEventListener('pagehide', () => changes.close());
})();
