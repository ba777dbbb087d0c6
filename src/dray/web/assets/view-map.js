/** The map with its filters, its legend and the table of the same devices. */

import { Filters } from "./filters.js";
import { h, setAttribute, setText } from "./dom.js";
import { StateLegend } from "./legend.js";
import { SPACE } from "./map-layout.js";
import { isHeld, STATES } from "./marks.js";
import { change, read, select } from "./route.js";
import { PagedTable } from "./table.js";
import { lasting, number, percent, plural } from "./words.js";

const SHOWN = { map: "Map", table: "Table", both: "Both" };
const SIZES = { "": "Automatic", large: "Large", small: "Small", overview: "Overview" };

export class MapView {
  title = "Map";

  constructor(app) {
    this.app = app;
    this.filters = new Filters(app, () => app.redraw());
    this.legend = new StateLegend(app);
    this.table = deviceTable(app);
    this.stats = statStrip();
    const choice = (key, label, options) => {
      const control = h("select", { on: { change: (event) => change({ [key]: event.target.value }) } }, Object.entries(options).map(([value, text]) => h("option", { value }, text)));
      return [control, h("label", { class: "choice" }, h("span", {}, label), control)];
    };
    const [shown, shownLabel] = choice("show", "Show as", SHOWN);
    const [size, sizeLabel] = choice("size", "Cells", SIZES);
    Object.assign(this, { shown, size, sizeLabel });
    this.mapPlace = h("div", { class: "map-place panel" });
    this.element = h("div", { class: "view view-map" }, this.stats.element, this.filters.element,
      h("div", { class: "bar" }, this.legend.element, h("div", { class: "choices" }, sizeLabel, shownLabel)),
      h("div", { class: "panes" }, this.mapPlace, this.table.element));
  }

  show() {
    this.mapPlace.append(this.app.map.element);
  }

  update() {
    const { app } = this;
    this.filters.update();
    this.legend.update();
    this.stats.update(app);
    const shown = read().params.get("show") || "map";
    this.shown.value = shown;
    this.size.value = read().params.get("size") ?? "";
    setAttribute(this.element, "data-show", shown);
    app.map.show({ mask: this.filters.mask, maskKey: this.filters.mask ? this.filters.key : "" });
    if (shown !== "map") this.#fillTable();
  }

  #fillTable() {
    const { map, store } = this.app;
    const { mask } = this.filters;
    const rows = [];
    const groups = map.groups;
    for (const group of groups) for (const tile of group.tiles) for (const cell of tile.cells.filter((id) => id !== SPACE)) {
      for (const id of [cell, ...(tile.parts.get(cell) ?? [])]) if (store.devices.present[id] && (!mask || mask[id])) rows.push(id);
    }
    this.table.fill(rows);
  }
}

function deviceTable(app) {
  const row = (make) => ({ cell: (id) => make(app.store, id) });
  return new PagedTable({
    caption: "Devices",
    empty: "No device to show.",
    selected: (id) => id === app.selectedDevice,
    columns: [
      { title: "Device", ...row((store, id) => ({ text: store.deviceName(id), href: select("device", store.deviceKey(id)) })) },
      { title: "State", ...row((store, id) => ({ text: STATES[store.devices.state[id]].label, look: STATES[store.devices.state[id]].code })) },
      { title: "Node", ...row((store, id) => nodeCell(store.nodeOf(id))) },
      { title: "Driver", ...row((store, id) => store.poolOf(id)?.driver ?? "") },
      { title: "Pool", ...row((store, id) => store.poolOf(id)?.name ?? "") },
      { title: "Held by", ...row((store, id) => claimCell(store, id)) },
      { title: "For", right: true, ...row((store, id) => (store.devices.since[id] ? lasting(store.now() - store.devices.since[id]) : "")) },
    ],
  });
}

const nodeCell = (node) => (node ? { text: node.name, href: select("node", node.name) } : "");

function claimCell(store, id) {
  const claims = store.claimsOf(id);
  if (!claims.length) return isHeld(store.devices.state[id]) && store.resources.resourceclaims !== "all" ? "hidden from you" : "";
  const label = `${claims[0].namespace}/${claims[0].name}`;
  return { text: label, href: select("claim", label), note: claims.length > 1 ? `and ${claims.length - 1} more` : "" };
}

/** The five numbers that people look for first. */
function statStrip() {
  const stat = (label) => {
    const value = h("dd", { class: "value" });
    const note = h("dd", { class: "note" });
    return { value, note, element: h("div", { class: "stat panel" }, h("dt", {}, label), value, note) };
  };
  const parts = { devices: stat("Devices"), held: stat("Allocated"), free: stat("Free"), unusable: stat("Not usable"), waiting: stat("Pods that wait") };
  const element = h("dl", { class: "stats" }, Object.values(parts).map((part) => part.element));
  const put = (part, value, note) => { setText(part.value, value); setText(part.note, note); };
  return {
    element,
    update({ store, series }) {
      const devices = store.resources.resourceslices === "hidden" ? HIDDEN_DEVICES : deviceStats(store);
      for (const [key, shown] of Object.entries(devices)) put(parts[key], ...shown);
      put(parts.waiting, ...waitingStat(store, series.last));
    },
  };
}

const HIDDEN_DEVICES = Object.fromEntries(["devices", "held", "free", "unusable"].map((key) => [key, ["?", "you may not read slices"]]));

/** Each number with what is said below it. Who may not read all claims learns from the cluster what is free, or not at all. */
function deviceStats(store) {
  const counts = store.tally();
  const counted = store.poolCounts();
  const published = store.devices.count - counts[8];
  const held = counts[1] + counts[2] + counts[3];
  const devices = [number(published), `on ${plural(store.publishingNodes(), "node")}`];
  if (counted) {
    const [, allocated, available, unavailable] = counted.map(number);
    const byCluster = "as the cluster counts";
    return { devices, held: [allocated, byCluster], free: [available, byCluster], unusable: [unavailable, byCluster] };
  }
  const hidden = store.resources.resourceclaims !== "all";
  return {
    devices,
    held: [number(held + counts[8]), hidden ? "by claims that you may read" : percent(held, published)],
    free: hidden ? ["?", `${number(counts[9])} not known to you`] : [number(counts[0]), percent(counts[0], published)],
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
