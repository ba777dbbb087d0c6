/**
 * What is looked at, as the fragment of the address: `#/why?pod=default/greedy&sel=device:…`. The only state of the page that
 * matters, so that every address can be sent to somebody else. Names stand in it, since numbers mean nothing elsewhere.
 */

export const VIEWS = ["map", "why", "fits", "time", "claims", "drivers"];
const KEPT = ["sel"]; // what stays when the view changes

export function read() {
  const [path, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  const view = path.replace(/^\//, "");
  return { view: VIEWS.includes(view) ? view : "map", params: new URLSearchParams(query) };
}

/** The address of a view. Parameters that are empty are left out. */
export function address(view, params = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) if (value) query.set(key, value);
  return `#/${view}${query.size ? `?${query}` : ""}`;
}

/** The address of what is shown now with some parameters changed. */
export function changed(changes) {
  const { view, params } = read();
  return address(view, { ...Object.fromEntries(params), ...changes });
}

/** Typing replaces an entry of the history, choosing adds one. */
export function change(changes, { replace = false } = {}) {
  const next = changed(changes);
  if (next === location.hash) return;
  if (replace) {
    history.replaceState(null, "", next);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = next;
}

/** The address of another view; what is selected stays selected. */
export function other(view) {
  const { params } = read();
  return address(view, Object.fromEntries(KEPT.map((key) => [key, params.get(key)])));
}

/** The address that selects something in the view that is shown. */
export const select = (kind, name) => changed({ sel: `${kind}:${name}` });

/** What is selected: its kind and its name. */
export function selection() {
  const text = read().params.get("sel") ?? "";
  const at = text.indexOf(":");
  return at < 0 ? null : { kind: text.slice(0, at), name: text.slice(at + 1) };
}

/** Take a one-time code out of the address, so that it is neither kept in the history nor sent on. */
export function takeCode() {
  const { hash } = location;
  const found = /^#(?:.*[&?])?code=([^&]*)/.exec(hash);
  if (!found) return null;
  const rest = hash.replace(/([#&?])code=[^&]*&?/, "$1").replace(/[&?]$/, "");
  history.replaceState(null, "", rest === "#" || rest === "" ? "#/map" : rest);
  return decodeURIComponent(found[1]);
}
