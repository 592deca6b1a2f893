// The stream of states, moves and marks. It reconnects automatically, and the page shows that.

import { byId, setText } from "./dom.js";

/** The console sends a state at least every 5 s. A longer silence means a dead connection. */
const SILENCE_MAX_MS = 20_000;
const RETRY_MS = 1_500;

let source = null;
let heardAt = 0;
let drops = 0;

/** Calls `handlers.state`, `handlers.move` and `handlers.mark` with the data of each event. */
export function connect(handlers) {
  source?.close();
  source = new EventSource("/api/stream");
  heardAt = Date.now();
  for (const [name, handle] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => {
      heardAt = Date.now();
      show("live");
      handle(JSON.parse(event.data));
    });
  }
  source.addEventListener("error", () => {
    show("dropped");
    // The browser retries a dropped connection, but not one that ended with an error status.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => connect(handlers), RETRY_MS);
  });
  if (!watchdog) watchdog = setInterval(() => reconnectIfSilent(handlers), RETRY_MS);
}

let watchdog = null;

function reconnectIfSilent(handlers) {
  if (Date.now() - heardAt < SILENCE_MAX_MS || source.readyState === EventSource.CLOSED) return;
  show("dropped");
  connect(handlers);
}

function show(state) {
  const pill = byId("connection");
  if (pill.dataset.state === state) return;
  if (state === "dropped") drops += 1;
  pill.dataset.state = state;
  document.body.classList.toggle("stale", state === "dropped");
  setText(pill, state === "dropped" ? "Connection lost, reconnecting …" : drops ? "Live again" : "Live");
}
