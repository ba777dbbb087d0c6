/**
 * The life of a claim as a drawing of the table that the server runs on: its states with how many claims are in each, and
 * what leads from one to the next. Nothing here knows a state by name but for its place; others are put into a last row.
 */

import { h, setAttribute, setText, svg } from "./dom.js";
import { changed } from "./route.js";
import { CLAIM_STATES, number } from "./words.js";

const PLACES = { pending: [0, 0], reserved: [1, 0], allocated: [2, 0], deleting: [0, 1], "deleting-reserved": [1, 1], "deleting-allocated": [2, 1], gone: [3, 1] };
const WIDE = 140;
const HIGH = 44;
const STEP = [236, 104];
const EDGE = 10;
const ABOVE = 36; // room for what curves over the first row
const BELOW = 52; // and under the last

export class Lifecycle {
  constructor() {
    this.drawing = svg("svg", { class: "lifecycle", role: "group", "aria-label": "States of claims and what leads from one to the next" });
    this.words = h("ul", { class: "unseen" });
    this.element = h("div", { class: "lifecycle-place", tabindex: "0", role: "region", "aria-label": "States of claims" }, this.drawing, this.words);
    this.counts = new Map();
  }

  update(store, chosen) {
    const table = JSON.stringify(store.hello.lifecycle);
    if (table !== this.table) this.#draw(store.hello.lifecycle, table);
    const counts = new Map();
    for (const { state } of store.claims.values()) counts.set(state, (counts.get(state) ?? 0) + 1);
    for (const [state, { count, link }] of this.counts) {
      setText(count, number(counts.get(state) ?? 0));
      setAttribute(link, "href", changed({ list: null, state: chosen === state ? null : state }));
      setAttribute(link, "aria-current", chosen === state ? "true" : null);
      setAttribute(link, "aria-label", `${CLAIM_STATES[state] ?? state}: ${number(counts.get(state) ?? 0)} claims`);
    }
  }

  #draw(lifecycle, table) {
    this.table = table;
    this.counts.clear();
    const states = Object.keys(lifecycle);
    let spare = 0;
    const places = Object.fromEntries(states.map((state) => [state, PLACES[state] ?? [spare++, 2]]));
    const width = EDGE * 2 + WIDE + STEP[0] * Math.max(...Object.values(places).map(([x]) => x));
    const height = ABOVE + BELOW + HIGH + STEP[1] * Math.max(...Object.values(places).map(([, y]) => y));
    setAttribute(this.drawing, "viewBox", `0 0 ${width} ${height}`);
    setAttribute(this.drawing, "width", width);
    setAttribute(this.drawing, "height", height);
    const edges = edgesOf(lifecycle);
    this.drawing.replaceChildren(arrowhead(), ...edges.map((edge) => drawEdge(edge, places)), ...states.map((state) => this.#box(state, places[state])));
    this.words.replaceChildren(...edges.map(({ from, to, events }) => h("li", {}, `${CLAIM_STATES[from] ?? from} becomes ${CLAIM_STATES[to] ?? to} by ${events.join(" or ")}`)));
  }

  #box(state, place) {
    const [x, y] = corner(place);
    const count = svg("text", { x: x + WIDE / 2, y: y + 37, class: "life-count" });
    const link = svg("a", { class: `life life-${state}` }, svg("rect", { x, y, width: WIDE, height: HIGH, rx: 6 }), svg("text", { x: x + WIDE / 2, y: y + 18 }, CLAIM_STATES[state] ?? state), count);
    if (state === "gone") return svg("g", { class: "life life-gone" }, ...link.childNodes);
    this.counts.set(state, { count, link });
    return link;
  }
}

const corner = ([x, y]) => [EDGE + x * STEP[0], ABOVE + y * STEP[1]];

/** Events that lead from one state to the same next one are one arrow. */
function edgesOf(lifecycle) {
  const edges = new Map();
  for (const [from, events] of Object.entries(lifecycle)) {
    for (const [event, to] of Object.entries(events)) {
      const key = `${from} ${to}`;
      if (!edges.has(key)) edges.set(key, { from, to, events: [] });
      edges.get(key).events.push(event);
    }
  }
  return [...edges.values()];
}

function arrowhead() {
  const head = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, svg("path", { d: "M0 0 8 4 0 8z" }));
  return svg("defs", {}, head);
}

function drawEdge({ from, to, events }, places) {
  const { path, x, y, anchor } = from === to ? loop(places[from]) : arrow(places[from], places[to]);
  return svg("g", { class: "edge", "aria-hidden": "true" }, svg("path", { d: path, "marker-end": "url(#arrow)" }), events.map((event, i) => svg("text", { x, y: y + 12 * (i - events.length + 1), class: anchor }, event)));
}

function loop(place) {
  const [x, y] = corner(place);
  const right = x + WIDE - 30;
  return { path: `M${right} ${y} c2 -18 24 -18 24 0`, x: right + 28, y: y - 5, anchor: "start" };
}

/** Side by side, above each other, or a curve over what lies between. */
function arrow(a, b) {
  const [ax, ay] = corner(a);
  const [bx, by] = corner(b);
  if (ax === bx) return { path: `M${ax + WIDE / 2} ${ay + HIGH}V${by}`, x: ax + WIDE / 2 + 6, y: (ay + HIGH + by) / 2 + 4, anchor: "start" };
  const right = bx > ax;
  if (Math.abs(a[0] - b[0]) > 1 || a[1] !== b[1]) return curve(ax, ay, bx, by);
  const y = ay + (right ? 14 : 30);
  const start = right ? ax + WIDE : ax;
  const end = right ? bx : bx + WIDE;
  return { path: `M${start} ${y}H${end}`, x: (start + end) / 2, y: right ? y - 5 : y + 13, anchor: "middle" };
}

/** In the first row over what lies between, else under it; the further, the deeper. */
function curve(ax, ay, bx, by) {
  const over = ay === by && ay === ABOVE;
  const [y1, y2] = over ? [ay, by] : [ay + HIGH, by + HIGH];
  const deep = 8 + Math.abs(bx - ax) / 14;
  const far = over ? Math.min(y1, y2) - deep : Math.max(y1, y2) + deep;
  const from = ax + WIDE / 2;
  const to = bx + WIDE / 2;
  const y = y1 + 0.75 * (far - y1) + (over ? 12 : -4);
  return { path: `M${from} ${y1}C${from} ${far} ${to} ${far} ${to} ${y2}`, x: (from + to) / 2, y, anchor: "middle" };
}
