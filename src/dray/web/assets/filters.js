/**
 * Which devices stand out on the map: by driver, class, node label, state, and an expression that is typed.
 *
 * What rows tell is decided here; class and expression are matched by the server, which has the real CEL. All of it is in
 * the address. The result is a mask over devices (null where nothing is filtered) with a key that says when it changed.
 */

import { h, name, refill, setAttribute } from "./dom.js";
import { STATES } from "./marks.js";
import { change, read } from "./route.js";
import { ask, latest } from "./server.js";
import { spread } from "./store.js";
import { number, plural, verb } from "./words.js";

const TYPING = 150; // milliseconds without a key before an expression is sent
const FIELDS = ["driver", "class", "label", "state", "cel"];
const ALL = [...FIELDS, "part"];

export class Filters {
  constructor(app, changed) {
    this.app = app;
    this.changed = changed;
    this.answer = null;
    this.asked = "";
    this.runs = 0;
    this.matching = latest(TYPING, (question, key, signal) => ask("match", question, signal), (answer, question, key) => this.#take(answer, key), (error) => this.#fail(error));
    this.#make();
  }

  #make() {
    const select = (key, title) => h("select", { id: `filter-${key}`, on: { change: (event) => change({ [key]: event.target.value }) } }, h("option", { value: "" }, title));
    this.driver = select("driver", "All drivers");
    this.class = select("class", "All classes");
    this.state = select("state", "All states");
    this.state.append(...STATES.map(({ code, label }) => h("option", { value: code }, label)));
    this.labels = h("datalist", { id: "node-labels" });
    this.label = h("input", { id: "filter-label", list: "node-labels", placeholder: "key=value", autocomplete: "off", on: { input: (event) => change({ label: event.target.value }, { replace: true }) } });
    this.cel = h("textarea", {
      id: "filter-cel", rows: "1", spellcheck: "false", autocomplete: "off", "aria-describedby": "cel-result",
      placeholder: 'device.attributes["gpu.example.com"].model == "h100"',
      on: { input: (event) => change({ cel: event.target.value, part: null }, { replace: true }) },
    });
    this.result = h("div", { id: "cel-result", class: "cel-result", role: "status" });
    this.clear = h("button", { type: "button", on: { click: () => change(Object.fromEntries(ALL.map((field) => [field, null]))) } }, "Clear filters");
    const field = (label, control) => h("label", { for: control.id }, h("span", {}, label), control);
    this.element = h("form", { class: "filters", role: "search", "aria-label": "Filter devices", on: { submit: (event) => event.preventDefault() } },
      field("Driver", this.driver), field("Class", this.class), field("State", this.state), field("Node label", this.label), this.labels,
      h("div", { class: "cel" }, field("CEL expression", this.cel)), this.clear, this.result);
  }

  /** Bring controls and mask up to date with the address and the picture. */
  update() {
    const { params } = read();
    const { store } = this.app;
    this.#options(store);
    for (const key of FIELDS) if (this[key].value !== (params.get(key) ?? "")) this[key].value = params.get(key) ?? "";
    setAttribute(this.clear, "hidden", !FIELDS.some((key) => params.get(key)));
    this.#match(store, params);
    if (this.told !== this.part) this.#tell();
    this.#mask(store, params);
  }

  #options(store) {
    const key = `${store.hello.epoch} ${store.version.drivers} ${store.version.classes} ${store.version.nodes}`;
    if (key === this.optioned || !store.ready) return;
    this.optioned = key;
    fillOptions(this.driver, [...store.drivers.values()].map((row) => row.name));
    fillOptions(this.class, [...store.classes.values()].map((row) => row.name));
    const labels = new Set();
    for (const node of store.nodes.values()) {
      for (const number of node.labels) labels.add(number);
      if (labels.size > 500) break;
    }
    this.labels.replaceChildren(...[...labels].slice(0, 200).map((number) => h("option", { value: store.strings[number] })));
  }

  /** Ask the server again when the expression, the class or the devices are different. */
  #match(store, params) {
    const question = { expression: (params.get("cel") ?? "").trim(), class: params.get("class") ?? "" };
    const wanted = question.expression || question.class ? JSON.stringify([question, store.hello.epoch, store.shape]) : "";
    if (wanted === this.asked || (wanted && !store.ready)) return;
    this.asked = wanted;
    if (wanted) return this.matching.ask(question, wanted);
    this.matching.stop();
    this.answer = null;
    this.runs++;
    this.#tell();
  }

  #take(answer, key) {
    this.problem = answer.problem || "";
    if (!answer.problem) this.answer = answer;
    this.runs++;
    this.#tell();
    this.changed();
  }

  #fail(error) {
    this.problem = error.message;
    this.#tell();
  }

  #tell() {
    const { answer, problem } = this;
    this.told = this.part;
    setAttribute(this.cel, "aria-invalid", problem && this.cel.value ? "true" : null);
    if (!this.asked) return refill(this.result);
    if (problem) return refill(this.result, h("pre", { class: "problem" }, problem), h("p", { class: "faint" }, answer ? "The map still shows what the last expression that could be read selects." : "The map is not filtered by it."));
    if (!answer) return refill(this.result, h("p", { class: "faint" }, "…"));
    const rest = [...answer.failed, ...answer.errors];
    refill(this.result,
      h("p", {}, h("strong", {}, number(answer.count)), ` of ${plural(answer.of, "device")} ${verb(answer.count, "matches", "match")}${answer.complete ? "." : ", as far as there was time to look."}`),
      rest.length ? h("ul", { class: "parts" }, rest.map((entry, index) => this.#failedPart(entry, index))) : null);
  }

  #failedPart(entry, index) {
    const chosen = this.part === index;
    const light = () => change({ part: chosen ? null : String(index + 1) });
    const text = entry.part || (entry.text ? "" : "left out by the class");
    return h("li", {}, h("button", { type: "button", "aria-pressed": String(chosen), "data-key": `part ${index}`, on: { click: light } },
      h("strong", {}, number(entry.count)), ` ${phrase(entry)} `, entry.part ? this.#marked(entry) : text,
      entry.text ? h("span", { class: "problem" }, ": ", name(entry.text)) : null));
  }

  #marked({ part }) {
    return h("code", {}, name(part));
  }

  #mask(store, params) {
    const key = JSON.stringify([FIELDS.slice(0, 4).map((field) => params.get(field) ?? ""), this.runs, this.part, store.hello.epoch, store.shape, params.get("state") ? store.version.devices : 0]);
    if (key === this.key) return;
    this.key = key;
    const tests = [driverTest(store, params.get("driver")), labelTest(store, params.get("label")), stateTest(store, params.get("state")), this.#answerTest(store)].filter(Boolean);
    this.mask = null;
    if (!tests.length) return;
    this.mask = new Uint8Array(store.devices.present.length);
    store.devices.each((id) => { if (tests.every((test) => test(id))) this.mask[id] = 1; });
  }

  /** Which part of the answer is lit instead of what matches: the one that the address names. */
  get part() {
    const wanted = Number(read().params.get("part")) - 1;
    return this.answer && wanted in [...this.answer.failed, ...this.answer.errors] ? wanted : null;
  }

  #answerTest(store) {
    if (!this.answer) return null;
    const chosen = this.part === null ? this.answer.matched : [...this.answer.failed, ...this.answer.errors][this.part].devices;
    const set = spread(chosen, new Uint8Array(store.devices.present.length), 1);
    return (id) => set[id];
  }
}

/** What devices do at a part of the expression, before that part is named. */
function phrase({ count, part, text }) {
  if (text) return verb(count, "fails at", "fail at");
  return part ? verb(count, "does not meet", "do not meet") : verb(count, "is", "are");
}

function fillOptions(select, names) {
  const kept = select.value;
  const first = select.options[0];
  select.replaceChildren(first, ...names.sort().map((text) => h("option", { value: text }, text)));
  select.value = kept;
}

function driverTest(store, driver) {
  return driver ? (id) => store.poolOf(id)?.driver === driver : null;
}

/** A whole label, or the beginning of one while it is typed. */
function labelTest(store, label) {
  if (!label) return null;
  const nodes = new Set();
  for (const node of store.nodes.values()) if (store.labelsOf(node).some((text) => text.startsWith(label))) nodes.add(node.id);
  return (id) => nodes.has(store.poolOf(id)?.node);
}

function stateTest(store, code) {
  const wanted = STATES.findIndex((state) => state.code === code);
  return wanted < 0 ? null : (id) => store.devices.state[id] === wanted;
}
