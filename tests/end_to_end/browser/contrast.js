// Texts whose contrast with their background is below WCAG AA, as a list of sentences.
const channels = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
const luminance = ([r, g, b]) => {
  const linear = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
};
const ratio = (a, b) => {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
};
const background = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = channels(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const isLarge = (style) => parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
const findings = [];
let checked = 0;
for (const element of document.body.querySelectorAll("*")) {
  const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join("");
  if (!text || !element.checkVisibility() || element.closest(":disabled, noscript, option, .visually-hidden, .skip")) continue;
  const style = getComputedStyle(element);
  const colour = channels(element.namespaceURI.endsWith("svg") ? style.fill : style.color);
  const found = ratio(colour, background(element));
  checked += 1;
  if (found < (isLarge(style) ? 3 : 4.5)) findings.push(`${text.slice(0, 40)}: ${found.toFixed(2)} (${element.className})`);
}
return { checked, findings };
