/**
 * Draws the part of the map that is visible. Cells are copied from the sheet of looks into a buffer of pixels, which is put
 * onto the canvas at once. With eight thousand cells in view that took 1.3 ms where as many calls of `drawImage` took
 * 30 ms. Names and rings are drawn over it.
 *
 * `scene` says what to draw: the flow, the looks, the look of each device (`lookOf`), a mask of devices that stand out, and
 * what is selected and focused. Left out: when to draw (`map`).
 */

import { SPACE } from "./map-layout.js";
import { inkOf, Sheet } from "./marks.js";

/** Room for the ring around a cell at the left edge. */
export const EDGE = 4;
const THINNEST = 3; // pixels that a part of a cell needs to be seen
const CAPTION = "10px system-ui, sans-serif";
const DIM = 0.16;
const EMPTY = 0; // the looks of a shared device: as far as it is used, and the rest
const FULL = 1;
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
    if (this.canvas.width !== wide || this.canvas.height !== high) this.#resize(width, height, wide, high);
    const key = [scene.looks.key, scene.flow.size.cell, scene.dark, density].join();
    if (this.sheetOf !== key) {
      this.sheet = new Sheet(scene.looks.all, scene.flow.size.cell, scene.dark, density);
      this.sprites = [this.sheet.pixels(1), this.sheet.pixels(DIM)];
      this.sheetOf = key;
      this.labels.clear();
    }
    this.density = density;
    this.pixels.fill(0);
  }

  #resize(width, height, wide, high) {
    this.canvas.width = wide;
    this.canvas.height = high;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.image = new ImageData(Math.max(1, wide), Math.max(1, high));
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  paint(scene, top, width, height) {
    if (width < 1 || height < 1) return;
    this.#prepare(scene, width, height);
    this.scene = scene;
    this.top = top;
    const lines = this.#visible(scene.flow, height);
    for (const line of lines) if (line.tiles) this.#paintCells(line);
    this.context.putImageData(this.image, 0, 0);
    this.context.setTransform(this.density, 0, 0, this.density, EDGE * this.density, 0);
    for (const line of lines) {
      if (line.tiles && scene.flow.size.label) this.#paintNames(line);
      if (line.tiles) continue;
      this.#paintHeader(line, width);
      this.#paintCaptions(line);
    }
    this.#paintRings();
  }

  #visible(flow, height) {
    const first = flow.lineAt(this.top);
    let end = first;
    while (end < flow.lines.length && flow.lines[end].y < this.top + height) end++;
    return flow.lines.slice(first, end);
  }

  #paintHeader(line, width) {
    const c = this.context;
    const theme = this.scene.dark ? 1 : 0;
    const y = line.y - this.top + this.scene.flow.size.header / 2 + 2;
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

  /** The names of drivers, small, above their cells. */
  #paintCaptions(line) {
    const { flow, dark } = this.scene;
    const { cell, gap, pad, caption } = flow.size;
    const c = this.context;
    c.font = CAPTION;
    c.fillStyle = FAINT[dark ? 1 : 0];
    for (const { driver, start, count } of line.captions) {
      const text = this.#caption(driver, count * (cell + gap) + pad - 4);
      const y = line.y - this.top + line.height - caption / 2;
      for (let column = 0; column < line.columns; column++) c.fillText(text, column * line.tile + flow.label + start * (cell + gap), y);
    }
  }

  /** A driver's name; where there is no room for it, what it begins with, which says most. */
  #caption(driver, width) {
    const key = `driver ${width} ${driver}`;
    if (!this.labels.has(key)) this.labels.set(key, this.context.measureText(driver).width <= width ? driver : cut(this.context, driver.split(".")[0], width));
    return this.labels.get(key);
  }

  #paintCells(line) {
    for (let column = 0; column < line.tiles.length; column++) {
      const { cells, parts } = line.tiles[column];
      for (let index = 0; index < cells.length; index++) {
        if (cells[index] === SPACE) continue;
        const { x, y } = this.scene.flow.placeOf(line, column, index);
        this.#paintCell(cells[index], parts.get(cells[index]), Math.round((x + EDGE) * this.density), Math.round((y - this.top) * this.density));
      }
    }
  }

  #paintNames(line) {
    const c = this.context;
    c.font = `${this.scene.flow.size.font}px system-ui, sans-serif`;
    c.textBaseline = "middle";
    c.textAlign = "left";
    line.tiles.forEach((tile, column) => this.#paintName(line, column, tile));
  }

  #paintName(line, column, tile) {
    const c = this.context;
    const down = tile.node && (!tile.node.ready || tile.node.cordoned);
    c.fillStyle = down ? (this.scene.dark ? "#e8a04a" : "#9a4a00") : FAINT[this.scene.dark ? 1 : 0];
    const text = down ? `${tile.node.ready ? "⊘" : "!"} ${tile.name}` : tile.name;
    c.fillText(this.#fit(text, this.scene.flow.label - 8), column * line.tile, line.y - this.top + this.scene.flow.size.line / 2);
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

  #paintCell(id, parts, x, y) {
    const { side } = this.sheet;
    const strips = parts ? this.scene.stripsOf(id, parts, Math.floor(side / (THINNEST * this.density))) : null;
    if (!strips || strips.length === 1) return this.#copy(id, x, y, 0, side);
    const widths = strips.map(([, share]) => Math.max(share * side, THINNEST * this.density));
    const scale = side / widths.reduce((sum, width) => sum + width, 0);
    let end = 0;
    strips.forEach(([part], i) => {
      const left = Math.round(end);
      end += widths[i] * scale;
      this.#copy(part, x, y, left, Math.round(end) - (i < strips.length - 1 ? 1 : 0));
    });
  }

  /** Copy a look, or a strip of it, from the sheet. A shared device is filled as far as it is used. */
  #copy(id, x, y, left, right) {
    const { scene, sheet: { side } } = this;
    const look = scene.lookOf(id);
    const sprites = this.sprites[scene.mask !== null && !scene.mask[id] ? 1 : 0];
    const used = scene.usedOf(id, look);
    if (used === null) return this.#blit(sprites[look], x, y, left, right, 0, side);
    const level = side - Math.max(2, Math.round(side * used));
    this.#blit(sprites[EMPTY], x, y, left, right, 0, level);
    this.#blit(sprites[FULL], x, y, left, right, level, side);
  }

  /** Copy columns and rows of a picture to a place; what is above or below the canvas is left out. */
  #blit(sprite, x, y, left, right, first, last) {
    const { pixels, sheet: { side }, canvas: { width, height } } = this;
    const end = Math.min(last, height - y);
    const stop = Math.min(right, width - x);
    for (let row = Math.max(first, -y); row < end; row++) {
      let to = (y + row) * width + x + left;
      let from = row * side + left;
      for (let column = left; column < stop; column++) pixels[to++] = sprite[from++];
    }
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
