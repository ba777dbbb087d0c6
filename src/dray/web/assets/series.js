/** The last hour in numbers, one sample a second: asked for once, then continued by the stream. */

import { getSeries } from "./server.js";

const MOST = 3600;
const COLUMNS = ["at", "devices", "allocated", "unusable", "waiting", "pods", "allocations"];

export class Series {
  constructor() {
    this.columns = Object.fromEntries(COLUMNS.map((column) => [column, []]));
    this.from = null;
    this.version = 0;
  }

  async load() {
    const found = await getSeries();
    const late = this.columns;
    this.columns = Object.fromEntries(COLUMNS.map((column) => [column, [...(found.columns[column] ?? [])]]));
    this.from = found.from;
    const last = this.columns.at.at(-1) ?? 0;
    late.at.forEach((at, i) => {
      if (at > last) for (const column of COLUMNS) this.columns[column].push(late[column][i]);
    });
    this.version++;
  }

  add(sample) {
    for (const column of COLUMNS) {
      this.columns[column].push(sample[column] ?? null);
      if (this.columns[column].length > MOST) this.columns[column].shift();
    }
    this.from = Math.max(this.from ?? sample.at, this.columns.at[0]);
    this.version++;
  }

  get last() {
    const { columns } = this;
    const i = columns.at.length - 1;
    return i < 0 ? null : Object.fromEntries(COLUMNS.map((column) => [column, columns[column][i]]));
  }
}
