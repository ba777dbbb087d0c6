/**
 * The map of devices: a canvas as large as what is visible, over a scrolling element as tall as the whole map.
 *
 * It can be used with a pointer and with keys alone: arrows move from device to device, Enter opens one. What a device looks
 * like comes from a lens (`byState` unless a view sets another). Left out: places (`map-layout`), drawing (`map-paint`), and
 * words about a device (`tooltip`).
 */

import { h, setAttribute } from "./dom.js";
import { arrange, Flow, SIZES, sizeFor, SPACE } from "./map-layout.js";
import { EDGE, Painter } from "./map-paint.js";
import { isHeld, STATES } from "./marks.js";
import { change, read } from "./route.js";
import { Tooltip } from "./tooltip.js";

const SMALLEST = 220;
const EXCLUDED = STATES.findIndex(({ code }) => code === "excluded");
const KEYS = {
  ArrowLeft: (map) => map.step(-1),
  ArrowRight: (map) => map.step(1),
  ArrowUp: (map) => map.climb(-1),
  ArrowDown: (map) => map.climb(1),
  PageUp: (map) => map.climb(-10),
  PageDown: (map) => map.climb(10),
  Home: (map) => map.moveTo(0, 0, 0),
  End: (map) => map.moveTo(map.flow.lines.length - 1, 0, 0),
  Enter: (map) => map.open(),
  " ": (map) => map.open(),
};

/** The ordinary lens: each device by its state. */
function byState(store) {
  const { devices } = store;
  return {
    looks: { key: "states", all: STATES },
    lookOf: (id) => devices.state[id],
    usedOf: (id, look) => (look === 3 ? devices.used[id] ?? 0.5 : null),
  };
}

export class DeviceMap {
  constructor(app) {
    this.app = app;
    this.canvas = h("canvas", { class: "map-canvas", "aria-hidden": "true" });
    this.sizer = h("div", { class: "map-sizer" }, this.canvas);
    this.empty = h("p", { class: "empty", hidden: true });
    this.element = h("div", {
      class: "map", tabindex: "0", role: "application", "aria-roledescription": "device map",
      "aria-label": "Device map. Arrow keys move between devices, Enter shows one. The table has the same information.",
      on: {
        scroll: () => this.draw(),
        pointermove: (event) => this.#point(event),
        pointerleave: () => this.tooltip.hide(),
        click: (event) => this.#click(event),
        keydown: (event) => this.#key(event),
        focus: () => this.#focus(),
        blur: () => this.#blur(),
      },
    }, this.sizer, this.empty);
    this.tooltip = new Tooltip(app);
    this.painter = new Painter(this.canvas);
    this.lens = null;
    this.mask = null;
    this.cursor = null;
    this.groups = [];
    this.flow = new Flow([], 100, "large");
    this.drawing = 0;
    this.arranged = "";
    new ResizeObserver(() => app.redraw()).observe(this.element); // with the next frame, since another width makes another height
  }

  /** Show other devices, or devices otherwise. `key` tells whether the order has to be found again. */
  show({ lens = null, mask = null, maskKey = "" } = {}) {
    this.lens = lens;
    this.mask = mask;
    this.maskKey = maskKey;
    this.refresh();
  }

  /** Lay out again where that is needed, and draw. */
  refresh() {
    const { store } = this.app;
    if (!store) return;
    const wanted = `${store.hello.epoch} ${store.shape} ${this.maskKey ?? ""}`;
    if (wanted !== this.arranged) {
      this.groups = arrange(store, this.mask);
      this.arranged = wanted;
      this.flow = null;
    }
    if (!this.element.clientWidth) return; // not shown: the order is all that somebody may ask for
    const nodes = this.groups.reduce((sum, group) => sum + group.tiles.length, 0);
    const width = this.element.clientWidth - 28;
    const asked = read().params.get("size");
    const size = SIZES[asked] ? asked : sizeFor(nodes, width);
    if (!this.flow || this.flow.width !== width || this.sizeName !== size) this.#flow(width, size);
    this.#sayWhenEmpty(store, nodes);
    this.draw();
  }

  #flow(width, size) {
    const cursor = this.cursor?.id;
    this.flow = new Flow(this.groups, width, size);
    this.sizeName = size;
    this.sizer.style.height = `${Math.max(this.flow.height, 1)}px`;
    this.element.parentElement.style.maxHeight = `${Math.max(this.flow.height + 16, SMALLEST)}px`; // no more than there is
    this.cursor = cursor === undefined ? null : this.flow.find(cursor);
    this.selectedId = undefined;
    this.selectedPlace = null;
  }

  #sayWhenEmpty(store, nodes) {
    setAttribute(this.empty, "hidden", nodes > 0);
    if (nodes > 0) return;
    const hidden = store.resources.resourceslices === "hidden";
    this.empty.textContent = hidden
      ? "You may not read resource slices, so no devices are shown."
      : this.mask ? "No device matches." : store.ready ? "No devices are published." : "Reading the cluster …";
  }

  draw() {
    if (!this.drawing) this.drawing = requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    cancelAnimationFrame(this.drawing);
    this.drawing = 0;
    const { store } = this.app;
    if (!store || !this.flow || !this.element.isConnected) return;
    const lens = this.lens ?? byState(store);
    const scene = {
      ...lens, flow: this.flow, dark: this.app.dark, mask: this.mask ?? lens.mask ?? null,
      stripsOf: (id, parts, most) => strips(store, lens, id, parts, most),
      selected: this.#selected(), focused: document.activeElement === this.element ? this.cursor : null,
    };
    this.painter.paint(scene, this.element.scrollTop - 6, this.flow.width + 2 * EDGE, this.element.clientHeight);
  }

  /** Where the selected device is; looked up again only when either changes. */
  #selected() {
    const id = this.app.selectedDevice;
    if (id !== this.selectedId) {
      this.selectedId = id;
      this.selectedPlace = id === undefined ? null : this.flow.find(this.app.store.devices.cell[id]) ?? this.flow.find(id);
    }
    return this.selectedPlace;
  }

  /** Scroll so that a device can be seen. */
  reveal(id) {
    if (!this.flow) return;
    const place = this.flow.find(this.app.store.devices.cell[id]) ?? this.flow.find(id);
    if (place) this.#scrollTo(place.line);
  }

  #scrollTo(line) {
    const { scrollTop, clientHeight } = this.element;
    if (line.y < scrollTop + 30) this.element.scrollTop = line.y - 36;
    else if (line.y + line.height > scrollTop + clientHeight - 10) this.element.scrollTop = line.y + line.height - clientHeight + 20;
  }

  #at(event) {
    const box = this.canvas.getBoundingClientRect();
    return this.flow?.cellAt(event.clientX - box.left - EDGE, event.clientY - box.top + this.element.scrollTop - 6);
  }

  #point(event) {
    const found = this.#at(event);
    this.element.classList.toggle("pointing", Boolean(found));
    if (found) this.tooltip.show(found.id, event.clientX, event.clientY, this.lens);
    else this.tooltip.hide();
  }

  #click(event) {
    const found = this.#at(event);
    if (!found) return;
    this.cursor = found;
    this.tooltip.hide();
    this.open();
  }

  open() {
    if (!this.cursor) return;
    change({ sel: `device:${this.app.store.deviceKey(this.cursor.id)}` });
  }

  #key(event) {
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || !this.flow?.lines.length) return;
    event.preventDefault();
    act(this);
  }

  #focus() {
    if (!this.element.matches(":focus-visible")) return; // by a pointer, which says itself where it is
    if (!this.cursor) this.moveTo(this.flow?.lineAt(this.element.scrollTop + 10) ?? 0, 0, 0);
    else this.#tell();
    this.draw();
  }

  #blur() {
    this.tooltip.hide();
    this.draw();
  }

  /** One device to the left or to the right, on to the next node. */
  step(by) {
    if (!this.cursor) return;
    const { line, column, index, tile } = this.cursor;
    const number = this.flow.lines.indexOf(line);
    const next = passed(tile.cells, index + by, by);
    if (next >= 0 && next < tile.cells.length) this.moveTo(number, column, next);
    else if (line.tiles[column + by]) this.moveTo(number, column + by, by > 0 ? 0 : Infinity);
    else this.moveTo(number + by, by > 0 ? 0 : Infinity, by > 0 ? 0 : Infinity, by);
  }

  climb(by) {
    if (!this.cursor) return;
    const { line, column, index } = this.cursor;
    this.moveTo(this.flow.lines.indexOf(line) + by, column, index, Math.sign(by));
  }

  /** Put the cursor onto a cell; headers are passed over. */
  moveTo(number, column, index, direction = 1) {
    const { lines } = this.flow;
    let at = Math.max(0, Math.min(lines.length - 1, number));
    while (lines[at] && !lines[at].tiles) at += direction || 1;
    const line = lines[at];
    if (!line) return;
    const column2 = Math.max(0, Math.min(line.tiles.length - 1, column));
    const tile = line.tiles[column2];
    const near = Math.max(0, Math.min(tile.cells.length - 1, index));
    const index2 = passed(tile.cells, near, 1);
    this.cursor = { line, column: column2, index: index2, tile, id: tile.cells[index2] };
    this.#scrollTo(line);
    this.#tell();
    this.draw();
  }

  #tell() {
    const { line, column, index, id } = this.cursor;
    const { x, y, side } = this.flow.placeOf(line, column, index);
    const box = this.canvas.getBoundingClientRect();
    const top = Math.min(Math.max(y - this.element.scrollTop + 6, 0), this.element.clientHeight - side);
    this.tooltip.show(id, box.left + EDGE + x + side, box.top + top + side, this.lens, true);
  }
}

/** The next place that has a device. */
function passed(cells, index, by) {
  while (cells[index] === SPACE) index += by;
  return index;
}

/** The parts of a cell, each with how much of it: those that are held, and one for the rest: what can be had of it, or not. */
function strips(store, lens, cell, parts, most) {
  const { state, share } = store.devices;
  const held = isHeld(state[cell]) ? [] : parts.filter((id) => isHeld(state[id])).slice(0, Math.max(1, most - 1));
  if (!held.length) return [[cell, 1]];
  const all = held.map((id) => [id, share[id]]);
  const left = 1 - all.reduce((sum, [, part]) => sum + part, 0);
  const others = parts.filter((id) => !isHeld(state[id]));
  const rest = others.find((id) => state[id] !== EXCLUDED) ?? others[0];
  if (rest !== undefined && left > 0.01) all.push([rest, left]);
  return all.every(([id]) => lens.lookOf(id) === lens.lookOf(cell)) ? [[cell, 1]] : all;
}
