// Places an order in one of five ways, and shows every response.

import { hasToken, post } from "./api.js";
import { byId, el, orderLink, setText } from "./dom.js";
import { duration } from "./format.js";

const MODES = [
  ["once", "Place once", "One request."],
  ["twice", "Send twice", "The same request again with the same key, as an app does after a timeout."],
  ["twenty", "Twenty at once", "Twenty requests with the same key at the same time."],
  ["other_body", "Same key, other body", "The second request has the same key and another quantity."],
  ["cut", "Cut the connection", "The connection breaks after the last byte of the request. Then the client retries."],
];

export function start() {
  const buttons = MODES.map(([mode, label, meaning]) =>
    el("button", { type: "button", class: mode === "once" ? "button primary" : "button", "data-action": true, "data-mode": mode, title: meaning, onclick: () => place(mode) }, label),
  );
  byId("place-modes").append(...buttons);
  byId("place-form").addEventListener("submit", (event) => {
    event.preventDefault();
    byId("place-modes").querySelector("button:not(:disabled)")?.click();
  });
}

export function useCatalog(catalog) {
  options(byId("place-method"), catalog.payment_methods.map(({ id, label }) => [id, label && label !== id ? `${label} (${id})` : id]));
  options(byId("place-sku"), catalog.skus.map((sku) => [sku, sku]));
}

function options(select, pairs) {
  select.replaceChildren(...pairs.map(([value, text]) => el("option", { value }, text)));
}

/** Chooses a payment method and an item, for the tour. */
export function choose(method, sku) {
  byId("place-method").value = method;
  if (sku) byId("place-sku").value = sku;
}

export async function place(mode) {
  const quantity = byId("place-quantity");
  if (!quantity.reportValidity()) return null;
  const buttons = [...byId("place-modes").children];
  for (const button of buttons) button.disabled = true;
  setText(byId("place-summary"), "Sending …");
  const placed = await post("/api/orders", {
    mode,
    payment_method: byId("place-method").value,
    sku: byId("place-sku").value,
    quantity: Number(quantity.value),
  });
  for (const button of buttons) button.disabled = !hasToken();
  if (placed) show(placed);
  else setText(byId("place-summary"), "The console did not place the order. The message at the edge of the window says why.");
  return placed;
}

function show(placed) {
  const summary = byId("place-summary");
  summary.replaceChildren(el("strong", {}, placed.summary ?? ""));
  if (placed.order_id) summary.append(" ", orderLink(placed.order_id, "Follow this order"));
  const region = byId("place-responses");
  region.hidden = false;
  region.scrollTop = 0;
  region.replaceChildren(table(placed));
}

function table(placed) {
  const head = ["#", "Status", "Replay", "Time", "Body"].map((text) => el("th", { scope: "col" }, text));
  const caption = el("caption", {}, "Idempotency-Key ", el("code", {}, placed.key ?? "–"));
  const rows = placed.responses.flatMap(rowsOf);
  return el("table", {}, caption, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows));
}

function rowsOf(response) {
  const detail = el("tr", { hidden: true, class: "body-row" }, el("td", { colspan: 5 }, bodyOf(response)));
  const toggle = el("button", { type: "button", class: "link", "aria-expanded": "false", "aria-label": `Body of response ${response.n}` }, "show");
  toggle.addEventListener("click", () => {
    detail.hidden = !detail.hidden;
    toggle.setAttribute("aria-expanded", String(!detail.hidden));
    setText(toggle, detail.hidden ? "show" : "hide");
  });
  const row = el(
    "tr",
    {},
    el("td", {}, String(response.n)),
    el("td", {}, el("span", { class: "status", "data-class": statusClass(response) }, response.error ? "cut" : String(response.status ?? "–"))),
    el("td", {}, response.replayed ? el("span", { class: "tag" }, "replayed") : "–"),
    el("td", { class: "number" }, duration(response.ms)),
    el("td", {}, toggle),
  );
  return [row, detail];
}

function statusClass(response) {
  return response.error || !response.status ? "none" : `${Math.floor(response.status / 100)}xx`;
}

function bodyOf(response) {
  const headers = Object.entries(response.headers ?? {}).map(([name, value]) => `${name}: ${value}`);
  const body = response.body === null || response.body === undefined ? [] : [typeof response.body === "string" ? response.body : JSON.stringify(response.body, null, 2)];
  const parts = [response.error, headers.join("\n"), ...body].filter(Boolean);
  return el("pre", {}, parts.join("\n\n") || "empty");
}
