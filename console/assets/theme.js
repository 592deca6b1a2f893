// Light or dark: the system's setting, until the user chooses.

import { byId, setText } from "./dom.js";

const STORED = "console-theme";

export function start() {
  const button = byId("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const label = () => setText(button, isDark() ? "Light" : "Dark");
  const chosen = localStorage.getItem(STORED);
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  button.setAttribute("aria-label", "Switch between light and dark");
  button.addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem(STORED, next);
    label();
  });
  system.addEventListener("change", label);
  label();
}
