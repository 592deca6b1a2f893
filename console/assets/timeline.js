// One order's timeline in a side panel, addressed by `#order=<id>` so that it can be linked.

import { get, hasToken, post } from "./api.js";
import { byId, el } from "./dom.js";
import { plural, serviceName } from "./format.js";
import * as dots from "./dots.js";
import { stepList } from "./steps.js";
import { waterfall } from "./waterfall.js";

const REFRESH_MS = 1_000;

let shown = null;
let lastText = "";
let timer = 0;
let opener = null;

export function start() {
  addEventListener("hashchange", route);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && shown && !document.querySelector("dialog[open]")) close();
  });
  route();
}

function route() {
  const match = location.hash.match(/^#order=([^&]+)/);
  if (match) open(decodeURIComponent(match[1]));
  else hide();
}

function open(id) {
  if (shown === id) return;
  if (!shown) opener = document.activeElement;
  shown = id;
  lastText = "";
  const panel = byId("timeline");
  panel.hidden = false;
  panel.replaceChildren(head(id), el("div", { class: "timeline-body", id: "timeline-body" }, el("p", {}, "Reading the tables of every service …")));
  panel.scrollTop = 0;
  byId("timeline-title").focus({ preventScroll: true });
  dots.follow(id);
  if (hasToken()) post("/api/follow", { order_id: id });
  refresh(id);
}

function head(id) {
  return el(
    "div",
    { class: "timeline-head" },
    el("div", {}, el("h2", { id: "timeline-title", tabindex: -1 }, "One order's timeline"), el("code", { class: "timeline-id" }, id)),
    el("button", { type: "button", class: "button small", onclick: close, id: "timeline-close" }, "Close"),
  );
}

function close() {
  history.pushState(null, "", location.pathname);
  hide();
  // The link that opened the timeline may be gone from the list.
  if (opener?.isConnected) opener.focus();
  else byId("main").focus({ preventScroll: true });
}

function hide() {
  clearTimeout(timer);
  shown = null;
  byId("timeline").hidden = true;
}

async function refresh(id) {
  clearTimeout(timer);
  const timeline = await get(`/api/orders/${encodeURIComponent(id)}`);
  if (shown !== id) return;
  if (timeline) show(timeline);
  else if (!lastText) byId("timeline-body").replaceChildren(el("p", {}, "No service knows this order, or the services do not respond. The page keeps polling."));
  timer = setTimeout(() => refresh(id), REFRESH_MS);
}

/** Redraws only if the timeline changed, so that open parts and selected text stay as they are. */
function show(timeline) {
  const text = JSON.stringify(timeline);
  if (text === lastText) return;
  const body = byId("timeline-body");
  const openParts = new Set([...body.querySelectorAll("details[open]")].map((part) => part.dataset.part));
  lastText = text;
  body.replaceChildren(
    summary(timeline),
    ...remarks(timeline),
    facts(timeline),
    el("h3", {}, "Step by step"),
    el("p", { class: "hint" }, "Each step comes from a table. ", el("span", { class: "tag observed" }, "observed"), " marks steps that no table records, and that the console saw."),
    stepList(timeline.steps ?? []),
    el("h3", {}, "Where the time went"),
    waterfall(timeline.trace),
    ...traceLink(timeline),
  );
  for (const part of body.querySelectorAll("details")) part.open = openParts.has(part.dataset.part);
}

function summary(timeline) {
  const charges = timeline.charges_in_books;
  const refunds = timeline.refunds_in_books ?? 0;
  const kind = typeof charges !== "number" ? "none" : charges > 1 ? "many" : String(charges);
  const box = el(
    "div",
    { class: "timeline-summary", "data-charges": kind },
    el("p", { class: "timeline-count" }, el("strong", {}, String(charges ?? "–")), el("span", {}, `${charges === 1 ? "charge" : "charges"} in the provider's books`)),
    el("p", {}, el("span", { class: "order-status", "data-status": timeline.status ?? "unknown" }, timeline.status ?? "unknown"), " ", timeline.summary ?? ""),
  );
  if (refunds) box.append(el("p", {}, plural(refunds, "refund")));
  return box;
}

/** What is missing from the timeline, and why. */
function remarks(timeline) {
  const missing = (timeline.missing ?? []).map(({ service, reason }) => `${serviceName(service)} did not respond: ${reason}`);
  return [...missing, ...(timeline.notes ?? [])].map((text) => el("p", { class: "remark" }, text));
}

function facts(timeline) {
  const pairs = [
    ["Idempotency-Key", timeline.key],
    ["Fingerprint of the request", timeline.fingerprint],
    ["Reference", timeline.reference],
  ];
  const shownPairs = pairs.filter(([, value]) => value);
  return el("dl", { class: "facts" }, shownPairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, el("code", {}, value)))));
}

function traceLink(timeline) {
  const url = timeline.jaeger_url;
  if (!url || !/^https?:\/\//.test(url)) return [];
  return [el("p", {}, el("a", { href: url, target: "_blank", rel: "noreferrer" }, "Open this trace in Jaeger"))];
}

