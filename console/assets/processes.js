// The table of processes with kill, pause and resume. It shows each death and each return for a while.

import { post } from "./api.js";
import { el, keyed, notify, setAttribute, setText } from "./dom.js";
import { ago, serviceName } from "./format.js";

const ACTIONS = { kill: "Kill", pause: "Pause", resume: "Resume" };
const DEATH_SHOWN_MS = 1_600;

const deaths = new Map();
let body = null;
let latest = [];

export function start(panel) {
  body = el("tbody");
  const head = ["Process", "State", "Pid", "Restarts", "Actions"].map((text) => el("th", { scope: "col" }, text));
  const table = el("table", { class: "processes" }, el("thead", {}, el("tr", {}, head)), body);
  panel.append(
    el("p", { class: "hint" }, "Kill is kill -9. A process that dies is restarted. A paused process keeps its connections and leases."),
    el("div", { class: "scroll-x", role: "region", "aria-label": "Processes", tabindex: 0 }, table),
  );
}

export function render(list) {
  latest = list;
  keyed(body, list, (process) => process.name, create, update);
}

export function onMark(mark) {
  if (!["kill", "death"].includes(mark.kind) || !mark.process) return;
  deaths.set(mark.process, Date.now() + DEATH_SHOWN_MS);
  render(latest);
  setTimeout(() => render(latest), DEATH_SHOWN_MS + 50);
}

function create(process) {
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, serviceName(process.name)),
    el("td", {}, el("span", { class: "state" })),
    el("td", { class: "number pid" }),
    el("td", { class: "number restarts" }),
    el("td", { class: "actions" }),
  );
}

function update(row, process) {
  const isShownDead = Date.now() < (deaths.get(process.name) ?? 0);
  const state = isShownDead ? "dead" : process.state;
  const pill = row.querySelector(".state");
  setAttribute(row, "data-state", state);
  setAttribute(pill, "data-state", state);
  setText(pill, state);
  pill.title = process.since ? `started ${ago(process.since)}` : "";
  setText(row.querySelector(".pid"), process.pid ?? "–");
  setText(row.querySelector(".restarts"), process.restarts ?? 0);
  updateActions(row.querySelector(".actions"), process);
}

function updateActions(cell, process) {
  const actions = process.actions ?? [];
  const key = actions.join() || process.instead || "none";
  if (cell.dataset.offered === key) return;
  const hadFocus = cell.contains(document.activeElement);
  cell.dataset.offered = key;
  const buttons = actions.map((action) => actionButton(process.name, action));
  cell.replaceChildren(...(buttons.length ? buttons : [insteadOf(process.instead)].filter(Boolean)));
  if (hadFocus) cell.querySelector("button")?.focus();
}

function actionButton(name, action) {
  const press = async () => {
    await post(`/api/processes/${encodeURIComponent(name)}/${action}`);
  };
  const style = action === "kill" ? "button small danger-quiet" : "button small";
  const label = `${ACTIONS[action] ?? action} ${serviceName(name)}`;
  return el("button", { type: "button", class: style, "data-action": true, "aria-label": label, onclick: press }, ACTIONS[action] ?? action);
}

/** Shows the command to run where the console itself cannot act. */
export function insteadOf(command) {
  if (!command) return el("span", { class: "hint" }, "not possible here");
  const copy = async () => {
    await navigator.clipboard?.writeText(command);
    notify("Copied.");
  };
  return el("span", { class: "instead" }, el("code", {}, command), el("button", { type: "button", class: "button small", onclick: copy }, "Copy"));
}
