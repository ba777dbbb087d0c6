/**
 * A small plot of one series over the last hour, on canvas: a line, its area, a scale, and a cursor.
 *
 * The newest value stands beside the title as text, and the plot has a label that says the range, so that nothing is only
 * drawn. Left out: zooming, and more than one series.
 */

import { h, setAttribute, setText } from "./dom.js";
import { atMinute } from "./words.js";

const FOOT = 18;
const LEFT = 46;
const LINES = ["#e1e4e8", "#2d333b"];
const TEXT = ["#57606a", "#9aa4af"];

export class Plot {
  constructor({ title, colour, format, top = null }) {
    Object.assign(this, { colour, format, top, title });
    this.value = h("strong");
    this.canvas = h("canvas", { role: "img", class: "plot-canvas" });
    this.element = h("figure", { class: "panel plot" }, h("figcaption", {}, h("span", {}, title), this.value), this.canvas);
  }

  /** `at` and `values` are columns of equal length; `cursor` is a time, or null. */
  draw({ at, values, from, until, cursor, dark }) {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    if (!width) return;
    const known = values.filter((value) => value !== null);
    setText(this.value, known.length ? this.format(valueAt(at, values, cursor) ?? known.at(-1)) : "not known to you");
    const most = this.top ?? nice(Math.max(1, ...known.slice(-3600)));
    const scale = { x: (t) => LEFT + ((t - from) / Math.max(1, until - from)) * (width - LEFT - 6), y: (v) => 6 + (1 - v / most) * (height - FOOT - 6) };
    this.#label(known);
    const c = this.#context(width, height);
    this.#axes(c, scale, { from, until, most, width, dark });
    this.#line(c, scale, at, values, dark);
    if (cursor !== null) this.#cursor(c, scale.x(cursor), height, dark);
  }

  #label(known) {
    const least = known.length ? this.format(Math.min(...known)) : "";
    setAttribute(this.canvas, "aria-label", known.length ? `${this.title}: between ${least} and ${this.format(Math.max(...known))}` : `${this.title}: nothing known`);
  }

  #context(width, height) {
    const density = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * density);
    this.canvas.height = Math.round(height * density);
    const c = this.canvas.getContext("2d");
    c.setTransform(density, 0, 0, density, 0, 0);
    return c;
  }

  #axes(c, scale, { from, until, most, width, dark }) {
    const theme = dark ? 1 : 0;
    c.font = "11px system-ui, sans-serif";
    c.lineWidth = 1;
    c.strokeStyle = LINES[theme];
    c.fillStyle = TEXT[theme];
    c.textBaseline = "middle";
    c.textAlign = "right";
    for (const value of [0, most / 2, most]) {
      const y = Math.round(scale.y(value)) + 0.5;
      c.beginPath();
      c.moveTo(LEFT, y);
      c.lineTo(width - 6, y);
      c.stroke();
      c.fillText(this.format(value, true), LEFT - 6, y);
    }
    c.textBaseline = "alphabetic";
    const y = scale.y(0) + 14;
    c.textAlign = "left";
    c.fillText(atMinute(from), LEFT, y);
    c.textAlign = "right";
    c.fillText(atMinute(until), width - 6, y);
  }

  /** At most one point a pixel; gaps stay gaps. */
  #line(c, scale, at, values, dark) {
    const colour = this.colour[dark ? 1 : 0];
    const pieces = piecesOf(scale, at, values);
    c.strokeStyle = c.fillStyle = colour;
    c.lineWidth = 1.5;
    c.lineJoin = "round";
    for (const points of pieces) {
      const path = new Path2D();
      points.forEach(([x, y], i) => (i ? path.lineTo(x, y) : path.moveTo(x, y)));
      c.stroke(path);
      path.lineTo(points.at(-1)[0], scale.y(0));
      path.lineTo(points[0][0], scale.y(0));
      c.globalAlpha = 0.14;
      c.fill(path);
      c.globalAlpha = 1;
    }
  }

  #cursor(c, x, height, dark) {
    c.strokeStyle = dark ? "#ffffff" : "#000000";
    c.setLineDash([3, 3]);
    c.beginPath();
    c.moveTo(x, 2);
    c.lineTo(x, height - FOOT);
    c.stroke();
    c.setLineDash([]);
  }
}

function piecesOf(scale, at, values) {
  const pieces = [];
  let points = null;
  let last = -1;
  for (let i = 0; i < at.length; i++) {
    if (values[i] === null) { points = null; continue; }
    const x = scale.x(at[i]);
    if (points && x - last < 0.8 && i < at.length - 1) continue;
    if (!points) pieces.push((points = []));
    points.push([x, scale.y(values[i])]);
    last = x;
  }
  return pieces;
}

function valueAt(at, values, time) {
  if (time === null) return null;
  let found = null;
  for (let i = 0; i < at.length && at[i] <= time; i++) found = values[i];
  return found;
}

/** The next number that is good to read at an axis, as is its half. */
function nice(value) {
  const size = 10 ** Math.floor(Math.log10(value));
  return Math.max(2, [1, 2, 4, 10].map((factor) => factor * size).find((one) => one >= value));
}
