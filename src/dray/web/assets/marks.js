/**
 * What a device looks like: a colour and a mark for each state, so that nobody depends on colour alone.
 *
 * The colours are those of Okabe and Ito, which people with any common colour blindness tell apart. `Sheet` draws each look
 * once at the size and density of the screen; the map and the legend copy from it. Left out: where devices are drawn.
 */

const BLUE = ["#0072b2", "#4aa8e8"];
const SKY = ["#9fd3f2", "#1f4a66"];
const PALE = ["#ffffff", "#22272e"];
const LINE = ["#7d8a97", "#76818d"];
const INK = ["#1b1f24", "#e8eaed"];

/** In the order of the numbers that the server sends. `colours` are for light and dark. */
export const STATES = [
  { code: "free", label: "Free", mark: "outline", fill: PALE, ink: ["#00795a", "#3fc79a"] },
  { code: "reserved", label: "Allocated", mark: "solid", fill: BLUE, ink: BLUE },
  { code: "idle", label: "Allocated, unreserved", mark: "stripes", fill: SKY, ink: BLUE },
  { code: "shared", label: "Partly shared", mark: "half", fill: PALE, ink: BLUE },
  { code: "excluded", label: "Blocked by partitions", mark: "dot", fill: ["#e3e6ea", "#2d333b"], ink: LINE },
  { code: "tainted", label: "Tainted", mark: "slash", fill: ["#f3c14b", "#e0a526"], ink: ["#5c4300", "#332400"] },
  { code: "unhealthy", label: "Unhealthy", mark: "cross", fill: ["#d55e00", "#e8722a"], ink: ["#ffffff", "#1d0c00"] },
  { code: "incomplete", label: "Incomplete pool", mark: "dashes", fill: ["#fdf3b8", "#4a4517"], ink: ["#6d6200", "#f0e442"] },
  { code: "unpublished", label: "Held, unpublished", mark: "ring", fill: ["#f4d9e8", "#4d2a40"], ink: ["#a33b79", "#e596c4"] },
  { code: "unknown", label: "Not known to you", mark: "query", fill: ["#eceef1", "#262b32"], ink: LINE },
];
export const isHeld = (state) => (state >= 1 && state <= 3) || state === 8;

/** Looks of the steps at which devices drop out: dark to light, each with its number; the last are those that are left. */
const STEP_FILLS = [
  ["#e3e6ea", "#2b3037"], ["#5b3a86", "#8d69bd"], ["#32629a", "#5b8fcb"], ["#b07c00", "#c9992b"], ["#0e7f88", "#2aa3ad"],
  ["#8a4b2a", "#b4714d"], ["#9b3070", "#c75f9c"], ["#5f6b78", "#8a96a3"], ["#445d1f", "#7d9b4d"],
];
export const LEFT = { code: "left", label: "matches", mark: "star", fill: ["#009e73", "#25c296"], ink: ["#ffffff", "#04140e"] };
export const AS_FAR = { ...STATES[9], code: "left", label: "matches, as far as you can see" };

export function stepLooks(steps, left) {
  const looks = steps.map((step, index) => ({
    code: step.code, label: step.text, mark: "digit", digit: String(index),
    fill: STEP_FILLS[index % STEP_FILLS.length], ink: index === 0 ? LINE : ["#ffffff", "#0b0d10"],
  }));
  return [...looks, left];
}

const MARKS = {
  solid() {},
  outline: (c, s) => stroke(c, s, () => c.strokeRect(0.75, 0.75, s - 1.5, s - 1.5)),
  stripes(c, s) {
    const gap = Math.max(3, s / 4);
    stroke(c, s, () => {
      for (let x = -s; x < s; x += gap) line(c, x, s, x + s, 0);
      c.strokeRect(0.5, 0.5, s - 1, s - 1);
    });
  },
  half(c, s) {
    c.fillRect(0, s / 2, s, s / 2);
    stroke(c, s, () => c.strokeRect(0.5, 0.5, s - 1, s - 1));
  },
  dot(c, s) {
    c.beginPath();
    c.arc(s / 2, s / 2, Math.max(1, s / 7), 0, 7);
    c.fill();
  },
  slash: (c, s) => stroke(c, s, () => line(c, s * 0.2, s * 0.8, s * 0.8, s * 0.2)),
  cross: (c, s) => stroke(c, s, () => { line(c, s * 0.25, s * 0.25, s * 0.75, s * 0.75); line(c, s * 0.75, s * 0.25, s * 0.25, s * 0.75); }),
  dashes(c, s) {
    c.setLineDash([Math.max(2, s / 5), Math.max(1.5, s / 7)]);
    stroke(c, s, () => c.strokeRect(1, 1, s - 2, s - 2));
    c.setLineDash([]);
  },
  ring: (c, s) => stroke(c, s, () => { c.beginPath(); c.arc(s / 2, s / 2, s * 0.27, 0, 7); c.stroke(); }),
  query: (c, s) => letter(c, s, "?"),
  digit: (c, s, look) => letter(c, s, look.digit),
  star: (c, s) => letter(c, s, "✓"),
};

function line(c, x1, y1, x2, y2) {
  c.beginPath();
  c.moveTo(x1, y1);
  c.lineTo(x2, y2);
  c.stroke();
}

function stroke(c, size, draw) {
  c.lineWidth = Math.max(1, size / 10);
  draw();
}

function letter(c, size, text) {
  if (size < 9) return;
  c.font = `600 ${Math.round(size * 0.62)}px system-ui, sans-serif`;
  c.textAlign = "center";
  c.textBaseline = "middle";
  c.fillText(text, size / 2, size * 0.54);
}

/** All looks side by side on one canvas, in pixels of the screen. */
export class Sheet {
  constructor(looks, size, dark, density) {
    this.side = Math.round(size * density);
    this.canvas = document.createElement("canvas");
    this.canvas.width = this.side * looks.length;
    this.canvas.height = this.side;
    const context = (this.context = this.canvas.getContext("2d", { willReadFrequently: true }));
    this.count = looks.length;
    looks.forEach((look, index) => this.#draw(context, look, index, size, dark ? 1 : 0, density));
  }

  /** The looks as pixels, one array each, with so much of their opacity. */
  pixels(opacity) {
    return Array.from({ length: this.count }, (_, index) => {
      const { data } = this.context.getImageData(index * this.side, 0, this.side, this.side);
      for (let i = 3; i < data.length; i += 4) data[i] = Math.round(data[i] * opacity);
      return new Uint32Array(data.buffer);
    });
  }

  #draw(context, look, index, size, theme, density) {
    context.setTransform(density, 0, 0, density, index * this.side, 0);
    context.save();
    context.beginPath();
    context.roundRect(0, 0, size, size, size > 9 ? Math.min(3, size / 6) : 0);
    context.clip();
    context.fillStyle = look.fill[theme];
    context.fillRect(0, 0, size, size);
    context.fillStyle = context.strokeStyle = look.ink[theme];
    MARKS[look.mark](context, size, look);
    context.restore();
  }
}

/** A small picture of a look, for legends and lists. */
export function swatch(look, dark, size = 14) {
  const density = window.devicePixelRatio || 1;
  const { canvas } = new Sheet([look], size, dark, density);
  canvas.className = "swatch";
  canvas.style.width = canvas.style.height = `${size}px`;
  canvas.setAttribute("aria-hidden", "true");
  return canvas;
}

export const inkOf = (dark) => INK[dark ? 1 : 0];
