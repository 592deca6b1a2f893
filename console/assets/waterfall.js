// The trace of an order as bars: work in the service's colour, waiting in outbox and topic hatched.

import { el } from "./dom.js";
import { duration, serviceName } from "./format.js";

/** The trace of an order with many retries can be long. Only the first spans are shown. */
const SPANS_MAX = 150;

export function waterfall(trace) {
  if (!trace?.spans?.length) {
    return el("p", { class: "hint" }, "No trace of this order: it is older than the console, was not sampled, or its spans have not arrived yet.");
  }
  const spans = inTreeOrder(trace.spans).slice(0, SPANS_MAX);
  const total = Math.max(1, trace.total_us ?? 0, ...spans.map(({ span }) => span.start_us + span.duration_us));
  const rows = spans.map(({ span, depth }) => bar(span, depth, total));
  const left = trace.spans.length - spans.length;
  const isBroken = spans.filter(({ depth }) => depth === 0).length > 1;
  const services = new Set(trace.spans.map((span) => span.service));
  return el(
    "div",
    { class: "waterfall" },
    el("p", { class: "hint" }, `One trace, ${trace.spans.length} spans in ${services.size} services, ${duration(total / 1000)} in total. `, el("span", { class: "legend-wait", "aria-hidden": "true" }), " is time spent waiting in an outbox or in the topic."),
    el("div", { class: "axis", "aria-hidden": "true" }, [0, 0.25, 0.5, 0.75, 1].map((part) => el("span", {}, duration((total * part) / 1000)))),
    el("ol", {}, rows),
    isBroken ? el("p", { class: "hint" }, "A span without a parent: the process that made the call died before it could report its own span.") : null,
    left ? el("p", { class: "hint" }, `${left} more spans are not shown.`) : null,
  );
}

/** Parents before their children, children by time. A span whose parent is unknown is a root. */
function inTreeOrder(spans) {
  const known = new Set(spans.map((span) => span.id));
  const children = new Map();
  for (const span of spans) {
    const parent = known.has(span.parent) && span.parent !== span.id ? span.parent : null;
    children.set(parent, [...(children.get(parent) ?? []), span]);
  }
  const ordered = [];
  const visit = (parent, depth) => {
    const own = (children.get(parent) ?? []).sort((a, b) => a.start_us - b.start_us);
    children.delete(parent);
    for (const span of own) {
      ordered.push({ span, depth });
      visit(span.id, depth + 1);
    }
  };
  visit(null, 0);
  return ordered;
}

function bar(span, depth, total) {
  const track = el("span", { class: "track" });
  const fill = el("span", { class: "bar", "data-service": span.service, "data-kind": span.kind });
  fill.style.left = `${(100 * span.start_us) / total}%`;
  fill.style.width = `${(100 * span.duration_us) / total}%`;
  track.append(fill);
  const name = el("span", { class: "span-name" }, el("b", {}, serviceName(span.service)), ` ${span.name}`);
  name.style.paddingInlineStart = `${Math.min(depth, 6) * 6}px`;
  const attributes = Object.entries(span.attributes ?? {}).map(([key, value]) => `${key}: ${value}`);
  return el("li", { title: attributes.join("\n") || null, "data-kind": span.kind, "data-service": span.service }, name, track, el("span", { class: "span-time" }, duration(span.duration_us / 1000)));
}
