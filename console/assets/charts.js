// Over time: three small charts with one time axis, and a line for every fault.

import { byId, el, setAttribute, setText, svg } from "./dom.js";
import { clock, count, duration, tenths } from "./format.js";

const WIDTH = 240;
const HEIGHT = 150;
const TOP = 14;
const BOTTOM = 18;
const SPAN_S = 600;
/** A new system has little to show: the axis grows from this to the whole span. */
const SPAN_MIN_S = 120;
/** Redrawing is not free, and the series has one point per second. */
const REDRAW_MS = 1_000;

const CHARTS = [
  { title: "Orders per second", lines: [["accepted", "accepted"], ["shipped", "shipped"]], format: tenths },
  { title: "Request → shipped", lines: [["p50_ms", "p50"], ["p99_ms", "p99"]], format: duration },
  { title: "Backlog", lines: [["backlog", "waiting"]], format: count },
];
const FAULTS = new Set(["kill", "death", "pause", "fault", "arm", "cut"]);

const drawn = [];
let drawnAt = 0;
let isVisible = true;
let latest = null;

export function start() {
  for (const chart of CHARTS) {
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img" });
    const legend = el("p", { class: "legend" });
    byId("charts").append(el("figure", {}, el("figcaption", {}, el("strong", {}, chart.title), legend), picture));
    drawn.push({ ...chart, picture, legend });
  }
  const onScreen = (entries) => {
    isVisible = entries.at(-1).isIntersecting;
    if (latest) render(latest);
  };
  new IntersectionObserver(onScreen, { rootMargin: "200px" }).observe(byId("time"));
}

export function render(state) {
  latest = state;
  const now = Date.now();
  if (!isVisible || now - drawnAt < REDRAW_MS) return;
  drawnAt = now;
  const series = state.series ?? [];
  const end = new Date(state.at).getTime() / 1000;
  const oldest = Math.min(end, series[0]?.t ?? end, ...(state.marks ?? []).map((mark) => new Date(mark.t) / 1000));
  const span = Math.min(SPAN_S, Math.max(SPAN_MIN_S, end - oldest + 5));
  const x = (t) => WIDTH - ((end - t) / span) * WIDTH;
  const points = series.filter((point) => point.t >= end - span);
  for (const chart of drawn) draw(chart, points, state.marks ?? [], x, span);
}

function draw(chart, points, marks, x, span) {
  const values = chart.lines.flatMap(([key]) => points.map((point) => point[key] ?? 0));
  const top = niceTop(Math.max(...values, 0));
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const parts = [
    svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(0), y2: y(0) }),
    svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: y(top), y2: y(top) }),
    svg("text", { class: "tick", x: 2, y: y(top) - 4 }, chart.format(top)),
    svg("text", { class: "tick", x: 0, y: HEIGHT - 4 }, `${Math.round(span / 60)} min ago`),
    svg("text", { class: "tick", x: WIDTH, y: HEIGHT - 4, "text-anchor": "end" }, "now"),
    ...marks.filter((mark) => x(new Date(mark.t) / 1000) >= 0).map((mark) => markLine(mark, x(new Date(mark.t) / 1000))),
    ...chart.lines.map(([key], index) => svg("path", { class: `line line-${index}`, d: path(points, key, x, y) })),
  ];
  chart.picture.replaceChildren(...parts);
  describe(chart, points.at(-1) ?? {});
}

function describe(chart, last) {
  const texts = chart.lines.map(([key, label]) => `${label} ${chart.format(last[key])}`);
  setAttribute(chart.picture, "aria-label", `${chart.title}: ${texts.join(", ")}`);
  if (chart.legend.children.length === 0) {
    chart.legend.append(...chart.lines.map((_, index) => el("span", { class: `legend-${index}` })));
  }
  texts.forEach((text, index) => setText(chart.legend.children[index], text));
}

function markLine(mark, x) {
  const kind = mark.kind === "return" || mark.kind === "heal" || mark.kind === "resume" ? "heal" : FAULTS.has(mark.kind) ? "fault" : "other";
  return svg(
    "g",
    { class: "mark", "data-kind": kind },
    svg("title", {}, `${clock(mark.t)} ${mark.label}`),
    svg("line", { x1: x, x2: x, y1: TOP - 4, y2: HEIGHT - BOTTOM }),
    svg("circle", { cx: x, cy: TOP - 5, r: 3.5 }),
  );
}

/** The line has a gap where a value is missing. */
function path(points, key, x, y) {
  let d = "";
  let isOpen = false;
  for (const point of points) {
    const value = point[key];
    if (value === null || value === undefined) {
      isOpen = false;
      continue;
    }
    d += `${isOpen ? "L" : "M"}${x(point.t).toFixed(1)} ${y(value).toFixed(1)}`;
    // A single point is drawn as a short line.
    if (!isOpen) d += "h0.5";
    isOpen = true;
  }
  return d;
}

/** 1, 2 or 5 times a power of ten. */
function niceTop(value) {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((step) => step * power >= value);
}
