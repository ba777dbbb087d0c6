/** The map with its filters, its legend and the table of the same devices. */

import { Filters } from "./filters.js";
import { h, setAttribute } from "./dom.js";
import { StateLegend } from "./legend.js";
import { SPACE } from "./map-layout.js";
import { isHeld, STATES } from "./marks.js";
import { change, read, select } from "./route.js";
import { StatStrip } from "./stats.js";
import { PagedTable } from "./table.js";
import { lasting } from "./words.js";

const SHOWN = { map: "Map", table: "Table", both: "Both" };
const SIZES = { "": "Automatic", large: "Large", small: "Small", overview: "Overview" };

export class MapView {
  title = "Map";

  constructor(app) {
    this.app = app;
    this.filters = new Filters(app, () => app.redraw());
    this.legend = new StateLegend(app);
    this.table = deviceTable(app);
    this.stats = new StatStrip(app);
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
    this.stats.update();
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
