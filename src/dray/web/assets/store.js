/**
 * The picture that the server sends: tables of rows by number, kept as they come.
 *
 * Devices are many and drawn often, so their columns are arrays by number; all other tables are maps of rows. `version`
 * counts changes of each table, `shape` changes of what there is to lay out (devices, pools and nodes that come or go).
 * Left out: what is drawn of it, and anything that is derived and can be computed when somebody looks.
 */

const NONE = Object.freeze([]);
const TABLES = ["nodes", "classes", "drivers", "pools", "claims", "pods", "groups", "causes"];
const STRINGS = { nodes: ["zone", "rack"], claims: ["namespace", "state"], pods: ["namespace"], groups: ["namespace", "kind", "state", "fares"] };

/** The columns of devices. A number that no device has is not `present`. */
class Devices {
  constructor() {
    this.size = 0;
    this.count = 0;
    this.claims = [];
    this.since = [];
    this.used = [];
    this.share = [];
    this.#reserve(1024);
  }

  #reserve(capacity) {
    const grown = (Kind, old) => { const next = new Kind(capacity); if (old) next.set(old); return next; };
    this.present = grown(Uint8Array, this.present);
    this.state = grown(Uint8Array, this.state);
    this.flags = grown(Uint8Array, this.flags);
    this.pool = grown(Int32Array, this.pool);
    this.cell = grown(Int32Array, this.cell);
    this.name = grown(Int32Array, this.name);
  }

  /** Take rows over; whether any is new or has moved. */
  set(columns) {
    let moved = false;
    const { id, state, flags, pool, cell, name, claims, since, used, share } = columns;
    for (let i = 0; i < id.length; i++) {
      const n = id[i];
      if (n >= this.present.length) this.#reserve(2 ** Math.ceil(Math.log2(n + 1)));
      if (!this.present[n]) { this.present[n] = 1; this.count++; moved = true; }
      moved ||= this.cell[n] !== cell[i] || this.pool[n] !== (pool[i] ?? -1);
      this.state[n] = state[i];
      this.flags[n] = flags[i];
      this.pool[n] = pool[i] ?? -1;
      this.cell[n] = cell[i] ?? n;
      this.name[n] = name[i];
      this.claims[n] = claims[i].length ? claims[i] : NONE;
      this.since[n] = since[i];
      this.used[n] = used[i];
      this.share[n] = share[i];
      if (n >= this.size) this.size = n + 1;
    }
    return moved;
  }

  drop(numbers) {
    for (const n of numbers) {
      if (!this.present[n]) continue;
      this.present[n] = 0;
      this.claims[n] = NONE;
      this.count--;
    }
  }

  /** Call with the number of each device there is. */
  each(call) {
    for (let n = 0; n < this.size; n++) if (this.present[n]) call(n);
  }
}

export class Store {
  constructor(hello) {
    this.hello = hello;
    this.resources = hello.resources;
    this.strings = [...hello.strings];
    this.ahead = hello.now - Date.now() / 1000;
    this.at = hello.now;
    this.ready = false;
    this.shape = 0;
    this.devices = new Devices();
    this.version = { devices: 0 };
    for (const table of TABLES) {
      this[table] = new Map();
      this.version[table] = 0;
    }
  }

  /** Now, by the clock of the server. */
  now() {
    return Date.now() / 1000 + this.ahead;
  }

  apply(message) {
    (message.strings ?? NONE).forEach((text, i) => { this.strings[message.first + i] = text; });
    this.at = message.at ?? this.at;
    if (message.devices) this.#applyDevices(message.devices);
    for (const table of TABLES) if (message[table]) this.#applyTable(table, message[table]);
  }

  #applyDevices({ set, gone }) {
    const moved = set ? this.devices.set(set) : false;
    if (gone) this.devices.drop(gone);
    if (moved || gone) this.shape++;
    this.version.devices++;
  }

  #applyTable(table, { set, gone }) {
    const rows = this[table];
    for (const id of gone ?? NONE) rows.delete(id);
    if (set) this.#setRows(table, rows, set);
    this.version[table]++;
    if (table === "nodes" || table === "pools") this.shape++;
  }

  #setRows(table, rows, set) {
    const columns = Object.keys(set);
    const coded = new Set(STRINGS[table] ?? NONE);
    for (let i = 0; i < set.id.length; i++) {
      const row = {};
      for (const column of columns) row[column] = coded.has(column) ? this.strings[set[column][i]] : set[column][i];
      if (table === "pools") row.driver = this.drivers.get(row.driver)?.name ?? ""; // drivers come before their pools
      rows.set(row.id, row);
    }
  }

  // What devices are called and where they are.

  deviceName(id) {
    return this.strings[this.devices.name[id]] ?? "";
  }

  poolOf(id) {
    return this.pools.get(this.devices.pool[id]);
  }

  nodeOf(id) {
    const pool = this.poolOf(id);
    return pool && pool.node !== null ? this.nodes.get(pool.node) : undefined;
  }

  deviceKey(id) {
    const pool = this.poolOf(id);
    return `${pool?.driver ?? ""}/${pool?.name ?? ""}/${this.deviceName(id)}`;
  }

  claimsOf(id) {
    return (this.devices.claims[id] ?? NONE).map((claim) => this.claims.get(claim)).filter(Boolean);
  }

  partsOf(cell) {
    const found = [];
    this.devices.each((id) => { if (this.devices.cell[id] === cell && id !== cell) found.push(id); });
    return found;
  }

  // From the names in an address to rows, by a scan.

  /** The number of a device, looked for again only when devices have come or gone. */
  findDevice(key) {
    if (this.sought?.key !== key || this.sought.shape !== this.shape) this.sought = { key, shape: this.shape, id: this.#seekDevice(key) };
    return this.sought.id;
  }

  #seekDevice(key) {
    for (let id = 0; id < this.devices.size; id++) {
      if (this.devices.present[id] && key.endsWith(this.deviceName(id)) && this.deviceKey(id) === key) return id;
    }
    return undefined;
  }

  find(table, namespace, name) {
    for (const row of this[table].values()) {
      if (row.name === name && (row.namespace ?? "") === namespace) return row;
    }
    return undefined;
  }

  labelsOf(node) {
    return node.labels.map((number) => this.strings[number]);
  }

  /** How many devices have which state. */
  tally() {
    if (this.tallied !== this.version.devices) {
      const { present, state, size } = this.devices;
      this.counts = new Array(10).fill(0);
      for (let id = 0; id < size; id++) if (present[id]) this.counts[state[id]]++;
      this.tallied = this.version.devices;
    }
    return this.counts;
  }

  /** What the cluster itself has counted, for who may not read all claims: total, allocated, available, unavailable; or null. */
  poolCounts() {
    const sums = [0, 0, 0, 0];
    let known = false;
    for (const { counts } of this.pools.values()) {
      if (!counts) continue;
      known = true;
      counts.forEach((count, i) => { sums[i] += count; });
    }
    return known ? sums : null;
  }

  /** How many nodes publish devices. */
  publishingNodes() {
    if (this.noded !== this.version.pools) {
      this.publishing = new Set([...this.pools.values()].map((pool) => pool.node).filter((node) => node !== null)).size;
      this.noded = this.version.pools;
    }
    return this.publishing;
  }
}

/** Mark the numbers of ranges, `[[first, count], …]`, with a value. */
export function spread(ranges, into, value) {
  for (const [first, count] of ranges) into.fill(value, first, Math.min(first + count, into.length));
  return into;
}
