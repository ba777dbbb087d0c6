/** Dark or light: as the system has it, unless somebody chose. The choice is kept in this browser. */

import { h, setText } from "./dom.js";

const KEY = "dray-theme";
const CHOICES = { "": "Theme: system", light: "Theme: light", dark: "Theme: dark" };
const system = matchMedia("(prefers-color-scheme: dark)");

export class Theme {
  /** `printing` draws at once, since paper does not wait for the next frame. */
  constructor(changed, printing) {
    this.changed = changed;
    this.printing = false;
    this.button = h("button", { type: "button", class: "quiet", on: { click: () => this.next() } });
    system.addEventListener("change", () => this.apply());
    addEventListener("beforeprint", () => { this.printing = true; printing(); });
    addEventListener("afterprint", () => { this.printing = false; this.changed(); });
    this.choose(kept());
  }

  get dark() {
    return !this.printing && (this.choice ? this.choice === "dark" : system.matches);
  }

  next() {
    const all = Object.keys(CHOICES);
    this.choose(all[(all.indexOf(this.choice) + 1) % all.length]);
  }

  choose(choice) {
    this.choice = choice in CHOICES ? choice : "";
    try {
      localStorage.setItem(KEY, this.choice);
    } catch { /* storage may be closed to the page; the choice then lasts as long as the page */ }
    setText(this.button, CHOICES[this.choice]);
    this.apply();
  }

  apply() {
    document.documentElement.dataset.theme = this.choice || "system";
    this.changed();
  }
}

function kept() {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}
