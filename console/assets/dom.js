// Builds and updates elements. Data reaches the page as text nodes and attributes only, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** Creates an HTML element. `onclick` and similar names become listeners; an attribute with null or false is omitted. */
export const el = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);

/** The same for SVG. */
export const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** Changes the text only if it differs, so that screen readers do not repeat it and selections stay. */
export function setText(node, text) {
  const value = String(text);
  if (node.textContent !== value) node.textContent = value;
}

export function setAttribute(node, name, value) {
  if (value === null || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/**
 * Makes the children of `parent` match `items`, and keeps the elements of items that stay: focus and
 * scroll position survive an update. `create` and `update` get the element and the item.
 */
export function keyed(parent, items, keyOf, create, update) {
  const old = new Map();
  for (const child of [...parent.children]) old.set(child.dataset.key, child);
  let before = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let node = old.get(key);
    if (!node) {
      node = create(item);
      node.dataset.key = key;
    }
    old.delete(key);
    if (node === before) before = before.nextElementSibling;
    else parent.insertBefore(node, before);
    update?.(node, item);
  }
  for (const gone of old.values()) gone.remove();
}

/** A link to an order's timeline. */
export const orderLink = (id, text) =>
  el("a", { href: `#order=${encodeURIComponent(id)}`, class: "order-id", title: id }, text ?? shortId(id));

/** Keeps the end of the id, where ids differ most: they begin with the time. */
export const shortId = (id) => (id.length > 13 ? `${id.slice(0, 8)}…${id.slice(-4)}` : id);

/** Shows a message at the edge of the window until it is dismissed or times out. Errors stay longer. */
export function notify(text, kind = "info") {
  const box = el("div", { class: "notice", "data-kind": kind });
  const close = () => box.remove();
  box.append(el("span", {}, text), el("button", { type: "button", "aria-label": "Dismiss", onclick: close }, "×"));
  const notices = byId("notices");
  notices.append(box);
  while (notices.children.length > 3) notices.firstElementChild.remove();
  setTimeout(close, kind === "error" ? 10_000 : 5_000);
}
