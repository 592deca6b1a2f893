// Break it: processes, crash points, provider faults and the network, one tab each.

import { post, remove } from "./api.js";
import { byId, el, keyed, notify, setAttribute, setText } from "./dom.js";
import { plural, serviceName } from "./format.js";
import * as processes from "./processes.js";

const TABS = [
  ["processes", "Processes"],
  ["points", "Crash points"],
  ["provider", "Provider"],
  ["network", "Network"],
];

export function start() {
  for (const [id, label] of TABS) {
    const tab = el("button", { type: "button", role: "tab", id: `tab-${id}`, "aria-controls": `panel-${id}`, onclick: () => select(id) }, label);
    byId("break-tabs").append(tab);
    byId("break-panels").append(el("div", { role: "tabpanel", id: `panel-${id}`, "aria-labelledby": `tab-${id}`, class: "panel" }));
  }
  byId("break-tabs").addEventListener("keydown", moveBetweenTabs);
  select("processes");
  processes.start(byId("panel-processes"));
}

export function select(chosen) {
  for (const [id] of TABS) {
    const isChosen = id === chosen;
    setAttribute(byId(`tab-${id}`), "aria-selected", String(isChosen));
    byId(`tab-${id}`).tabIndex = isChosen ? 0 : -1;
    byId(`panel-${id}`).hidden = !isChosen;
  }
}

function moveBetweenTabs(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const at = TABS.findIndex(([id]) => byId(`tab-${id}`) === document.activeElement);
  const [id] = TABS[(at + step + TABS.length) % TABS.length];
  select(id);
  byId(`tab-${id}`).focus();
}

export function useCatalog(catalog) {
  byId("panel-points").replaceChildren(
    el("p", { class: "hint" }, "An armed crash point kills the process with kill -9 when the next order reaches that line of code. The process is then restarted."),
    ...groups(catalog.crash_points),
  );
  byId("panel-provider").replaceChildren(
    el("p", { class: "hint" }, "The provider misbehaves on the next charge. Payment must not charge twice, and must not lose the order."),
    el("ul", { class: "faults" }, catalog.provider_faults.map(fault)),
  );
  byId("panel-network").replaceChildren(
    el("p", { class: "hint" }, "Cut a connection, place orders, and connect again: every order still ships."),
    el("ul", { class: "faults" }, catalog.network.map(network)),
  );
}

/** Crash points by service. Payment comes first: its windows are about money. */
function groups(points) {
  const names = [...new Set(points.map((point) => point.service))];
  names.sort((a, b) => (b === "payment") - (a === "payment"));
  return names.map((name) => {
    const own = points.filter((point) => point.service === name).sort((a, b) => (a.window ?? 99) - (b.window ?? 99));
    const summary = el("summary", {}, serviceName(name), el("span", { class: "hint" }, ` ${plural(own.length, "crash point")}`));
    return el("details", { open: name === "payment" }, summary, el("ul", { class: "faults" }, own.map(crashPoint)));
  });
}

function crashPoint({ service, point, window, sentence }) {
  const arm = async () => {
    const armed = await post("/api/crash-points", { service, point });
    if (armed) notify(`Armed. The next order that reaches this point kills ${serviceName(service)}.`);
  };
  const number = window ? el("span", { class: "tag" }, `window ${window}`) : null;
  return row([number, " ", el("span", {}, sentence), " ", el("code", { class: "point" }, point)], button("Arm", arm, `Arm ${service} ${point}`));
}

function fault({ id, label, sentence }) {
  const arm = async () => {
    if (await post("/api/provider-faults", { id })) notify(`Armed: ${label}.`);
  };
  return row([el("strong", {}, label), " ", el("span", {}, sentence)], button("Arm", arm, `Arm ${label}`));
}

function network(link) {
  const { id, label, possible, instead } = link;
  if (!possible) return row([el("strong", {}, label)], processes.insteadOf(instead));
  const toggle = button(link.on ? "Connect again" : "Cut", async () => {
    if (!(await post("/api/network", { cut: id, on: !link.on }))) return;
    link.on = !link.on;
    setText(toggle, link.on ? "Connect again" : "Cut");
    notify(link.on ? `Cut: ${label}.` : `Connected again: ${label}.`);
  });
  return row([el("strong", {}, label)], toggle);
}

const row = (text, action) => el("li", {}, el("div", {}, text), action);

const button = (text, onclick, label) =>
  el("button", { type: "button", class: "button small", "data-action": true, onclick, "aria-label": label }, text);

export function render(state) {
  processes.render(state.processes ?? []);
  renderArmed(state.armed ?? []);
}

function renderArmed(armed) {
  const box = byId("armed");
  box.hidden = armed.length === 0;
  if (!box.firstChild) {
    box.append(el("strong", {}, "Armed"), el("ul"), button("Disarm all", disarmAll));
  }
  keyed(box.querySelector("ul"), armed, (fault) => fault.id, (fault) => el("li", {}, fault.label));
}

async function disarmAll() {
  const [points, faults] = await Promise.all([remove("/api/crash-points"), remove("/api/provider-faults")]);
  if (points && faults) notify("All crash points and faults are disarmed.");
}
