// Orders that move between the boxes as dots. At high rates there are no dots, only the counters.

import { svg } from "./dom.js";
import { lane } from "./flow-layout.js";

const DOTS_MAX = 30;
const TRAVEL_MS = 750;
/** Orders per second. Above this rate dots would be an unreadable blur that costs CPU. */
const RATE_MAX = 15;

const still = matchMedia("(prefers-reduced-motion: reduce)");
let layer = null;
let nodes = {};
let moving = [];
let frame = 0;
let isTooFast = false;
let followed = null;

export function use(newLayer, newNodes) {
  layer = newLayer;
  nodes = newNodes;
  moving = [];
}

export function setRate(rate) {
  isTooFast = rate > RATE_MAX;
}

export const areOff = () => isTooFast;

/** The order whose dots stand out. */
export function follow(orderId) {
  followed = orderId;
}

export function add(move) {
  const isFollowed = move.order_id === followed;
  if (still.matches || document.hidden || (isTooFast && !isFollowed) || moving.length >= DOTS_MAX) return;
  const line = lane(nodes, move.from, move.to);
  if (!line) return;
  const dot = svg("circle", { r: isFollowed ? 8 : 6, class: "dot", "data-from": move.from, "data-followed": isFollowed });
  layer.append(dot);
  moving.push({ dot, line, startedAt: performance.now() });
  if (!frame) frame = requestAnimationFrame(step);
}

function step(now) {
  moving = moving.filter(({ dot, line, startedAt }) => {
    const part = Math.min(1, Math.max(0, (now - startedAt) / TRAVEL_MS));
    const eased = part < 0.5 ? 2 * part * part : 1 - (2 - 2 * part) ** 2 / 2;
    const [x1, y1, x2, y2] = line;
    dot.setAttribute("cx", x1 + (x2 - x1) * eased);
    dot.setAttribute("cy", y1 + (y2 - y1) * eased);
    if (part === 1) dot.remove();
    return part < 1;
  });
  frame = moving.length ? requestAnimationFrame(step) : 0;
}
