/**
 * Where each device is drawn: racks (or zones) below each other, nodes in them as tiles, a cell a device.
 *
 * `arrange` decides the order, from the picture; `Flow` gives places, for one width and one size of cells. Both are pure.
 * Left out: drawing, and what a cell looks like inside.
 */

/** `label` is the most that a node's name may take; the overview has none, and pointing at a cell says it. */
export const SIZES = {
  large: { cell: 22, gap: 3, label: 124, pad: 16, line: 30, font: 12, header: 30, caption: 14 },
  small: { cell: 12, gap: 2, label: 92, pad: 12, line: 17, font: 11, header: 26, caption: 13 },
  overview: { cell: 7, gap: 1, label: 0, pad: 5, line: 10, font: 0, header: 20, caption: 12 },
};
const AFTER_GROUP = 8;
/** In the place of a device: nothing is drawn there. */
export const SPACE = -1;

export function sizeFor(nodes, width) {
  if (nodes <= (width < 600 ? 40 : 150)) return "large";
  return nodes <= 1200 ? "small" : "overview";
}

const keys = new Map();

/** Numbers in names count as numbers: node-2 comes before node-10. Padding once is faster than a collator each time. */
function sortKey(name) {
  let key = keys.get(name);
  if (key === undefined) {
    if (keys.size > 100000) keys.clear();
    keys.set(name, (key = name.replace(/\d+/g, (digits) => digits.padStart(8, "0"))));
  }
  return key;
}

const inOrder = (a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);

/** Groups of tiles, in order. With a mask, tiles without any device of it are left out. */
export function arrange(store, mask = null) {
  const tiles = collectTiles(store, mask);
  const groups = new Map();
  for (const tile of tiles.values()) {
    if (mask && !tile.wanted) continue;
    const title = tile.group;
    if (!groups.has(title)) groups.set(title, { title, key: `${tile.last ? "1" : "0"}${sortKey(title)}`, tiles: [], bands: [], most: 0, run: 1 });
    groups.get(title).tiles.push(tile);
  }
  const ordered = [...groups.values()].sort(inOrder);
  for (const group of ordered) align(group);
  return ordered;
}

/** Give each driver of a group a band of columns, so that one caption above them tells GPUs from network cards. */
function align(group) {
  const counts = new Map();
  for (const { runs } of group.tiles) for (const [driver, run] of runs) counts.set(driver, Math.max(counts.get(driver) ?? 0, run.length));
  let start = 0;
  for (const [driver, count] of [...counts].sort()) {
    group.bands.push({ driver, start, count });
    group.most = start + count;
    group.run = Math.max(group.run, count);
    start += count + 1;
  }
  group.tiles.sort(inOrder);
  for (const tile of group.tiles) tile.cells = inBands(tile.runs, group.bands);
}

/** Cells of a tile, from left to right. `SPACE` stands before a band, and where a band has more than this tile. */
function inBands(runs, bands) {
  const cells = [];
  for (const { driver, start } of bands) {
    if (!runs.has(driver)) continue;
    while (cells.length < start) cells.push(SPACE);
    cells.push(...runs.get(driver));
  }
  return cells;
}

function collectTiles(store, mask) {
  const { devices } = store;
  const tiles = new Map();
  const parts = new Map();
  for (let id = 0; id < devices.size; id++) {
    if (!devices.present[id]) continue;
    const tile = tileOf(store, tiles, devices.pool[id]);
    if (mask && mask[id]) tile.wanted = true;
    const cell = devices.cell[id];
    if (cell === id || !devices.present[cell]) tile.cells.push(id);
    else if (parts.has(cell)) parts.get(cell).push(id);
    else parts.set(cell, [id]);
  }
  for (const tile of tiles.values()) {
    tile.parts = parts;
    tile.runs = runsOf(store, tile.cells);
  }
  return tiles;
}

/** Whether cells are of one pool and in order already, as they mostly are. */
function isInTurn(store, cells) {
  const { pool } = store.devices;
  let last = "";
  for (const id of cells) {
    const key = sortKey(store.deviceName(id));
    if (pool[id] !== pool[cells[0]] || key < last) return false;
    last = key;
  }
  return true;
}

/** Cells by driver, each driver's in the order of their names. */
function runsOf(store, cells) {
  const driverOf = (id) => store.poolOf(id)?.driver ?? "";
  if (isInTurn(store, cells)) return new Map([[driverOf(cells[0]), cells]]);
  const all = cells.map((id) => ({ id, key: sortKey(store.deviceName(id)) })).sort(inOrder);
  return Map.groupBy(all.map(({ id }) => id), driverOf);
}

function tileOf(store, tiles, poolId) {
  const pool = store.pools.get(poolId);
  const key = pool && pool.node !== null ? pool.node : -1 - poolId;
  let tile = tiles.get(key);
  if (!tile) tiles.set(key, (tile = newTile(pool, key >= 0 ? store.nodes.get(key) : undefined)));
  return tile;
}

function newTile(pool, node) {
  const name = node?.name ?? pool?.name ?? "unknown pool";
  const place = node ? [node.zone, node.rack].filter(Boolean).join(" · ") || "Nodes" : pool?.node != null ? "Nodes that are not known" : "Not on one node";
  return { node, name, key: sortKey(name), group: place, last: !node, cells: [], runs: null, parts: null, wanted: false };
}

/** Room for the longest name, as far as there may be; a letter is about 0.6 of its height wide. */
function labelWidth(groups, { label, font }) {
  let longest = 0;
  for (const { tiles } of groups) for (const { name } of tiles) longest = Math.max(longest, name.length + 2);
  return Math.min(label, Math.ceil(longest * font * 0.6) + 10);
}

/** Where the cells of a node need several lines, each driver begins a line. */
function wrapped(tile, across) {
  if (tile.cells.length <= across) return tile;
  const cells = [];
  for (const id of tile.cells) {
    if (id !== SPACE) cells.push(id);
    else while (cells.length % across) cells.push(SPACE);
  }
  return { ...tile, cells };
}

/** Places for one width: `lines` of tiles and headers from top to bottom, found by bisection. */
export class Flow {
  constructor(groups, width, size) {
    this.groups = groups;
    this.size = SIZES[size];
    this.width = width;
    this.label = labelWidth(groups, this.size);
    this.lines = [];
    this.height = 0;
    this.tiles = 0;
    this.captions = new Set(groups.flatMap(({ bands }) => bands.map(({ driver }) => driver))).size > 1; // else there is nothing to tell apart
    for (const group of groups) this.#place(group);
  }

  #place(group) {
    const { cell, gap, pad, line, header, caption } = this.size;
    const pitch = cell + gap;
    const { label } = this;
    const room = Math.max(1, Math.floor((this.width - label - pad) / pitch));
    const across = group.most <= room ? group.most : Math.min(room, group.run);
    const tile = label + across * pitch + pad;
    const columns = Math.max(1, Math.floor(this.width / tile));
    const captions = this.captions && group.most <= room ? group.bands : []; // lines that are broken have no columns
    const above = header + (captions.length ? caption : 0);
    this.lines.push({ y: this.height, height: above, group, tile, captions, columns: Math.min(columns, group.tiles.length), tiles: null });
    this.height += above;
    for (let first = 0; first < group.tiles.length; first += columns) {
      const tiles = group.tiles.slice(first, first + columns).map((one) => wrapped(one, across));
      const rows = Math.max(...tiles.map((one) => Math.ceil(one.cells.length / across)));
      const height = line + (rows - 1) * pitch;
      this.lines.push({ y: this.height, height, group, across, tile, tiles });
      this.height += height;
    }
    this.tiles += group.tiles.length;
    this.height += AFTER_GROUP;
  }

  /** The first line that reaches below a height. */
  lineAt(y) {
    let low = 0;
    let high = this.lines.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.lines[middle].y + this.lines[middle].height <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The place of a tile's cell in a line. */
  placeOf(line, column, index) {
    const { cell, gap } = this.size;
    const x = column * line.tile + this.label + (index % line.across) * (cell + gap);
    const y = line.y + Math.floor(index / line.across) * (cell + gap) + (this.size.line - cell) / 2;
    return { x, y, side: cell };
  }

  /** The cell at a place, or null. */
  cellAt(x, y) {
    const line = this.lines[this.lineAt(y)];
    if (!line?.tiles || y < line.y) return null;
    const { cell, gap } = this.size;
    const column = Math.floor(x / line.tile);
    const tile = line.tiles[column];
    const across = Math.floor((x - column * line.tile - this.label) / (cell + gap));
    if (!tile || across < 0 || across >= line.across) return null;
    const down = Math.max(0, Math.floor((y - line.y - (this.size.line - cell) / 2) / (cell + gap)));
    const index = down * line.across + across;
    return index < tile.cells.length && tile.cells[index] !== SPACE ? { line, column, index, id: tile.cells[index], tile } : null;
  }

  /** Where a device's cell is, or null. A scan, done when something is selected. */
  find(cell) {
    for (const line of this.lines) {
      for (let column = 0; column < (line.tiles?.length ?? 0); column++) {
        const index = line.tiles[column].cells.indexOf(cell);
        if (index >= 0) return { line, column, index, id: cell, tile: line.tiles[column] };
      }
    }
    return null;
  }
}
