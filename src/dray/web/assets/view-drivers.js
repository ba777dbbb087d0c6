/** Drivers: where they publish, what, whether it is whole and healthy, and how long their work takes where somebody measures. */

import { h, name, refill, setAttribute } from "./dom.js";
import { address, select, selection } from "./route.js";
import { PagedTable } from "./table.js";
import { milliseconds, number, POOL_PROBLEMS } from "./words.js";

export class DriversView {
  title = "Drivers";

  constructor(app) {
    this.app = app;
    this.table = driverTable();
    this.problems = problemTable(app);
    this.work = h("div");
    this.counted = countTable();
    this.countPanel = h("section", { class: "panel", hidden: true }, h("h2", {}, "Pools, as the cluster counts them"), this.counted.element);
    this.problemPanel = h("section", { class: "panel" }, h("h2", {}, "Pools with problems"), this.problems.element);
    this.element = h("div", { class: "view view-drivers" }, h("section", { class: "panel" }, h("h2", {}, "Drivers"), this.table.element),
      h("section", { class: "panel" }, h("h2", {}, "Their work on nodes"), this.work), this.countPanel, this.problemPanel);
  }

  show() {}

  update() {
    const { store } = this.app;
    const drivers = [...store.drivers.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    this.table.fill(drivers);
    this.problems.fill([...store.pools.values()].filter((pool) => pool.problem));
    const counted = [...store.pools.values()].filter((pool) => pool.counts);
    setAttribute(this.countPanel, "hidden", !counted.length);
    this.counted.fill(counted);
    const key = `${store.hello.epoch} ${store.version.drivers}`;
    if (key === this.worked) return;
    this.worked = key;
    refill(this.work, workOf(drivers));
  }
}

function driverTable() {
  return new PagedTable({
    caption: "Drivers", empty: "No driver publishes devices, or you may not read resource slices.",
    selected: (row) => { const chosen = selection(); return chosen?.kind === "driver" && chosen.name === row.name; },
    columns: [
      { title: "Driver", cell: (row) => ({ text: row.name, href: select("driver", row.name) }) },
      { title: "Nodes", right: true, cell: (row) => number(row.nodes.length) },
      { title: "Pools", right: true, cell: (row) => number(row.pools) },
      { title: "Slices", right: true, cell: (row) => number(row.slices) },
      { title: "Devices", right: true, cell: (row) => ({ text: number(row.devices), href: address("map", { driver: row.name }) }) },
      { title: "Unhealthy", right: true, cell: (row) => ({ text: number(row.unhealthy), look: row.unhealthy ? "unhealthy" : null }) },
      { title: "Pools with problems", right: true, cell: (row) => ({ text: number(row.incomplete), look: row.incomplete ? "incomplete" : null }) },
      { title: "Generation", right: true, cell: (row) => number(row.generation) },
      { title: "Versions", cell: (row) => row.versions.join(", ") },
    ],
  });
}

/** For who may not read all claims: what a ResourcePoolStatusRequest tells. */
function countTable() {
  const columns = ["Devices", "Allocated", "Available", "Unavailable"].map((title, i) => ({ title, right: true, cell: (row) => number(row.counts[i]) }));
  return new PagedTable({ caption: "Pools, as the cluster counts them", columns: [{ title: "Pool", cell: (row) => row.name }, { title: "Driver", cell: (row) => row.driver }, ...columns] });
}

function problemTable(app) {
  return new PagedTable({
    caption: "Pools with problems", empty: "None: every pool is whole.",
    columns: [
      { title: "Pool", cell: (row) => row.name },
      { title: "Driver", cell: (row) => ({ text: row.driver, href: select("driver", row.driver) }) },
      { title: "Node", cell: (row) => (row.node !== null && app.store.nodes.has(row.node) ? { text: app.store.nodes.get(row.node).name, href: select("node", app.store.nodes.get(row.node).name) } : "") },
      { title: "Slices", right: true, cell: (row) => `${row.slices} of ${row.expected}` },
      { title: "Problem", cell: (row) => POOL_PROBLEMS[row.problem] ?? row.problem },
    ],
  });
}

/** Calls to drivers, measured by who makes them; only a cluster that runs its nodes in the same process has them. */
function workOf(drivers) {
  const measured = drivers.filter((driver) => driver.operations?.length);
  if (!measured.length) return h("p", { class: "empty" }, "Nobody measures calls to drivers here, or you may not read metrics. Node agents have them in theirs.");
  const rows = measured.flatMap((driver) => driver.operations.map((operation) => h("tr", {}, h("th", { scope: "row" }, name(driver.name)), h("td", {}, name(operation.method)),
    h("td", { class: "right" }, number(operation.calls)), h("td", { class: operation.errors ? "right problem" : "right" }, number(operation.errors)), h("td", { class: "right" }, milliseconds(operation.p50)), h("td", { class: "right" }, milliseconds(operation.p99)))));
  return h("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Calls to drivers" }, h("table", {}, h("caption", { class: "unseen" }, "Calls to drivers"),
    h("thead", {}, h("tr", {}, ["Driver", "Call", "Calls", "Errors", "Half within", "99 of 100 within"].map((title, i) => h("th", { scope: "col", class: i > 1 ? "right" : null }, title)))), h("tbody", {}, rows)));
}
