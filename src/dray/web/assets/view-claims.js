/** Claims with the states of their life, and the groups and workloads that share them. */

import { h, setAttribute, setText } from "./dom.js";
import { Lifecycle } from "./lifecycle.js";
import { address, change, changed, read, select, selection } from "./route.js";
import { PagedTable } from "./table.js";
import { CLAIM_STATES, lasting, number, plural, POD_STATES, SHOWN } from "./words.js";

const KINDS = { claims: "Claims", groups: "Groups and workloads", pods: "Pods" };


export class ClaimsView {
  title = "Claims";

  constructor(app) {
    this.app = app;
    this.lifecycle = new Lifecycle();
    this.tables = { claims: claimTable(app), groups: groupTable(app), pods: podTable(app) };
    this.find = h("input", { id: "find", type: "search", placeholder: "namespace or name", autocomplete: "off", on: { input: (event) => change({ find: event.target.value }, { replace: true }) } });
    this.tabs = Object.entries(KINDS).map(([kind, title]) => [kind, h("a", {}, title)]);
    this.hidden = h("p", { class: "notice", hidden: true });
    this.tablePlace = h("div", { class: "panel" });
    this.lifeplace = h("section", { class: "panel", "aria-label": "Life of a claim" }, h("h2", {}, "Life of a claim"), this.lifecycle.element);
    this.element = h("div", { class: "view view-claims" }, this.lifeplace,
      h("div", { class: "bar" }, h("nav", { class: "tabs", "aria-label": "What is listed" }, this.tabs.map(([, link]) => link)), h("label", { for: "find", class: "choice" }, h("span", {}, "Find"), this.find)),
      this.hidden, this.tablePlace);
  }

  show() {}

  update() {
    const { store } = this.app;
    const { params } = read();
    const kind = KINDS[params.get("list")] ? params.get("list") : "claims";
    for (const [one, link] of this.tabs) {
      setAttribute(link, "href", changed({ list: one === "claims" ? null : one, state: null }));
      setAttribute(link, "aria-current", one === kind ? "page" : null);
      setText(link, `${KINDS[one]} ${number(store[one].size)}`);
    }
    if (this.find.value !== (params.get("find") ?? "")) this.find.value = params.get("find") ?? "";
    this.lifecycle.update(store, params.get("state"));
    this.#hint(store, kind);
    const table = this.tables[kind];
    if (this.tablePlace.firstChild !== table.element) this.tablePlace.replaceChildren(table.element);
    table.fill(this.#rows(store, kind, params));
  }

  #hint(store, kind) {
    const resources = { claims: ["resourceclaims"], groups: ["podgroups", "workloads"], pods: ["pods"] }[kind];
    const words = resources.filter((resource) => SHOWN[store.resources[resource]]).map((resource) => `${resource}: ${SHOWN[store.resources[resource]]}`);
    setAttribute(this.hidden, "hidden", !words.length);
    setText(this.hidden, words.join("; "));
  }

  #rows(store, kind, params) {
    const find = (params.get("find") ?? "").toLowerCase();
    const state = params.get("state");
    const rows = [];
    for (const row of store[kind].values()) {
      if (find && !`${row.namespace}/${row.name}`.includes(find)) continue;
      if (state && kind === "claims" && row.state !== state) continue;
      rows.push(row);
    }
    return rows.reverse();
  }
}

const full = (row) => `${row.namespace}/${row.name}`;
const isSelected = (kind) => (row) => { const chosen = selection(); return chosen?.kind === kind && chosen.name === full(row); };
const more = (items) => (items.length > 1 ? `and ${items.length - 1} more` : "");

function claimTable(app) {
  return new PagedTable({
    caption: "Claims", empty: "No claim to show.", selected: isSelected("claim"),
    columns: [
      { title: "Claim", cell: (row) => ({ text: full(row), href: select("claim", full(row)) }) },
      { title: "State", cell: (row) => CLAIM_STATES[row.state] ?? row.state },
      { title: "Requests", cell: (row) => row.requests.map(([request, ofClass, count, alternatives]) => (alternatives.length ? `${request}: first of ${alternatives.length}` : `${count} × ${ofClass}`)).join(", ") },
      { title: "Devices", cell: (row) => deviceCell(app.store, row) },
      { title: "Reserved for", cell: (row) => consumerCell(row) },
      { title: "Prepared", cell: (row) => preparedCell(row) },
      { title: "Node", cell: (row) => nodeCell(app.store, row) },
      { title: "Age", right: true, cell: (row) => lasting(app.store.now() - row.created) },
    ],
  });
}

function deviceCell(store, { devices }) {
  const shown = devices.filter((id) => store.devices.present[id]);
  return shown.length ? { text: store.deviceName(shown[0]), href: select("device", store.deviceKey(shown[0])), note: more(devices) } : "";
}

function consumerCell({ namespace, consumers }) {
  if (!consumers.length) return "";
  const [resource, consumer] = consumers[0];
  return resource === "pods" ? { text: consumer, href: select("pod", `${namespace}/${consumer}`), note: more(consumers) } : { text: `${resource}/${consumer}`, note: more(consumers) };
}

const preparedCell = ({ prepared, devices }) => (prepared.length ? `${prepared.filter(([, ready]) => ready !== false).length} of ${devices.length}` : "");
const nodeCell = (store, { node }) => (node !== null && store.nodes.has(node) ? { text: store.nodes.get(node).name, href: select("node", store.nodes.get(node).name) } : "");

function groupTable(app) {
  return new PagedTable({
    caption: "Groups and workloads", empty: "No group or workload to show.", selected: isSelected("group"),
    columns: [
      { title: "Name", cell: (row) => ({ text: full(row), href: select("group", full(row)) }) },
      { title: "Kind", cell: (row) => row.kind },
      { title: "State", cell: (row) => row.fares || row.state },
      { title: "Placed", right: true, cell: (row) => `${number(row.placed)} of ${plural(row.pods, "pod")}` },
      { title: "Together", right: true, cell: (row) => (row.wanted === null ? "" : number(row.wanted)) },
      { title: "Domain", cell: (row) => row.domain },
      { title: "Waits for", cell: (row) => row.waits },
      { title: "Shares", cell: (row) => sharedCell(app.store, row) },
    ],
  });
}

function sharedCell(store, { claims }) {
  const first = store.claims.get(claims[0]);
  return first ? { text: full(first), href: select("claim", full(first)), note: more(claims) } : "";
}

function podTable(app) {
  return new PagedTable({
    caption: "Pods that wait, use claims or are in a group", empty: "No pod to show.", selected: isSelected("pod"),
    columns: [
      { title: "Pod", cell: (row) => ({ text: full(row), href: select("pod", full(row)) }) },
      { title: "State", cell: (row) => (row.state <= 1 ? { text: POD_STATES[row.state], href: address("why", { pod: full(row) }) } : POD_STATES[row.state]) },
      { title: "Claims", cell: (row) => sharedCell(app.store, row) },
      { title: "Part of", cell: (row) => row.owner },
      { title: "Node", cell: (row) => nodeCell(app.store, row) },
      { title: "Age", right: true, cell: (row) => lasting(app.store.now() - row.created) },
    ],
  });
}
