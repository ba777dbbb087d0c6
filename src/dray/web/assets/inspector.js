/**
 * The panel beside every view: all about what is selected, with links to what it belongs to.
 *
 * It is made again when something that it shows changes, and only then. The path leads from pod to claim, device, slice and
 * driver, in both directions. Left out: finding out more than one device or object at a time.
 */

import { details, remembered } from "./details.js";
import { h, name, refill } from "./dom.js";
import { isHeld, STATES, swatch } from "./marks.js";
import { address, change, select, selection } from "./route.js";
import { ask } from "./server.js";
import { atMoment, CLAIM_STATES, countsText, lasting, plural, POD_STATES, POOL_PROBLEMS } from "./words.js";

const SOME = 12;

export class Inspector {
  constructor(app, element) {
    this.app = app;
    this.element = element;
    this.shown = "";
    element.addEventListener("keydown", (event) => { if (event.key === "Escape") this.close(); });
  }

  close() {
    change({ sel: null });
    document.getElementById("main").focus({ preventScroll: true });
  }

  update() {
    const { store } = this.app;
    const chosen = selection();
    this.element.hidden = !chosen || !store;
    if (this.element.hidden) { this.shown = ""; return; }
    const subject = resolve(store, chosen);
    const key = JSON.stringify([chosen, store.hello.epoch, subject && signature(store, subject, this.app.dark), location.hash]);
    if (key === this.shown) return;
    const opened = !this.shown || this.chosen !== chosen.kind + chosen.name;
    this.shown = key;
    this.chosen = chosen.kind + chosen.name;
    refill(this.element, this.#head(chosen), subject ? this.#body(subject) : this.#missing(store, chosen));
    if (opened) this.element.scrollTop = 0;
  }

  #head({ kind, name: text }) {
    const close = h("button", { type: "button", class: "close", "aria-label": "Close details", "data-key": "close", on: { click: () => this.close() } }, "×");
    const short = text.split("/").at(-1);
    return h("div", { class: "inspector-head" }, h("div", {}, h("p", { class: "kind" }, kind), h("h2", {}, name(short))), close);
  }

  #missing(store) {
    return h("p", { class: "empty" }, store.ready ? "It does not exist, or you may not read it." : "Reading the cluster …");
  }

  #body(subject) {
    const path = this.#path(subject);
    const make = { device: deviceBody, claim: claimBody, pod: podBody, group: groupBody, node: nodeBody, driver: driverBody, slice: sliceBody };
    return [path, make[subject.kind](this.app, subject, () => this.#again()), subject.kind === "device" ? null : this.#objectPart(subject)].flat();
  }

  #again() {
    this.shown = "";
    this.update();
  }

  #path(subject) {
    const { store } = this.app;
    const columns = pathOf(store, subject, () => this.#again());
    if (!columns) return null;
    return h("nav", { class: "path", "aria-label": "Path from pod to driver" }, h("ol", {}, columns.map(([kind, entries]) => h("li", {},
      h("span", { class: "kind" }, kind), h("span", { class: "entries" }, entries.length ? entries.slice(0, 3).map((entry) => pathEntry(subject, kind, entry)) : h("span", { class: "faint" }, "none"),
        entries.length > 3 ? h("span", { class: "faint" }, `and ${entries.length - 3} more`) : null)))));
  }

  #objectPart(subject) {
    const question = objectQuestion(subject);
    if (!question) return null;
    const text = h("pre", { tabindex: "0", "aria-label": "The object as the API has it" });
    const load = async (event) => {
      if (!event.target.open || text.textContent) return;
      text.textContent = "…";
      text.textContent = await ask("object", question).then(({ object }) => JSON.stringify(object, null, 2), (error) => error.message);
    };
    return h("details", { on: { toggle: load } }, h("summary", {}, "Object"), text);
  }
}

function pathEntry(subject, kind, { text, href, note = "" }) {
  const here = subject.kind === kind && subject.label === text;
  return h("a", { href, "aria-current": here ? "step" : null, "data-key": `path ${href}` }, name(text.split("/").at(-1)), note ? h("span", { class: "faint" }, `, ${note}`) : null);
}

const KINDS = { claim: "ResourceClaim", pod: "Pod", group: "", node: "Node", slice: "ResourceSlice" };

function objectQuestion({ kind, row, label }) {
  const named = kind === "group" ? row.kind : KINDS[kind];
  if (!named) return null;
  return kind === "slice" ? { kind: named, namespace: "", name: label } : { kind: named, namespace: row.namespace ?? "", name: row.name };
}

// From what is selected to rows.

function resolve(store, { kind, name: text }) {
  if (kind === "device") {
    const id = store.findDevice(text);
    return id === undefined ? null : { kind, id, label: store.deviceKey(id) };
  }
  if (kind === "slice") return { kind, label: text };
  const [namespace, short] = kind === "node" || kind === "driver" ? ["", text] : text.split(/\/(.*)/s);
  const table = { claim: "claims", pod: "pods", group: "groups", node: "nodes", driver: "drivers" }[kind];
  const row = table && store.find(table, namespace, short);
  return row ? { kind, row, label: text } : null;
}

export const resolveDevice = (store, chosen) => (chosen?.kind === "device" ? store.findDevice(chosen.name) : undefined);

function signature(store, subject, dark) {
  if (subject.kind === "device") {
    const { id } = subject;
    const parts = store.partsOf(store.devices.cell[id]).map((part) => [part, store.devices.state[part]]);
    return [dark, id, store.devices.state[id], store.devices.used[id], parts, store.claimsOf(id), podStates(store, store.claimsOf(id)), Boolean(remembered(store, id))];
  }
  const devices = (subject.row?.devices ?? []).slice?.(0, 50) ?? [];
  return [dark, subject.row ?? subject.label, subject.kind === "claim" ? podStates(store, [subject.row]) : 0, Array.isArray(devices) ? devices.map((id) => store.devices.state[id]) : 0, store.version.claims];
}

const podStates = (store, claims) => claims.flatMap((claim) => claim.pods.map((id) => store.pods.get(id)?.state));

// Links.

const at = (kind, label) => ({ text: label, href: select(kind, label) });
const claimLabel = (claim) => `${claim.namespace}/${claim.name}`;
const link = (kind, label) => h("a", { href: select(kind, label), "data-key": `${kind} ${label}` }, name(label));

function pathOf(store, subject, again) {
  const devices = subject.kind === "device" ? [subject.id] : devicesOf(store, subject);
  const claims = subject.kind === "claim" ? [subject.row] : subject.kind === "device" ? store.claimsOf(subject.id) : claimsOf(store, subject);
  if (!["device", "claim", "pod"].includes(subject.kind)) return null;
  const pods = subject.kind === "pod" ? [subject.row] : claims.flatMap((claim) => podsOf(store, claim, subject.kind === "claim"));
  const known = devices.length ? remembered(store, devices[0]) : null;
  if (devices.length && !known) details(store, devices[0]).then(again, () => {});
  const drivers = new Set(devices.map((id) => store.poolOf(id)?.driver).filter(Boolean));
  return [
    ["pod", pods.map((pod) => ({ ...at("pod", claimLabel(pod)), note: pod.state <= 1 && subject.kind !== "pod" ? POD_STATES[pod.state] : "" }))],
    ["claim", claims.map((claim) => at("claim", claimLabel(claim)))],
    ["device", devices.map((id) => at("device", store.deviceKey(id)))],
    ["slice", known?.slice ? [at("slice", known.slice)] : []],
    ["driver", [...drivers].map((driver) => at("driver", driver))],
  ];
}

/** The pods that use a claim; of those that only refer to it, and wait, its devices are not. */
const podsOf = (store, claim, withWaiting) =>
  claim.pods.map((id) => store.pods.get(id)).filter((pod) => pod && (withWaiting || pod.state > 1));
const claimsOf = (store, { row }) => (row?.claims ?? []).map((id) => store.claims.get(id)).filter(Boolean);
const devicesOf = (store, subject) =>
  (subject.kind === "claim" ? [subject.row] : claimsOf(store, subject)).flatMap((claim) => claim.devices).filter((id) => store.devices.present[id]);

// The bodies, one a kind.

const facts = (rows) => h("dl", { class: "facts" }, rows.filter(([, value]) => value !== "" && value !== null && value !== undefined)
  .flatMap(([key, value]) => [h("dt", {}, name(key)), h("dd", {}, value instanceof Node ? value : name(String(value)))]));
const section = (title, ...content) => h("section", {}, h("h3", {}, title), ...content);
const list = (items, most = SOME) => h("ul", {}, items.slice(0, most).map((item) => h("li", {}, item)),
  items.length > most ? h("li", { class: "faint" }, `${items.length - most} more`) : null);
const stateLine = (state, dark) => h("span", { class: "state" }, swatch(STATES[state], dark), STATES[state].label);
const since = (store, time) => (time ? `${lasting(store.now() - time)} (since ${atMoment(time)})` : "");

function deviceBody(app, { id }, again) {
  const { store } = app;
  const { devices } = store;
  const pool = store.poolOf(id);
  const node = store.nodeOf(id);
  const known = remembered(store, id);
  const waiting = h("p", { class: "faint" }, "Asking for attributes …");
  if (!known) details(store, id).then(again, (error) => { waiting.textContent = error.message; });
  const used = devices.used[id];
  return [
    facts([
      ["state", stateLine(devices.state[id], app.dark)],
      ["held for", since(store, devices.since[id])],
      ["used", used === null || used === undefined ? "" : `${Math.round(100 * used)} %`],
      ["node", node ? link("node", node.name) : ""],
      ["pool", pool ? `${pool.name} (generation ${pool.generation})` : ""],
      ["in the pool", pool?.counts ? countsText(pool.counts) : ""],
      ["pool problem", pool?.problem ? POOL_PROBLEMS[pool.problem] ?? pool.problem : ""],
    ]),
    holders(store, id),
    known ? deviceFacts(known) : waiting,
    partitions(app, id),
  ];
}

function holders(store, id) {
  const claims = store.claimsOf(id);
  const hidden = store.resources.resourceclaims !== "all";
  const held = isHeld(store.devices.state[id]);
  if (!claims.length) return held && hidden ? h("p", { class: "faint" }, "A claim holds it that you may not read.") : null;
  return section("Held by", list(claims.map((claim) => [link("claim", claimLabel(claim)),
    h("span", { class: "faint" }, claim.consumers.length ? " for " : " for nobody"), ...claim.consumers.slice(0, 3).map((consumer) => consumerLink(claim, consumer))]).map((parts) => h("span", {}, parts))));
}

const consumerLink = (claim, [resource, consumer]) =>
  resource === "pods" ? link("pod", `${claim.namespace}/${consumer}`) : name(`${resource}/${consumer}`);

function deviceFacts(known) {
  const capacity = Object.entries(known.capacity).map(([key, { value, used }]) => [key, used ? `${used} of ${value} used` : value]);
  const counters = known.counters.flatMap(({ set, counters: of }) => Object.entries(of).map(([key, { needed, left }]) => [`${set} ${key}`, `needs ${needed}, ${left} left`]));
  const taints = known.taints.map(({ key, value, effect, rule }) => [value ? `${key}=${value}` : key, rule ? `${effect}, by rule ${rule}` : effect]);
  const conditions = known.conditions.map(({ type, status, reason, message }) => [type, [status, reason, message].filter(Boolean).join(", ")]);
  const parts = [
    ["Attributes", Object.entries(known.attributes).map(([key, { value }]) => [key, String(value)])],
    ["Capacity", capacity], ["Taints", taints], ["Counters", counters], ["Conditions", conditions],
    ["Published", [["slice", known.slice ? link("slice", known.slice) : ""], ["classes", known.classes.join(", ")]]],
  ];
  return parts.filter(([, rows]) => rows.length).map(([title, rows]) => section(title, facts(rows)));
}

function partitions(app, id) {
  const { store } = app;
  const cell = store.devices.cell[id];
  const all = [cell, ...store.partsOf(cell)].filter((other) => other !== id && store.devices.present[other]);
  if (!all.length) return null;
  return section("In the same hardware", list(all.map((other) => h("span", { class: "state" }, swatch(STATES[store.devices.state[other]], app.dark),
    h("a", { href: select("device", store.deviceKey(other)), "data-key": `part ${other}` }, name(store.deviceName(other))), h("span", { class: "faint" }, STATES[store.devices.state[other]].label))), 40));
}

function claimBody(app, { row }) {
  const { store } = app;
  const ready = new Map(row.prepared);
  const requests = row.requests.map(([request, ofClass, count, alternatives]) =>
    [request, alternatives.length ? `first of: ${alternatives.join(", ")}` : `${count === "all" ? "all" : count} of class ${ofClass}`]);
  const devices = row.devices.filter((id) => store.devices.present[id]).map((id) => h("span", { class: "state" }, swatch(STATES[store.devices.state[id]], app.dark),
    link("device", store.deviceKey(id)), ready.has(id) ? h("span", { class: "faint" }, ready.get(id) === false ? "not ready" : "prepared") : null));
  return [
    facts([
      ["state", CLAIM_STATES[row.state] ?? row.state], ["age", since(store, row.created)], ["allocated", since(store, row.allocated)],
      ["node", row.node !== null && store.nodes.has(row.node) ? link("node", store.nodes.get(row.node).name) : ""], ["made for", row.owner],
    ]),
    section("Requests", facts(requests)),
    devices.length ? section(plural(devices.length, "device"), list(devices)) : null,
    section("Reserved for", row.consumers.length ? list(row.consumers.map((consumer) => consumerLink(row, consumer))) : h("p", { class: "faint" }, "nobody")),
  ];
}

function podBody(app, { row, label }) {
  const { store } = app;
  const cause = row.cause === null ? null : store.causes.get(row.cause);
  const why = row.state <= 1 ? h("a", { class: "button", href: address("why", { pod: label, sel: `pod:${label}` }), "data-key": "why" }, "Why it waits") : null;
  const group = row.group === null ? null : store.groups.get(row.group);
  const claims = claimsOf(store, { row });
  return [
    facts([
      ["state", POD_STATES[row.state]], ["age", since(store, row.created)], ["cause", cause ? cause.text : ""],
      ["node", row.node !== null && store.nodes.has(row.node) ? link("node", store.nodes.get(row.node).name) : ""],
      ["part of", row.owner], ["group", group ? link("group", claimLabel(group)) : ""],
    ]),
    why,
    claims.length ? section("Claims", list(claims.map((claim) => h("span", {}, link("claim", claimLabel(claim)), h("span", { class: "faint" }, ` ${CLAIM_STATES[claim.state] ?? claim.state}`))))) : null,
  ];
}

function groupBody(app, { row }) {
  const { store } = app;
  const pods = [...store.pods.values()].filter((pod) => pod.group === row.id);
  return [
    facts([["kind", row.kind], ["state", row.fares], ["condition", row.state], ["placed", `${row.placed} of ${row.pods}`], ["must be placed together", row.wanted],
      ["domain", row.domain], ["waits for", row.waits]]),
    section("Claims that it shares", row.claims.length ? list(claimsOf(store, { row }).map((claim) => link("claim", claimLabel(claim)))) : h("p", { class: "faint" }, "none")),
    section("Pods", pods.length ? list(pods.map((pod) => h("span", {}, link("pod", claimLabel(pod)), h("span", { class: "faint" }, ` ${POD_STATES[pod.state]}`)))) : h("p", { class: "faint" }, "none")),
  ];
}

function nodeBody(app, { row }) {
  const { store } = app;
  const counts = new Array(STATES.length).fill(0);
  store.devices.each((id) => { if (store.poolOf(id)?.node === row.id) counts[store.devices.state[id]]++; });
  return [
    facts([["ready", row.ready ? "yes" : "no"], ["cordoned", row.cordoned ? "yes" : ""], ["zone", row.zone], ["rack", row.rack]]),
    section("Devices", facts(counts.map((count, state) => [STATES[state].label, count || ""]))),
    section("Labels", list(store.labelsOf(row).map((label) => name(label)), 40)),
  ];
}

function driverBody(app, { row }) {
  const nodes = row.nodes.map((id) => app.store.nodes.get(id)?.name).filter(Boolean).sort();
  return [facts([["nodes", row.nodes.length], ["pools", row.pools], ["slices", row.slices], ["devices", row.devices], ["unhealthy", row.unhealthy],
    ["pools with problems", row.incomplete], ["newest generation", row.generation], ["versions", row.versions.join(", ")]]),
  h("p", {}, h("a", { href: address("map", { driver: row.name }), "data-key": "map" }, "Its devices on the map"), " · ", h("a", { href: address("drivers", { sel: `driver:${row.name}` }), "data-key": "driver" }, "All drivers")),
  nodes.length ? section("Publishes on", list(nodes.map((node) => link("node", node)))) : null];
}

function sliceBody() {
  return [h("p", { class: "faint" }, "A slice is a page of a pool: the devices that a driver publishes together.")];
}
