/** What the colours and marks of the map mean, with how many devices have each. Choosing one filters by it. */

import { h, setAttribute, setText } from "./dom.js";
import { STATES, swatch } from "./marks.js";
import { changed, read } from "./route.js";
import { number } from "./words.js";

/** The legend of states: links, so that it filters by keys, too. States that no device has are left out but for the common. */
export class StateLegend {
  constructor(app) {
    this.app = app;
    this.element = h("ul", { class: "legend", "aria-label": "States of devices" });
    this.items = STATES.map(({ label }) => {
      const count = h("span", { class: "count" });
      const link = h("a", {}, h("span", { class: "swatch-place" }), label, " ", count);
      return { link, count, item: h("li", {}, link) };
    });
    this.element.append(...this.items.map(({ item }) => item));
  }

  update() {
    const { app } = this;
    const counts = app.store.tally();
    const chosen = read().params.get("state");
    this.items.forEach(({ link, count, item }, state) => {
      const { code } = STATES[state];
      setAttribute(item, "hidden", !counts[state] && state > 2);
      setAttribute(link, "href", changed({ state: chosen === code ? null : code }));
      setAttribute(link, "aria-current", chosen === code ? "true" : null);
      setText(count, number(counts[state]));
    });
    if (this.dark !== app.dark) this.#swatches();
  }

  #swatches() {
    this.dark = this.app.dark;
    this.items.forEach(({ link }, state) => link.firstChild.replaceChildren(swatch(STATES[state], this.dark)));
  }
}
