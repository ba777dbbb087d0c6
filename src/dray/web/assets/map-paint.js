/**
 * Draws the part of the map that is visible. One picture is a few hundred names and as many copies from the sheet of looks as
 * there are cells in view, whatever the size of the cluster.
 *
 * `scene` says what to draw: the flow, the looks, the look of each device (`lookOf`), a mask of devices that stand out, and
 * what is selected and focused. Left out: when to draw (`map`).
 */

import { SPACE } from "./map-layout.js";
import { inkOf, Sheet } from "./marks.js";

/** Room for the ring around a cell at the left edge. */
export const EDGE = 4;
const THINNEST = 3; // pixels that a part of a cell needs to be seen
const DIM = 0.16;
const FAINT = ["#57606a", "#9aa4af"];

export class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.labels = new Map();
    this.sheetOf = "";
  }

  #prepare(scene, width, height) {
    const density = window.devicePixelRatio || 1;
    const wide = Math.round(width * density);
    const high = Math.round(height * density);
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const key = [scene.looks.key, scene.flow.size.cell, scene.dark, density].join();
    if (this.sheetOf !== key) {
      this.sheet = new Sheet(scene.looks.all, scene.flow.size.cell, scene.dark, density);
      this.sheetOf = key;
      this.labels.clear();
    }
    this.density = density;
    this.context.setTransform(density, 0, 0, density, EDGE * density, 0);
    this.context.clearRect(-EDGE, 0, width, height);
  }

  paint(scene, top, width, height) {
    this.#prepare(scene, width, height);
    const { flow } = scene;
    const end = top + height;
    this.scene = scene;
    this.top = top;
    for (let i = flow.lineAt(top); i < flow.lines.length && flow.lines[i].y < end; i++) {
      const line = flow.lines[i];
      if (line.tiles) this.#paintLine(line);
      else this.#paintHeader(line, width);
    }
    this.#paintRings();
  }

  #paintHeader(line, width) {
    const c = this.context;
    const theme = this.scene.dark ? 1 : 0;
    const y = line.y - this.top + line.height / 2 + 2;
    c.textBaseline = "middle";
    c.textAlign = "left";
    c.font = "600 12px system-ui, sans-serif";
    c.fillStyle = inkOf(this.scene.dark);
    const title = this.#fit(line.group.title, Math.max(80, width - 190));
    c.fillText(title, 0, y);
    const after = c.measureText(title).width + 10;
    c.font = "12px system-ui, sans-serif";
    c.fillStyle = FAINT[theme];
    c.fillText(String(line.group.tiles.length), after, y);
  }

  #paintLine(line) {
    const { label, font } = this.scene.flow.size;
    if (label) {
      const c = this.context;
      c.font = `${font}px system-ui, sans-serif`;
      c.textBaseline = "middle";
      c.textAlign = "left";
    }
    for (let column = 0; column < line.tiles.length; column++) {
      const tile = line.tiles[column];
      if (label) this.#paintName(line, column, tile);
      for (let index = 0; index < tile.cells.length; index++) {
        if (tile.cells[index] === SPACE) continue;
        const place = this.scene.flow.placeOf(line, column, index);
        this.#paintCell(tile.cells[index], tile.parts.get(tile.cells[index]), place);
      }
    }
  }

  #paintName(line, column, tile) {
    const c = this.context;
    const down = tile.node && (!tile.node.ready || tile.node.cordoned);
    c.fillStyle = down ? (this.scene.dark ? "#e8a04a" : "#9a4a00") : FAINT[this.scene.dark ? 1 : 0];
    const text = down ? `${tile.node.ready ? "⊘" : "!"} ${tile.name}` : tile.name;
    c.fillText(this.#fit(text, line.label - 8), column * line.tile, line.y - this.top + this.scene.flow.size.line / 2);
  }

  /** A name cut in the middle, since names of nodes differ at their ends. */
  #fit(text, width) {
    const key = `${width} ${text}`;
    let fitted = this.labels.get(key);
    if (fitted === undefined) {
      if (this.labels.size > 20000) this.labels.clear();
      fitted = cut(this.context, text, width);
      this.labels.set(key, fitted);
    }
    return fitted;
  }

  #paintCell(id, parts, { x, y, side }) {
    const at = y - this.top;
    if (parts) this.#paintParts(id, parts, x, at, side);
    else this.#copy(id, x, at, side, 0, side);
  }

  /** Copy a look, or a strip of it, from the sheet. A shared device is filled as far as it is used. */
  #copy(id, x, y, side, left, width) {
    const { scene, sheet, context, density } = this;
    const look = scene.lookOf(id);
    const dim = scene.mask !== null && !scene.mask[id];
    if (dim) context.globalAlpha = DIM;
    const from = look * sheet.side;
    const whole = sheet.side;
    const strip = Math.round(width * density);
    const start = from + Math.min(Math.round(left * density), whole - strip);
    const used = scene.usedOf(id, look);
    if (used === null) context.drawImage(sheet.canvas, start, 0, strip, whole, x + left, y, width, side);
    else this.#copyLevel(x + left, y, width, side, used);
    if (dim) context.globalAlpha = 1;
  }

  #copyLevel(x, y, width, side, used) {
    const { context, sheet, density } = this;
    const strip = Math.round(width * density);
    const high = Math.max(2, Math.round(side * used));
    context.drawImage(sheet.canvas, 0, 0, strip, sheet.side, x, y, width, side);
    context.drawImage(sheet.canvas, sheet.side, 0, strip, Math.round(high * density), x, y + side - high, width, high);
  }

  #paintParts(id, parts, x, y, side) {
    const strips = this.scene.stripsOf(id, parts, Math.floor(side / THINNEST));
    const width = side / strips.length;
    strips.forEach((part, i) => this.#copy(part, x, y, side, i * width, strips.length > 1 ? width - 0.75 : width));
  }

  #paintRings() {
    const { selected, focused, dark } = this.scene;
    const c = this.context;
    if (selected) this.#ring(selected, inkOf(dark), 2, 2.5);
    if (focused) {
      this.#ring(focused, dark ? "#ffffff" : "#000000", 2, 2);
      this.#ring(focused, dark ? "#000000" : "#ffffff", 1, 0.5);
    }
    c.setLineDash([]);
  }

  #ring({ line, column, index }, colour, width, out) {
    const { x, y, side } = this.scene.flow.placeOf(line, column, index);
    const c = this.context;
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.beginPath();
    c.roundRect(x - out, y - this.top - out, side + 2 * out, side + 2 * out, 3);
    c.stroke();
  }
}

function cut(context, text, width) {
  const short = text.length > 120 ? `${text.slice(0, 60)}…${text.slice(-60)}` : text;
  if (short === text && context.measureText(text).width <= width) return text;
  for (let keep = Math.min(60, short.length - 1); keep > 2; keep--) {
    const ends = Math.ceil(keep * 0.6);
    const tried = `${text.slice(0, keep - ends)}…${text.slice(-ends)}`;
    if (context.measureText(tried).width <= width) return tried;
  }
  return "…";
}
