// The proof, always on screen. It is red and names the order when an invariant is violated, amber when repaired.

import { byId, el, keyed, orderLink, setAttribute, setText } from "./dom.js";
import { ago, count, money, plural } from "./format.js";

const ICONS = { holds: "✓", violated: "✕", repaired: "!", unknown: "?" };
/** A longer list would push the rest of the page down. The others are counted. */
const PROBLEMS_MAX = 4;

/** Publishes the position of the strip: the timeline opens below it, so that the proof stays visible. */
export function start() {
  const strip = byId("proof");
  const publish = () => {
    const bottom = Math.round(strip.getBoundingClientRect().bottom);
    document.documentElement.style.setProperty("--proof-bottom", `${bottom}px`);
  };
  new ResizeObserver(publish).observe(strip);
  addEventListener("scroll", publish, { passive: true });
  addEventListener("resize", publish);
}

export function render(state) {
  const proof = state.proof;
  const finding = proof.verdict ?? "unknown";
  const strip = byId("proof");
  setAttribute(strip, "data-finding", finding);
  setText(strip.querySelector(".proof-icon"), ICONS[finding] ?? "?");
  setText(byId("proof-title"), title(finding, proof));
  setText(byId("proof-age"), age(proof));
  document.title = finding === "violated" ? "✕ ChargeOnce console" : "ChargeOnce console";
  setText(byId("proof-accepted"), count(proof.accepted));
  setText(byId("proof-once"), count(proof.charged_once));
  byId("proof-once").title = waiting(proof);
  must("proof-more", proof.charged_more, count(proof.charged_more));
  must("proof-lost", proof.lost, count(proof.lost));
  byId("proof-lost").title = `Of ${plural(proof.responses_2xx ?? 0, "2xx response")} that this console received`;
  const difference = proof.money?.difference;
  must("proof-money", difference, money(difference));
  byId("proof-money").title = sum(proof.money);
  renderProblems(proof.problems ?? [], finding);
}

function title(finding, proof) {
  switch (finding) {
    case "holds":
      return proof.accepted ? "Every order is charged at most once" : "No orders yet";
    case "violated":
      return proof.charged_more
        ? `${plural(proof.charged_more, "order was", "orders were")} charged more than once`
        : "An invariant is violated";
    case "repaired":
      return "An invariant was violated, and the damage is repaired";
    default:
      return proof.checked_at ? "Unknown: the databases do not respond" : "Reading the provider's books …";
  }
}

function age(proof) {
  if (!proof.checked_at) return "Not checked yet";
  return `Counted in the provider's own database ${ago(proof.checked_at)}`;
}

function waiting(proof) {
  return `${plural(proof.not_charged_yet ?? 0, "order")} without a charge: on the way, declined or cancelled`;
}

function sum(parts) {
  if (!parts) return "";
  return `charged ${money(parts.charged)} − refunded ${money(parts.refunded)} − due ${money(parts.due)}`;
}

/** Shows a number that must be zero, and highlights it if it is not. */
function must(id, value, text) {
  const node = byId(id);
  setText(node, text);
  setAttribute(node.parentElement, "data-off", value ? "yes" : null);
}

function renderProblems(problems, finding) {
  const list = byId("problems");
  const open = finding === "violated" || finding === "repaired";
  list.hidden = !open || problems.length === 0;
  const shown = list.hidden ? [] : problems.slice(0, PROBLEMS_MAX);
  const key = (problem) => `${problem.severity} ${problem.invariant} ${problem.order_id} ${problem.detail}`;
  keyed(list, shown, key, problemRow);
  const left = problems.length - shown.length;
  if (!list.hidden && left > 0) {
    list.append(el("li", { "data-key": "left" }, `and ${plural(left, "more problem")}`));
  }
}

function problemRow(problem) {
  return el(
    "li",
    { "data-severity": problem.severity },
    el("strong", {}, problem.severity === "repaired" ? "Repaired" : "Violated"),
    el("span", {}, ` ${problem.invariant}: ${problem.detail} `),
    problem.order_id ? orderLink(problem.order_id, "Open this order") : null,
  );
}
