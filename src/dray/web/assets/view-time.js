/** The last hour: how full, how many waited, how many allocations a second; and the map as it was at a chosen moment. */

import { h, name, refill, say, setAttribute, setText } from "./dom.js";
import { STATES, swatch } from "./marks.js";
import { change, read } from "./route.js";
import { ask, latest } from "./server.js";
import { spread } from "./store.js";
import { Plot } from "./plot.js";
import { atClock, decimals, lasting, number, plural } from "./words.js";

const NEVER = 10; // the look of a device that did not exist yet
const ABSENT = { code: "absent", label: "Did not exist yet", mark: "dot", fill: ["#f4f5f7", "#15181c"], ink: ["#c3c9d0", "#3a414a"] };
const SCRUBBING = 120;

export class TimeView {
  title = "Time";

  constructor(app) {
    this.app = app;
    this.past = null;
    this.asked = "";
    this.asking = latest(SCRUBBING, (at, epoch, signal) => ask("past", { at }, signal), (answer) => this.#take(answer), (error) => this.#fail(error));
    this.plots = {
      use: new Plot({ title: "Devices in use", colour: ["#0072b2", "#4aa8e8"], top: 100, format: (value, short) => `${decimals(value, short ? 0 : 1)} %` }),
      waiting: new Plot({ title: "Pods that wait", colour: ["#b07c00", "#e0a526"], format: (value) => number(Math.round(value * 10) / 10) }),
      rate: new Plot({ title: "Allocations a second", colour: ["#00795a", "#3fc79a"], format: (value) => number(Math.round(value * 10) / 10) }),
    };
    this.slider = h("input", { id: "moment", type: "range", step: "1", on: { input: (event) => this.#scrub(Number(event.target.value)) } });
    this.moment = h("output", { for: "moment" });
    this.live = h("button", { type: "button", on: { click: () => change({ at: null }) } }, "Back to now");
    this.reach = h("p", { class: "faint" });
    this.note = h("div", { role: "status" });
    this.mapPlace = h("div", { class: "map-place panel" });
    this.legend = h("ul", { class: "legend", "aria-label": "States of devices" });
    this.element = h("div", { class: "view view-time" },
      h("div", { class: "plots" }, Object.values(this.plots).map((plot) => plot.element)),
      h("div", { class: "panel scrubber" }, h("label", { for: "moment" }, "The map at"), this.moment, this.slider, this.live, this.reach, this.note),
      h("div", { class: "bar" }, this.legend), this.mapPlace);
  }

  show() {
    this.mapPlace.append(this.app.map.element);
  }

  #scrub(at) {
    const { series } = this.app;
    const last = series.columns.at.at(-1) ?? at;
    change({ at: at >= last - 1 ? null : String(at) }, { replace: true });
  }

  update() {
    const { store } = this.app;
    const at = Number(read().params.get("at")) || null;
    const key = at ? `${at} ${store.hello.epoch}` : "";
    if (key !== this.asked && (store.ready || !at)) this.#ask(key, at);
    this.#drawPlots(at);
    this.#fillScrubber(at);
    this.#fillLegend();
    this.app.map.show({ lens: this.past ? this.#lens(store) : null });
  }

  #ask(key, at) {
    this.asked = key;
    if (at) return this.asking.ask(at, key);
    this.asking.stop();
    this.past = null;
    refill(this.note);
  }

  #take(answer) {
    this.past = answer;
    const { store } = this.app;
    this.stateThen = Uint8Array.from(store.devices.state);
    this.claimsThen = new Map();
    answer.devices.id.forEach((id, i) => {
      this.stateThen[id] = answer.devices.state[i];
      this.claimsThen.set(id, answer.devices.claims[i]);
    });
    spread(answer.absent, this.stateThen, NEVER);
    refill(this.note, h("p", {}, `${plural(answer.devices.id.length, "device")} differed from now.`),
      answer.gone.length ? h("details", {}, h("summary", {}, `${plural(answer.gone.length, "device")} that existed then and do not now`), h("ul", {}, answer.gone.slice(0, 50).map((one) => h("li", {}, name(`${one.pool}/${one.name}`), " ", STATES[one.state]?.label ?? "", one.claims.length ? [", held by ", name(one.claims.join(", "))] : "")))) : null);
    say(`The map at ${atClock(answer.at)}`);
    this.app.redraw();
  }

  #fail(error) {
    this.past = null;
    refill(this.note, h("p", { class: "problem" }, name(error.message)));
    this.app.redraw();
  }

  #drawPlots(cursor) {
    const { series, dark } = this.app;
    const { at, devices, allocated, waiting, allocations } = series.columns;
    if (!at.length) return;
    const key = `${series.version} ${cursor} ${dark} ${this.element.clientWidth}`;
    if (key === this.plotted) return;
    this.plotted = key;
    const until = at.at(-1);
    const from = Math.min(series.from ?? at[0], until - 60);
    const common = { at, from, until, cursor, dark };
    this.plots.use.draw({ ...common, values: allocated.map((value, i) => (value === null || !devices[i] ? null : (100 * value) / devices[i])) });
    this.plots.waiting.draw({ ...common, values: waiting });
    this.plots.rate.draw({ ...common, values: allocations });
  }

  #fillScrubber(at) {
    const { series, store } = this.app;
    const last = Math.floor(series.columns.at.at(-1) ?? store.now());
    const from = Math.ceil(series.from ?? last);
    setAttribute(this.slider, "min", from);
    setAttribute(this.slider, "max", last);
    if (document.activeElement !== this.slider || !at) this.slider.value = String(at ?? last);
    setAttribute(this.slider, "aria-valuetext", at ? atClock(at) : "now");
    setText(this.moment, at ? `${atClock(at)}, ${lasting(last - at)} ago` : "now");
    setAttribute(this.live, "hidden", !at);
    setText(this.reach, `The history goes back to ${atClock(from)} (${lasting(last - from)}), at most one hour.`);
  }

  #fillLegend() {
    const key = `${this.app.dark} ${Boolean(this.past)}`;
    if (key === this.legended) return;
    this.legended = key;
    const looks = this.past ? [...STATES, ABSENT] : STATES;
    this.legend.replaceChildren(...looks.map((look) => h("li", {}, swatch(look, this.app.dark), look.label)));
  }

  #lens(store) {
    const then = this.stateThen;
    return {
      looks: { key: "past", all: [...STATES, ABSENT] },
      lookOf: (id) => then[id] ?? store.devices.state[id],
      usedOf: () => null,
      labelOf: (id) => {
        const look = then[id] === NEVER ? ABSENT : STATES[then[id] ?? store.devices.state[id]];
        const held = this.claimsThen.get(id);
        return `at ${atClock(this.past.at)}: ${look.label}${held?.length ? `, held by ${held.join(", ")}` : ""}`;
      },
    };
  }
}
