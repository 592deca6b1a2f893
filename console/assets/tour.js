// A tour of six steps. Each step presses the page's own buttons.

import { hasToken, post } from "./api.js";
import { byId, el, setText } from "./dom.js";
import * as kill from "./kill.js";
import * as place from "./place.js";

const STEPS = [
  {
    title: "Place an order",
    text: "The order service stores the order and responds with 201. Then watch the dots: the order goes through payment, provider, fulfilment and receipt.",
    button: "Place an order",
    at: "place",
    press: () => placed("once", "pm_card_ok"),
    after: "One request, one 201. Within a second or two the order ships, and the provider's books have one more charge.",
  },
  {
    title: "Send it twice",
    text: "A client that gets no response sends its request again. Both requests have the same Idempotency-Key.",
    button: "Send it twice",
    at: "place",
    press: () => placed("twice", "pm_card_ok"),
    after: "The second response is marked as replayed: it is the first one, byte for byte. There is one order.",
  },
  {
    title: "Twenty at once",
    text: "The hard case of a retry: twenty requests with the same key race each other.",
    button: "Send twenty at once",
    at: "place",
    press: () => placed("twenty", "pm_card_ok"),
    after: "One request placed the order. The others got its stored response, or a 409 that asks them to retry. One order, one charge.",
  },
  {
    title: "Kill payment mid-charge",
    text: "The provider takes the money, and payment dies before it can record the charge. Watch the payment box turn red, and the list of steps.",
    button: "Kill payment mid-charge",
    at: "kill",
    press: () => kill.press(),
    after: "The new process found the stored attempt and sent the same key again. The provider returned the existing charge. Charges in its books: 1.",
  },
  {
    title: "Out of stock",
    text: "The card is charged, and then fulfilment finds no stock. The money must be refunded, exactly once.",
    button: "Order a sold-out item",
    at: "place",
    press: () => placed("once", "pm_card_ok", "SKU-sold-out"),
    after: "The order ends as refunded: one charge, one refund. \"Money off by\" is still zero.",
  },
  {
    title: "A slow provider",
    text: "The provider needs longer to charge this card than payment waits. After each timeout the outcome is unknown.",
    button: "Pay with the slow card",
    at: "place",
    press: () => placed("once", "pm_card_slow"),
    after: "Payment marks the attempt as unknown and retries with the same key. Other orders do not wait behind it. The order ships when the provider has charged the card.",
  },
];

let at = -1;
let isBusy = false;

async function placed(mode, method, sku = "SKU-99") {
  place.choose(method, sku);
  const order = await place.place(mode);
  if (order?.order_id) await post("/api/follow", { order_id: order.order_id });
  return order;
}

export function start() {
  byId("tour-start").addEventListener("click", () => go(0));
}

function go(step) {
  at = step;
  const box = byId("tour");
  box.hidden = at < 0;
  highlight(at < 0 ? null : STEPS[at].at);
  if (at < 0) {
    byId("tour-start").focus();
    return;
  }
  const { title, text, button } = STEPS[at];
  const doIt = el("button", { type: "button", class: "button primary", "data-action": true, disabled: !hasToken(), onclick: () => press(doIt) }, button);
  box.replaceChildren(
    el("p", { class: "tour-progress" }, `Step ${at + 1} of ${STEPS.length}`),
    el("h2", { id: "tour-title", tabindex: -1 }, title),
    el("p", { id: "tour-text", role: "status" }, text),
    el(
      "p",
      { class: "tour-buttons" },
      doIt,
      at > 0 ? el("button", { type: "button", class: "button", onclick: () => go(at - 1) }, "Back") : null,
      el("button", { type: "button", class: "button", id: "tour-next", onclick: () => go(at + 1 < STEPS.length ? at + 1 : -1) }, at + 1 < STEPS.length ? "Next" : "Finish"),
      el("button", { type: "button", class: "button quiet", onclick: () => go(-1) }, "End the tour"),
    ),
  );
  byId("tour-title").focus({ preventScroll: true });
}

async function press(button) {
  if (isBusy) return;
  isBusy = true;
  button.disabled = true;
  const step = at;
  await STEPS[step].press();
  isBusy = false;
  button.disabled = !hasToken();
  if (at !== step) return;
  setText(byId("tour-text"), STEPS[step].after);
  byId("tour-next").classList.add("primary");
  button.classList.remove("primary");
}

function highlight(id) {
  for (const card of document.querySelectorAll(".card.in-tour")) card.classList.remove("in-tour");
  if (!id) return;
  byId(id).classList.add("in-tour");
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  byId(id).scrollIntoView({ block: "start", behavior: isStill ? "auto" : "smooth" });
}
