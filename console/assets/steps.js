// The steps of an order's timeline: what happened, where, in which commit, and the event it published.

import { el } from "./dom.js";
import { clock, duration, serviceName } from "./format.js";

/** Facts that are always shown. The others are shown on demand. */
const MAIN_FACTS = new Set(["provider key", "tries", "amount", "response", "reason", "decline code", "failure code", "error", "next try", "process"]);

let hasDetails = false;

/** The list of steps. Its switch for tables, commits and event ids keeps its position when the list is redrawn. */
export function stepList(steps) {
  if (!steps.length) return el("p", {}, "No steps yet.");
  const first = new Date(steps[0].at);
  const list = el("ol", { class: "steps" }, steps.map((step, index) => stepRow(step, index, first)));
  const box = el("input", { type: "checkbox", id: "timeline-details" });
  box.checked = hasDetails;
  const apply = () => {
    hasDetails = box.checked;
    list.classList.toggle("with-details", hasDetails);
  };
  box.addEventListener("change", apply);
  apply();
  return el("div", {}, el("label", { class: "details-switch" }, box, "Show tables, commits and event ids"), list);
}

function stepRow(step, index, first) {
  const isObserved = step.source === "observed";
  const line = el(
    "p",
    { class: "step-line" },
    el("span", { class: "service", "data-service": step.service }, serviceName(step.service)),
    el("span", { class: "step-what" }, step.what),
    isObserved ? el("span", { class: "tag observed" }, "observed") : null,
  );
  const offset = new Date(step.at) - first;
  const time = el("time", { datetime: step.at, title: clock(step.at) }, index ? `+${offset ? duration(offset) : "0 ms"}` : clock(step.at));
  return el("li", { "data-service": step.service, "data-severity": step.severity ?? "normal" }, time, el("div", {}, line, facts(step)));
}

function facts(step) {
  const pairs = Object.entries(step.facts ?? {}).map(([name, value]) => [name, value, !MAIN_FACTS.has(name)]);
  if (step.table) pairs.push(["table", step.table, true]);
  if (step.commit) pairs.push(["commit", step.commit, true]);
  const event = step.event;
  if (event) {
    pairs.push(["event", `${event.type} ${event.id}`, true]);
    if (event.published_at) pairs.push(["published", clock(event.published_at), true]);
  }
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  if (!shown.length) return null;
  const entry = ([name, value, isDetail]) => el("div", { class: isDetail ? "detail" : null }, el("dt", {}, name), el("dd", {}, String(value)));
  return el("dl", { class: "step-facts" }, shown.map(entry));
}
