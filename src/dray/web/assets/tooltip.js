/** What the map says about the device under the pointer or the cursor, without opening it. */

import { details, remembered } from "./details.js";
import { h, name, refill, say } from "./dom.js";
import { STATES } from "./marks.js";
import { lasting } from "./words.js";

const REST = 180; // milliseconds on a device before its attributes are asked for
const MOST = 8;

/** One sentence about a device, for who hears the page. */
export function describe(store, id, lens) {
  const { devices } = store;
  const pool = store.poolOf(id);
  const node = store.nodeOf(id)?.name;
  const holders = store.claimsOf(id).map((claim) => `${claim.namespace}/${claim.name}`);
  const parts = [
    `${store.deviceName(id)}${node ? ` on ${node}` : ""}`,
    lens?.labelOf?.(id) ?? STATES[devices.state[id]]?.label ?? "",
    `driver ${pool?.driver ?? "unknown"}`,
    holders.length ? `held by ${holders.join(" and ")}` : "",
    devices.since[id] ? `for ${lasting(store.now() - devices.since[id])}` : "",
  ];
  return parts.filter(Boolean).join(", ");
}

export class Tooltip {
  constructor(app) {
    this.app = app;
    this.element = h("div", { class: "tooltip", hidden: true, "aria-hidden": "true" });
    this.id = null;
    document.body.append(this.element);
  }

  /** `aloud`: for who hears the page, too. */
  show(id, x, y, lens, aloud = false) {
    if (this.id !== id) {
      this.id = id;
      this.#fill(id, lens);
      if (aloud) say(describe(this.app.store, id, lens));
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.#more(id, lens, aloud), REST);
    }
    this.element.hidden = false;
    const { offsetWidth, offsetHeight } = this.element;
    const left = x + 14 + offsetWidth > innerWidth ? x - 14 - offsetWidth : x + 14;
    const top = y + 14 + offsetHeight > innerHeight ? y - 14 - offsetHeight : y + 14;
    this.element.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
  }

  hide() {
    clearTimeout(this.timer);
    this.id = null;
    this.element.hidden = true;
  }

  async #more(id, lens, aloud) {
    const found = await details(this.app.store, id).catch(() => null);
    if (!found || this.id !== id) return;
    this.#fill(id, lens);
    if (aloud) say([describe(this.app.store, id, lens), ...facts(found).map(([key, value]) => `${key} ${value}`)].join(", "));
  }

  #fill(id, lens) {
    const { store } = this.app;
    const { devices } = store;
    const pool = store.poolOf(id);
    const claims = store.claimsOf(id);
    const rows = [
      ["node", store.nodeOf(id)?.name],
      ["driver", pool?.driver],
      ["pool", pool?.name],
      ["held by", claims.map((claim) => `${claim.namespace}/${claim.name}`).join(", ")],
      ["for", devices.since[id] ? lasting(store.now() - devices.since[id]) : ""],
      ...facts(remembered(store, id)),
    ];
    const shown = rows.filter(([, value]) => value);
    refill(
      this.element,
      h("div", { class: "tooltip-title" }, name(store.deviceName(id))),
      h("div", { class: "tooltip-state" }, lens?.labelOf?.(id) ?? STATES[devices.state[id]]?.label ?? ""),
      h("dl", {}, shown.map(([key, value]) => [h("dt", {}, name(key)), h("dd", {}, name(String(value)))]).flat()),
    );
  }
}

function facts(found) {
  if (!found) return [];
  const attributes = Object.entries(found.attributes).map(([key, { value }]) => [key, String(value)]);
  const capacity = Object.entries(found.capacity).map(([key, { value, used }]) => [key, used ? `${used} of ${value}` : value]);
  return [...attributes, ...capacity].slice(0, MOST);
}
