// The steps of an order's story: what happened, where, in which commit, and the event it published.

import { el } from "./dom.js";
import { clock, duration, serviceName } from "./format.js";

export function stepList(steps) {
  if (!steps.length) return el("p", {}, "No step yet.");
  const first = new Date(steps[0].at);
  return el("ol", { class: "steps" }, steps.map((step) => stepRow(step, first)));
}

function stepRow(step, first) {
  const isObserved = step.source === "observed";
  const line = el(
    "p",
    { class: "step-line" },
    el("span", { class: "service", "data-service": step.service }, serviceName(step.service)),
    el("span", { class: "step-what" }, step.what),
    isObserved ? el("span", { class: "tag observed" }, "observed") : null,
  );
  const offset = new Date(step.at) - first;
  const time = el("time", { datetime: step.at, title: clock(step.at) }, offset ? `+${duration(offset)}` : clock(step.at));
  return el("li", { "data-service": step.service, "data-severity": step.severity ?? "normal" }, time, el("div", {}, line, details(step)));
}

function details(step) {
  const pairs = Object.entries(step.facts ?? {});
  if (step.table) pairs.push(["table", step.table]);
  if (step.commit) pairs.push(["commit", step.commit]);
  const event = step.event;
  if (event) {
    pairs.push(["event", `${event.type} ${event.id}`]);
    if (event.published_at) pairs.push(["published", clock(event.published_at)]);
  }
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  if (!shown.length) return null;
  return el("dl", { class: "step-facts" }, shown.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value)))));
}
