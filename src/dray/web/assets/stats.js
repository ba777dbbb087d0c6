/**
 * The numbers above the map: what is free of each device class, and how many pods wait.
 *
 * Which devices a class has is asked of the server, again when devices or classes come or go; what they are doing is counted
 * here, from the states that the map draws. Sums of all devices are shown only where classes cannot be: to who may not read
 * all claims, and where there are none.
 */

import { h, name, refill, setText } from "./dom.js";
import { isHeld } from "./marks.js";
import { address, change, read } from "./route.js";
import { ask, latest } from "./server.js";
import { number, percent, plural } from "./words.js";

const MOST = 11; // classes that have a card of their own
const FREE = 0;
const SHARED = 3;
const UNPUBLISHED = 8;
const UNKNOWN = 9;

export class StatStrip {
  constructor(app) {
    this.app = app;
    this.devicesOf = null; // by class, as ranges; unknown until the server has answered
    this.failed = false;
    this.asked = "";
    this.asking = latest(50, (key, signal) => ask("classes", {}, signal), (answer) => this.#take(answer.classes), () => this.#take([], true));
    this.waiting = stat("Pods that wait", address("why"));
    this.sums = { devices: stat("Devices"), held: stat("Allocated"), free: stat("Free"), unusable: stat("Not usable") };
    this.cards = new Map();
    this.element = h("dl", { class: "stats" });
  }

  update() {
    const { store, series } = this.app;
    this.#ask(store);
    const byClass = store.classes.size && store.resources.resourceclaims === "all" && store.resources.resourceslices !== "hidden" && !this.failed;
    const parts = byClass ? this.#classCards(store) : this.#sumCards(store);
    put(this.waiting, ...waitingStat(store, series.last));
    const wanted = [...parts, this.waiting].map((part) => part.element);
    if (wanted.length !== this.element.children.length || wanted.some((part, i) => part !== this.element.children[i])) refill(this.element, wanted);
  }

  #ask(store) {
    const key = `${store.hello.epoch} ${store.shape} ${store.version.classes}`;
    if (!store.ready || key === this.asked) return;
    this.asked = key;
    if (store.resources.resourceslices !== "hidden" && store.classes.size) this.asking.ask(key);
  }

  #take(classes, failed = false) {
    this.devicesOf = new Map(classes.map((row) => [row.class, row.devices]));
    this.failed = failed;
    this.app.redraw();
  }

  #classCards(store) {
    const names = [...store.classes.values()].map((row) => row.name).sort();
    const parts = names.slice(0, names.length > MOST + 1 ? MOST : names.length).map((title) => {
      if (!this.cards.has(title)) this.cards.set(title, stat(title, "", () => toggleClass(title)));
      const part = this.cards.get(title);
      put(part, ...classStat(store, this.devicesOf?.get(title), Boolean(this.devicesOf)));
      return part;
    });
    if (names.length === parts.length) return parts;
    this.more ??= stat("Other classes", address("fits"));
    put(this.more, number(names.length - parts.length), "in “What fits”");
    return [...parts, this.more];
  }

  #sumCards(store) {
    const shown = store.resources.resourceslices === "hidden" ? HIDDEN_DEVICES : deviceStats(store);
    for (const [key, text] of Object.entries(shown)) put(this.sums[key], ...text);
    return Object.values(this.sums);
  }
}

/** A card: what it counts, the number, and a note below. */
function stat(label, href = "", press = null) {
  const value = h("dd", { class: "value" });
  const note = h("dd", { class: "note" });
  const title = press ? h("button", { type: "button", class: "plain", title: "Show only these devices, or all", "data-key": `class ${label}`, on: { click: press } }, name(label))
    : href ? h("a", { href }, label) : label;
  return { value, note, element: h("div", { class: "stat panel" }, h("dt", {}, title), value, note) };
}

function put(part, value, note) {
  setText(part.value, value);
  setText(part.note, note);
}

const toggleClass = (wanted) => change({ class: read().params.get("class") === wanted ? null : wanted });

/** `71 of 128 free`, and what the others are. */
function classStat(store, ranges, answered) {
  if (!ranges) return ["…", answered ? "there was no time to look" : ""];
  const { present, state } = store.devices;
  let total = 0, free = 0, shared = 0, held = 0;
  for (const [first, count] of ranges) {
    for (let id = first; id < first + count; id++) {
      if (!present[id]) continue;
      total++;
      if (state[id] === FREE) free++;
      else if (state[id] === SHARED) shared++;
      else if (isHeld(state[id])) held++;
    }
  }
  const lost = total - free - shared - held;
  const others = [held && `${number(held)} allocated`, shared && `${number(shared)} partly shared`, lost && `${number(lost)} not usable`].filter(Boolean);
  return [`${number(free)} of ${number(total)} free`, others.join(", ") || (total ? "" : "no device matches")];
}

const HIDDEN_DEVICES = Object.fromEntries(["devices", "held", "free", "unusable"].map((key) => [key, ["?", "you may not read slices"]]));

/** Each number with what is said below it. Who may not read all claims learns from the cluster what is free, or not at all. */
function deviceStats(store) {
  const counts = store.tally();
  const counted = store.poolCounts();
  const published = store.devices.count - counts[UNPUBLISHED];
  const held = counts[1] + counts[2] + counts[SHARED];
  const devices = [number(published), `on ${plural(store.publishingNodes(), "node")}`];
  if (counted) {
    const [, allocated, available, unavailable] = counted.map(number);
    const byCluster = "as the cluster counts";
    return { devices, held: [allocated, byCluster], free: [available, byCluster], unusable: [unavailable, byCluster] };
  }
  const hidden = store.resources.resourceclaims !== "all";
  return {
    devices,
    held: [number(held + counts[UNPUBLISHED]), hidden ? "by claims that you may read" : percent(held, published)],
    free: hidden ? ["?", `${number(counts[UNKNOWN])} not known to you`] : [number(counts[FREE]), percent(counts[FREE], published)],
    unusable: [number(counts[4] + counts[5] + counts[6] + counts[7]), "tainted, broken or blocked"],
  };
}

function waitingStat(store, last) {
  const shown = store.resources.pods;
  if (shown === "hidden") return ["?", "you may not read pods"];
  const waiting = last?.waiting ?? [...store.pods.values()].filter((pod) => pod.state <= 1).length;
  const rate = last?.allocations == null ? "" : `${plural(last.allocations, "allocation")}/s`;
  return [number(waiting), shown === "namespace" ? "in your namespace" : rate];
}
