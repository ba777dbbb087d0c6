/**
 * Where each device is drawn: racks (or zones) below each other, nodes in them as tiles, a cell a device.
 *
 * `arrange` decides the order, from the picture; `Flow` gives places, for one width and one size of cells. Both are pure.
 * Left out: drawing, and what a cell looks like inside.
 */

/** `label` is the most that a node's name may take; the overview has none, and pointing at a cell says it. */
export const SIZES = {
  large: { cell: 22, gap: 3, label: 124, pad: 16, line: 30, font: 12, header: 30 },
  small: { cell: 12, gap: 2, label: 92, pad: 12, line: 17, font: 11, header: 26 },
  overview: { cell: 7, gap: 1, label: 0, pad: 5, line: 10, font: 0, header: 20 },
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
    if (!groups.has(title)) groups.set(title, { title, key: `${tile.last ? "1" : "0"}${sortKey(title)}`, tiles: [], most: 0, run: 1 });
    const group = groups.get(title);
    group.tiles.push(tile);
    group.most = Math.max(group.most, tile.cells.length);
    group.run = Math.max(group.run, longestRun(tile.cells));
  }
  const ordered = [...groups.values()].sort(inOrder);
  for (const group of ordered) group.tiles.sort(inOrder);
  return ordered;
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
    tile.cells = inTurn(store, tile.cells);
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

/** Cells by driver and name. `SPACE` keeps drivers apart, so that GPUs and network cards can be told from each other. */
function inTurn(store, cells) {
  if (isInTurn(store, cells)) return cells;
  const all = cells.map((id) => ({ id, driver: store.poolOf(id)?.driver ?? "", key: "" }));
  for (const one of all) one.key = `${one.driver} ${sortKey(store.deviceName(one.id))}`;
  all.sort(inOrder);
  return all.flatMap(({ id, driver }, i) => (i && all[i - 1].driver !== driver ? [SPACE, id] : [id]));
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
  return { node, name, key: sortKey(name), group: place, last: !node, cells: [], parts: null, wanted: false };
}

/** Room for the longest name, as far as there may be; a letter is about 0.6 of its height wide. */
function labelWidth(groups, { label, font }) {
  let longest = 0;
  for (const { tiles } of groups) for (const { name } of tiles) longest = Math.max(longest, name.length + 2);
  return Math.min(label, Math.ceil(longest * font * 0.6) + 10);
}

/** The most devices that one driver has side by side. */
function longestRun(cells) {
  let run = 0;
  let longest = 0;
  for (const id of cells) {
    run = id === SPACE ? 0 : run + 1;
    longest = Math.max(longest, run);
  }
  return longest;
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
    for (const group of groups) this.#place(group);
  }

  #place(group) {
    const { cell, gap, pad, line, header } = this.size;
    const pitch = cell + gap;
    const { label } = this;
    const room = Math.max(1, Math.floor((this.width - label - pad) / pitch));
    const across = group.most <= room ? group.most : Math.min(room, group.run);
    const tile = label + across * pitch + pad;
    const columns = Math.max(1, Math.floor(this.width / tile));
    this.lines.push({ y: this.height, height: header, group, tiles: null });
    this.height += header;
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
