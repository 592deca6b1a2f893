// The live flow: services, provider and topic as boxes with their counters.

import { byId, el, keyed, orderLink, setAttribute, setText, svg } from "./dom.js";
import { clock, serviceName, shortCount, tenths } from "./format.js";
import { EDGES, lane, layout } from "./flow-layout.js";
import * as dots from "./dots.js";

/** A killed process is back within a second. The box shows it as dead for at least this long. */
const DEATH_SHOWN_MS = 1_600;
const MARKS_SHOWN = 6;

/** Counters per box: label, how to read it, what it means, and whether it should be zero when the system is idle. */
const COUNTERS = {
  order: [
    ["accepted", (n) => n.orders, "Orders with a 201 response"],
    ["replays", (n) => n.extra?.replays ?? n.replays, "Retries answered with the stored response"],
    ["duplicates", (n) => n.duplicates, "Messages dropped because they were already processed"],
    ["outbox", (n) => n.backlog, "Events not published yet", true],
    ["lag", (n) => n.lag, "Messages in the topic that are not read yet", true],
    ["parked", (n) => n.parked, "Messages set aside for an operator", true],
  ],
  payment: [
    ["leases", (n) => n.leases ?? n.extra?.leases, "Attempts that a charger is working on"],
    ["retries", (n) => n.retries, "Tries after the first one, with the same key"],
    ["duplicates", (n) => n.duplicates, "Messages dropped because they were already processed"],
    ["unknown", (n) => n.unknown ?? n.extra?.unknown, "Attempts whose outcome is unknown", true],
    ["outbox", (n) => n.backlog, "Events not published yet", true],
    ["lag", (n) => n.lag, "Messages in the topic that are not read yet", true],
    ["parked", (n) => n.parked, "Messages set aside for an operator", true],
  ],
  fulfilment: [
    ["shipped", (n) => n.shipped ?? n.orders ?? n.extra?.shipped, "Orders that were shipped"],
    ["duplicates", (n) => n.duplicates, "Messages dropped because they were already processed"],
    ["outbox", (n) => n.backlog, "Events not published yet", true],
    ["lag", (n) => n.lag, "Messages in the topic that are not read yet", true],
    ["parked", (n) => n.parked, "Messages set aside for an operator", true],
  ],
  receipt: [
    ["mails sent", (n) => n.sent ?? n.extra?.sent, "Mails that the mail server accepted"],
    ["duplicates", (n) => n.duplicates, "Messages dropped because they were already processed"],
    ["lag", (n) => n.lag, "Messages in the topic that are not read yet", true],
    ["parked", (n) => n.parked, "Messages set aside for an operator", true],
  ],
  psp: [
    ["charges", (n) => n.charges, "Rows in the provider's table of charges"],
    ["replays", (n) => n.replays, "Repeated keys answered with the stored charge"],
    ["refunds", (n) => n.refunds, "Rows in the provider's table of refunds"],
  ],
  topic: [["messages", (n) => n.messages, "Messages in the Kafka topic"]],
};
const NOTES = { client: "you, the customer", psp: "the payment provider" };
/** Boxes whose process has another name. */
const PROCESS_OF = { topic: "kafka" };

const narrow = matchMedia("(max-width: 640px)");
const boxes = new Map();
const deaths = new Map();
let latest = null;

export function start() {
  draw();
  narrow.addEventListener("change", () => {
    draw();
    if (latest) render(latest);
  });
}

function draw() {
  const plan = layout(narrow.matches);
  const picture = svg("svg", { viewBox: `0 0 ${plan.width} ${plan.height}`, class: "diagram", role: "group", "aria-label": "Services, provider and topic with their counters" });
  const tip = svg("path", { d: "M0 0 8 4 0 8z", class: "edge-tip" });
  picture.append(svg("defs", {}, svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 5, markerHeight: 5, orient: "auto" }, tip)));
  for (const [from, to, isBothWays] of EDGES) {
    picture.append(line(plan.nodes, from, to));
    if (isBothWays) picture.append(line(plan.nodes, to, from));
  }
  boxes.clear();
  for (const [name, place] of Object.entries(plan.nodes)) picture.append(box(name, place, plan.columns));
  const layer = svg("g", { class: "dots", "aria-hidden": "true" });
  picture.append(layer);
  byId("flow-diagram").replaceChildren(picture);
  dots.use(layer, plan.nodes);
}

function line(nodes, from, to) {
  const [x1, y1, x2, y2] = lane(nodes, from, to);
  return svg("line", { x1, y1, x2, y2, class: "edge", "marker-end": "url(#tip)" });
}

function box(name, { x, y, w, h }, columns) {
  const isUpright = h > 400;
  const group = svg("g", { class: `node node-${name}`, transform: `translate(${x} ${y})` });
  group.append(svg("rect", { width: w, height: h, rx: 10, class: "node-box" }));
  if (!isUpright) group.append(svg("rect", { width: 4, height: h - 20, x: 0, y: 10, rx: 2, class: "node-stripe" }));
  const title = { class: "node-title", x: 16, y: 26 };
  if (isUpright) Object.assign(title, { x: h / 2, y: -w / 2 + 5, transform: "rotate(90)", "text-anchor": "middle" });
  group.append(svg("text", title, serviceName(name)));
  const isWide = w > 300 || name === "psp";
  const status = svg("text", isWide ? { x: w - 14, y: 26, "text-anchor": "end" } : { x: 16, y: 46 });
  status.classList.add("node-status");
  if (!isUpright) group.append(status);
  if (NOTES[name]) group.append(svg("text", { class: "node-note", x: 16, y: 46 }, NOTES[name]));
  const values = isUpright ? [] : counters(group, name, w, columns);
  boxes.set(name, { group, status, values });
  return group;
}

/** Services list their counters; the topic, and the provider on a wide page, have them in one row. */
function counters(group, name, width, columnsOfPage) {
  const list = COUNTERS[name] ?? [];
  const isRow = name === "topic" || (name === "psp" && columnsOfPage === 1);
  const columns = isRow ? Math.max(2, list.length) : columnsOfPage;
  const cell = (width - 32 + 18) / columns;
  const top = name === "psp" ? 74 : name === "topic" ? 48 : 74;
  return list.map(([label, read, meaning, isBad], index) => {
    const x = 16 + (index % columns) * cell;
    const y = top + Math.floor(index / columns) * 22.5;
    const value = svg("text", isRow ? { x, y } : { x: x + cell - 18, y, "text-anchor": "end" }, "–");
    value.classList.add("node-value");
    const name = svg("text", isRow ? { x: x + 34, y } : { x, y }, label);
    const text = svg("g", { class: "node-counter" }, svg("title", {}, meaning), ...(isRow ? [value, name] : [name, value]));
    group.append(text);
    return { read, value, name: isRow ? name : null, text, isBad, x };
  });
}

export function render(state) {
  latest = state;
  const nodes = state.flow?.nodes ?? {};
  for (const [name, { values }] of boxes) {
    const node = nodes[name] ?? {};
    let end = 0;
    for (const { read, value, name: label, text, isBad, x } of values) {
      const number = read(node);
      setText(value, shortCount(number, narrow.matches ? 1_000 : 100_000));
      // In a row the label follows its number, and the next counter follows the label, however wide they are.
      if (label) {
        const at = Math.max(x, end);
        setAttribute(value, "x", at);
        setAttribute(label, "x", at + 8 + 10 * value.textContent.length);
        end = at + 8 + 10 * value.textContent.length + 7 * label.textContent.length + 12;
      }
      setAttribute(text, "data-kind", !number ? "zero" : isBad ? "bad" : "some");
    }
    renderStatus(name, node, state.processes ?? []);
  }
  const rate = state.rate_per_s ?? 0;
  dots.setRate(rate);
  const suffix = dots.areOff() ? ": too fast for dots, see the counters" : "";
  setText(byId("flow-rate"), `${tenths(rate)} orders per second${suffix}`);
  renderMarks(state.marks ?? []);
}

function renderStatus(name, node, processes) {
  const { group, status } = boxes.get(name);
  const own = processes.find((process) => process.name === (PROCESS_OF[name] ?? name));
  const isShownDead = Date.now() < (deaths.get(name) ?? 0);
  const state = isShownDead ? "dead" : (own?.state ?? (node.up === false ? "dead" : "running"));
  setAttribute(group, "data-state", name === "client" ? "running" : state);
  if (name === "client") return;
  const running = own?.pid ? `pid ${own.pid}` : "";
  setText(status, { dead: "✕ dead", paused: "❚❚ paused", starting: "starting …" }[state] ?? running);
}

export function onMark(mark) {
  const name = mark.process === "kafka" ? "topic" : mark.process?.replace(/-\d+$/, "");
  if (["kill", "death"].includes(mark.kind) && boxes.has(name)) {
    deaths.set(name, Date.now() + DEATH_SHOWN_MS);
    setTimeout(() => latest && render(latest), DEATH_SHOWN_MS + 50);
  }
  if (latest) render(latest);
}

export const onMove = (move) => dots.add(move);

function renderMarks(marks) {
  const newest = [...marks].sort((a, b) => new Date(b.t) - new Date(a.t)).slice(0, MARKS_SHOWN);
  keyed(byId("marks"), newest, (mark) => `${mark.t} ${mark.label}`, (mark) =>
    el(
      "li",
      { "data-kind": mark.kind },
      el("time", { datetime: mark.t }, clock(mark.t)),
      el("span", {}, mark.label),
      mark.order_id ? orderLink(mark.order_id) : null,
    ),
  );
}
