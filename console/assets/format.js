// Numbers, times and money as people read them.

const CURRENCIES = new Map();

/** Formats an amount in minor units. The currency determines the number of decimal digits. */
export function money(minor, currency = "USD") {
  if (minor === null || minor === undefined) return "–";
  if (!CURRENCIES.has(currency)) CURRENCIES.set(currency, moneyFormat(currency));
  const format = CURRENCIES.get(currency);
  if (!format) return `${minor} ${currency}`;
  return format.format(minor / 10 ** format.resolvedOptions().maximumFractionDigits);
}

function moneyFormat(currency) {
  try {
    return new Intl.NumberFormat("en-US", { style: "currency", currency });
  } catch {
    return null;
  }
}

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const TENTHS = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });

/** Formats a count; a dash if it is not known. */
export const count = (value) => (value === null || value === undefined ? "–" : WHOLE.format(value));

const SHORT = new Intl.NumberFormat("en", { notation: "compact" });

/** A count for a narrow place: from the limit on, 25,400 is 25K. */
export const shortCount = (value, limit) => (value >= limit ? SHORT.format(value) : count(value));

export const tenths = (value) => (value === null || value === undefined ? "–" : TENTHS.format(value));

/** Formats a duration with a suitable unit. */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 10) return `${TENTHS.format(ms)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${TENTHS.format(ms / 1000)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const clock = (time) => CLOCK.format(new Date(time));

/** How long ago, in whole units. Page and console run on one machine, or their clocks are close. */
export function ago(time, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - new Date(time)) / 1000));
  if (seconds < 2) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min ago` : `${Math.floor(seconds / 3600)} h ago`;
}

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** Names of services as the page shows them. */
export const serviceName = (name) => ({ psp: "provider", topic: "order-events" })[name] ?? name;
