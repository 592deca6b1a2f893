// The button that kills payment while the provider processes a charge, and the steps that follow.

import { get, hasToken, post } from "./api.js";
import { byId, el, keyed, orderLink, setAttribute, setText } from "./dom.js";
import { duration, plural } from "./format.js";

const POLL_MS = 600;
/** After this the page says that the order takes longer than usual, and keeps polling. */
const LATE_MS = 45_000;
/** After this it stops polling: the order may be deleted, or another fault may delay it. */
const GIVE_UP_MS = 180_000;
const FINAL = ["shipped", "refunded", "declined", "cancelled", "failed"];

let run = null;
let latest = null;

export function start() {
  byId("kill-button").addEventListener("click", press);
  renderSteps();
}

export function render(state) {
  latest = state;
  if (!run) return;
  // The state has the marks too, so that a dropped stream loses none of them.
  for (const mark of state.marks ?? []) if (run && mark.t >= run.since) onMark(mark);
  if (!run) return;
  // The books can change after the end: a second charge must not hide behind an old 1.
  const line = run.isDone && state.orders?.find((order) => order.order_id === run.orderId);
  if (line && run.timeline && Number.isInteger(line.charges)) run.timeline.charges_in_books = line.charges;
  renderSteps();
}

export function onMark(mark) {
  if (mark.kind === "reset") forget();
  if (!run || run.isDone || !/^payment(-\d+)?$/.test(mark.process ?? "")) return;
  if (["kill", "death"].includes(mark.kind) && !run.killed) {
    run.killed = mark;
    run.pid = run.pids.get(mark.process);
    run.orderId ??= mark.order_id;
  }
  if (mark.kind === "return" && run.killed?.process === mark.process) run.back = mark;
  renderSteps();
}

/** A reset deletes the order, so there is nothing to follow. */
function forget() {
  if (!run) return;
  run = null;
  setText(byId("kill-result"), "Press the button and watch the count.");
  renderSteps();
}

/** Resolves when the order is in a terminal state; the tour waits for it. */
export async function press() {
  if (run && !run.isDone) return;
  const button = byId("kill-button");
  button.disabled = true;
  const mine = { startedAt: Date.now(), since: latest?.at ?? "", pids: pids(), isDone: false };
  run = mine;
  setText(byId("kill-result"), "Placing an order. The provider will take the money and hold back its response …");
  renderSteps();
  const placed = await post("/api/scenario/kill-mid-charge");
  if (placed?.order_id) {
    mine.orderId = placed.order_id;
    await follow(mine);
  } else {
    setText(byId("kill-result"), "The scenario failed. The message at the edge of the window says why.");
  }
  mine.isDone = true;
  renderSteps();
  button.disabled = !hasToken();
}

async function follow(mine) {
  while (!mine.isDone) {
    const timeline = await get(`/api/orders/${encodeURIComponent(mine.orderId)}`);
    if (timeline) mine.timeline = timeline;
    mine.isDone = Boolean(mine.back && timeline && FINAL.includes(timeline.status) && timeline.charges_in_books);
    mine.isLate = Date.now() - mine.startedAt > LATE_MS;
    renderSteps();
    if (!mine.isDone) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    if (run !== mine || Date.now() - mine.startedAt > GIVE_UP_MS) return;
  }
}

const pids = () => new Map((latest?.processes ?? []).map((process) => [process.name, process.pid]));

/** What the page knows, as steps: each is waiting, active or done. */
function steps() {
  const known = run ?? {};
  const timeline = known.timeline;
  const isPaid = Boolean(timeline?.charges_in_books) && timeline.status !== "placed";
  const isFinal = Boolean(timeline) && FINAL.includes(timeline.status);
  const list = [
    ["Place an order", Boolean(known.orderId || known.killed), orderDetail(known)],
    ["The provider takes the money", Boolean(known.killed || timeline?.charges_in_books), keyDetail(known)],
    ["kill -9 payment, before it records the charge", Boolean(known.killed), known.killed && known.pid ? `process ${known.pid} is gone` : null],
    ["A new payment process starts", Boolean(known.back), backDetail(known)],
    ["It sends the same key and gets the same charge", isPaid, triesDetail(timeline)],
    [isFinal && timeline.status !== "shipped" ? `The order is ${timeline.status}` : "The order ships", isFinal, shipDetail(timeline)],
  ];
  const active = run && !run.isDone ? list.findIndex(([, isDone]) => !isDone) : -1;
  return list.map(([text, isDone, detail], index) => ({
    index,
    text,
    detail,
    state: isDone ? "done" : index === active ? "active" : "waiting",
    isKill: index === 2,
  }));
}

const orderDetail = (known) => (known.orderId ? orderLink(known.orderId) : null);

function keyDetail(known) {
  return known.orderId ? el("code", {}, `pay:${known.orderId.slice(0, 8)}…:1`) : null;
}

function backDetail(known) {
  if (!known.back || !known.killed) return null;
  const gap = duration(new Date(known.back.t) - new Date(known.killed.t));
  const pid = pids().get(known.back.process);
  return pid && pid !== known.pid ? `process ${pid}, after ${gap}` : `after ${gap}`;
}

function triesDetail(timeline) {
  const tries = Math.max(0, ...(timeline?.steps ?? []).map((step) => Number(step.facts?.tries) || 0));
  return tries > 1 ? plural(tries, "try", "tries") : null;
}

function shipDetail(timeline) {
  const [first, last] = [timeline?.steps?.[0], timeline?.steps?.at(-1)];
  if (!first || !last || !FINAL.includes(timeline.status)) return null;
  return `${duration(new Date(last.at) - new Date(first.at))} after the request`;
}

function renderSteps() {
  setText(byId("kill-label"), run && !run.isDone ? "Watch what happens …" : "Kill payment mid-charge");
  keyed(byId("kill-steps"), steps(), (step) => step.index, stepRow, updateStep);
  renderBooks();
}

function stepRow() {
  return el(
    "li",
    {},
    el("span", { class: "stage-dot", "aria-hidden": "true" }),
    el("span", { class: "stage-text" }),
    el("span", { class: "stage-detail" }),
  );
}

function updateStep(row, step) {
  setAttribute(row, "data-state", step.state);
  setAttribute(row, "data-kill", step.isKill ? "yes" : null);
  setAttribute(row, "aria-current", step.state === "active" ? "step" : null);
  setText(row.querySelector(".stage-text"), step.text);
  const detail = row.querySelector(".stage-detail");
  const text = step.detail?.textContent ?? step.detail ?? "";
  if (detail.textContent !== text) detail.replaceChildren(...(step.detail ? [step.detail] : []));
}

function renderBooks() {
  const charges = run?.timeline?.charges_in_books;
  const kind = typeof charges !== "number" ? "none" : charges > 1 ? "many" : String(charges);
  setAttribute(byId("kill-books"), "data-charges", kind);
  setText(byId("kill-charges"), charges ?? "?");
  if (run?.orderId) setText(byId("kill-result"), result(run));
}

function result(known) {
  const { timeline } = known;
  if (!known.killed) return "Waiting for payment to die …";
  if (timeline?.charges_in_books > 1) return "The customer was charged more than once. Open the order to see why.";
  if (!known.back) return "The provider has taken the money, and payment died before it could record the charge.";
  if (known.isDone && timeline?.status === "shipped") {
    return "Payment had stored the attempt and its key before the call. The new process sent the same key, and the provider returned the existing charge. The customer paid once.";
  }
  if (known.isDone) return `The order is ${timeline?.status ?? "unknown"}. Open it to see why.`;
  if (known.isLate) return "This takes longer than usual. The page keeps polling.";
  return "Payment is back. When the lease of the dead process expires, the new one sends the same key again.";
}
