// Starts the sections and passes them the states, moves and marks of the stream.

import * as api from "./api.js";
import * as breakIt from "./break.js";
import * as charts from "./charts.js";
import { byId, notify } from "./dom.js";
import * as dots from "./dots.js";
import * as flow from "./flow.js";
import * as kill from "./kill.js";
import * as orders from "./orders.js";
import * as place from "./place.js";
import * as processes from "./processes.js";
import * as proof from "./proof.js";
import * as timeline from "./timeline.js";
import { connect } from "./stream.js";
import * as theme from "./theme.js";
import * as tour from "./tour.js";

const SECTIONS = [proof, kill, flow, breakIt, orders, charts];
const TICK_MS = 1_000;
const CATALOG_RETRY_MS = 2_000;

let latest = null;
let frame = 0;

api.takeTokenFromUrl();
for (const section of [theme, proof, kill, flow, place, breakIt, orders, charts, tour, timeline]) section.start();
api.watchToken(applyToken);
applyToken();
watchReset();
watchTokenForm();
loadCatalog();
connect({
  state: (state) => {
    latest = state;
    schedule();
  },
  move: flow.onMove,
  mark: (mark) => {
    for (const section of [flow, kill, processes]) section.onMark(mark);
  },
});
// Ages grow even if no state arrives.
setInterval(schedule, TICK_MS);

/** Draws at most once per frame, however fast states arrive. A hidden tab draws nothing. */
function schedule() {
  if (!latest || frame) return;
  frame = requestAnimationFrame(() => {
    frame = 0;
    for (const section of SECTIONS) section.render(latest);
    const followed = latest.orders?.find((order) => order.followed);
    if (followed) dots.follow(followed.order_id);
    applyToken();
    showJaeger(latest.jaeger_url);
  });
}

/** Without a token the page is read-only. With one, a button that waits for its response stays disabled. */
function applyToken() {
  const isReadOnly = !api.hasToken();
  const hasChanged = document.body.dataset.readOnly !== String(isReadOnly);
  document.body.dataset.readOnly = String(isReadOnly);
  byId("read-only").hidden = !isReadOnly;
  if (!isReadOnly && !hasChanged) return;
  for (const button of document.querySelectorAll("[data-action]")) button.disabled = isReadOnly;
}

async function loadCatalog() {
  const catalog = await api.get("/api/catalog");
  if (!catalog) {
    setTimeout(loadCatalog, CATALOG_RETRY_MS);
    return;
  }
  place.useCatalog(catalog);
  breakIt.useCatalog(catalog);
  applyToken();
}

function watchReset() {
  const dialog = byId("reset-dialog");
  byId("reset").addEventListener("click", () => {
    dialog.returnValue = "cancel";
    dialog.showModal();
  });
  dialog.addEventListener("close", async () => {
    if (dialog.returnValue !== "reset") return;
    if (await api.post("/api/reset")) notify("The demo's data is deleted.");
  });
}

function watchTokenForm() {
  byId("read-only").addEventListener("submit", (event) => {
    event.preventDefault();
    api.setToken(byId("token").value);
    byId("token").value = "";
    notify("The page now sends this token with every action.");
  });
}

function showJaeger(url) {
  const link = byId("jaeger");
  link.hidden = !url || !/^https?:\/\//.test(url);
  if (!link.hidden) link.href = url;
}
