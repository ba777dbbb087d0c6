/** What the server knows of one device beyond its row, asked for once and kept while the device's row stays the same. */

import { ask } from "./server.js";

const MOST = 200;
const kept = new Map();

function keyOf(store, id) {
  const { devices } = store;
  return `${store.hello.epoch} ${id} ${devices.state[id]} ${devices.claims[id]?.join()} ${devices.used[id]}`;
}

/** The details, if they are known already. */
export function remembered(store, id) {
  const found = kept.get(keyOf(store, id));
  return found instanceof Promise ? null : found ?? null;
}

export async function details(store, id) {
  const key = keyOf(store, id);
  if (!kept.has(key)) {
    if (kept.size >= MOST) kept.delete(kept.keys().next().value);
    kept.set(key, ask("device", { id }));
  }
  try {
    const found = await kept.get(key);
    kept.set(key, found);
    return found;
  } catch (error) {
    kept.delete(key);
    throw error;
  }
}
