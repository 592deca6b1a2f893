// The newest orders, or those that a search finds.

import { get } from "./api.js";
import { byId, el, keyed, orderLink, setAttribute, setText } from "./dom.js";
import { ago, money, plural } from "./format.js";

const SEARCH_DELAY_MS = 200;

let body = null;
let query = "";
let newest = [];
let timer = 0;

export function start() {
  body = el("tbody");
  const head = ["Order", "Status", "Amount", "Charges", "Placed"].map((text) => el("th", { scope: "col" }, text));
  byId("orders-list").append(el("table", { class: "order-table" }, el("thead", {}, el("tr", {}, head)), body));
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  byId("query").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, SEARCH_DELAY_MS);
  });
}

export function render(state) {
  newest = state.orders ?? [];
  if (!query) show(newest);
}

async function search() {
  clearTimeout(timer);
  query = byId("query").value.trim();
  const searched = query;
  if (!searched) {
    setText(byId("orders-note"), "");
    show(newest);
    return;
  }
  const found = await get(`/api/orders?query=${encodeURIComponent(searched)}`);
  // A slow response to an earlier search must not replace a newer one.
  if (searched !== query) return;
  const list = found?.orders ?? [];
  setText(byId("orders-note"), found ? `${plural(list.length, "order")} found` : "The search failed. Check that the order service's database is up, then search again.");
  show(list);
}

/** Highlights only the newest of the followed orders. */
function show(found) {
  const newestFollowed = found.find((order) => order.followed);
  const list = found.map((order) => ({ ...order, followed: order === newestFollowed }));
  keyed(body, list, (order) => order.order_id, create, update);
  if (!query) setText(byId("orders-note"), list.length ? "" : "No orders yet. Place one, or press the red button.");
}

function create(order) {
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, orderLink(order.order_id), el("span", { class: "visually-hidden followed" })),
    el("td", {}, el("span", { class: "order-status" })),
    el("td", { class: "number" }, money(order.amount, order.currency)),
    el("td", { class: "number charges" }),
    el("td", { class: "placed" }),
  );
}

function update(row, order) {
  const status = row.querySelector(".order-status");
  setAttribute(status, "data-status", order.status);
  setText(status, order.status);
  setAttribute(row, "data-followed", order.followed ? "yes" : null);
  setText(row.querySelector(".followed"), order.followed ? " followed" : "");
  const charges = row.querySelector(".charges");
  setText(charges, order.charges ?? "–");
  setAttribute(charges, "data-bad", order.charges > 1 ? "yes" : null);
  setText(row.querySelector(".placed"), ago(order.placed_at));
}
