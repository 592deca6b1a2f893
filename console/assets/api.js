// Requests to the console. Every change carries the token; reads need none.

import { notify } from "./dom.js";

const STORED = "console-token";
let onChange = () => {};

/** Moves a token from the link (`#token=…`) to this tab's storage, so that a shared address does not contain it. */
export function takeTokenFromUrl() {
  const match = location.hash.match(/^#token=([^&]+)&?(.*)$/);
  if (!match) return;
  sessionStorage.setItem(STORED, decodeURIComponent(match[1]));
  history.replaceState(null, "", location.pathname + (match[2] ? `#${match[2]}` : ""));
}

export const hasToken = () => Boolean(sessionStorage.getItem(STORED));

export function setToken(token) {
  sessionStorage.setItem(STORED, token.trim());
  onChange();
}

function dropToken() {
  sessionStorage.removeItem(STORED);
  onChange();
}

/** Calls `listener` when the page gets or loses its token. */
export const watchToken = (listener) => (onChange = listener);

export const get = (path) => request("GET", path);
export const post = (path, body = {}) => request("POST", path, body);
export const remove = (path) => request("DELETE", path);

/** Returns the JSON of the response, or null after an error. Errors of actions are shown on the page. */
async function request(method, path, body) {
  let response;
  try {
    response = await fetch(path, { method, headers: headers(method), body: body && JSON.stringify(body) });
  } catch {
    if (method !== "GET") notify("The console does not respond. Check that it is still running.", "error");
    return null;
  }
  const data = await json(response);
  if (response.ok) return data ?? {};
  if (method !== "GET") fail(response.status, data);
  return null;
}

function headers(method) {
  if (method === "GET") return {};
  return { "Content-Type": "application/json", "X-Console-Token": sessionStorage.getItem(STORED) ?? "" };
}

async function json(response) {
  try {
    return await response.json();
  } catch {
    return null;
  }
}

function fail(status, problem) {
  if (status === 401) {
    dropToken();
    notify("The console rejected the token. Open the link that it printed.", "error");
    return;
  }
  const text = problem?.detail ?? problem?.title ?? `The console responded with ${status}.`;
  notify(problem?.instead ? `${text} Run: ${problem.instead}` : text, "error");
}
