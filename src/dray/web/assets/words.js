/** Numbers, times and states as people read them. The only place that makes words of them. */

const count = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const minute = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });

export const number = (value) => (value === null || value === undefined ? "?" : count.format(value));
export const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "0 %");
export const plural = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;
/** What stands before a count. Where others may hold some of it, it is no more than that; nothing is sure if both are so. */
export const bound = (exact, hidden) => (hidden ? (exact ? "at most " : "perhaps ") : exact ? "" : "at least ");
/** The form of a verb that goes with a number. */
export const verb = (value, one, many) => (value === 1 ? one : many);
/** Names as they stand in a sentence. */
export const listed = (names) => new Intl.ListFormat("en").format(names);
export const atClock = (seconds) => clock.format(seconds * 1000);
export const atMinute = (seconds) => minute.format(seconds * 1000);
export const atMoment = (seconds) => moment.format(seconds * 1000);
export const decimals = (value, digits = 1) => (value === null || value === undefined ? "?" : value.toFixed(digits));

/** How long something lasts, in its two largest units. */
export function lasting(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = units.findIndex(([size]) => whole >= size);
  if (first < 0) return "0 s";
  const [size, unit] = units[first];
  const rest = units[first + 1] && first < 2 ? Math.floor((whole % size) / units[first + 1][0]) : 0;
  return `${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${units[first + 1][1]}` : ""}`;
}

export function milliseconds(seconds) {
  if (seconds === null || seconds === undefined) return "?";
  return seconds < 1 ? `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms` : `${seconds.toFixed(1)} s`;
}

/** What the cluster counted of a pool: total, allocated, available, unavailable. */
export const countsText = ([total, allocated, available, unavailable]) =>
  `${number(allocated)} of ${number(total)} allocated, ${number(available)} available${unavailable ? `, ${number(unavailable)} unavailable` : ""}`;

export const POD_STATES = ["waits", "gated", "starting", "running", "ending", "done"];

export const POOL_PROBLEMS = {
  "slices-missing": "slices are missing",
  "slice-counts-differ": "its slices disagree on how many they are",
  "duplicate-device": "a device is in it twice",
  "duplicate-counter-set": "a counter set is in it twice",
  "unknown-counter-set": "a device draws on a counter set that does not exist",
  "unknown-counter": "a device draws on a counter that does not exist",
};

export const SHOWN = {
  all: "",
  namespace: "only those of your namespace are shown",
  hidden: "you may not read them",
  absent: "this cluster does not have them",
};

export const RESOURCES = {
  nodes: "nodes",
  resourceslices: "resource slices",
  deviceclasses: "device classes",
  devicetaintrules: "device taint rules",
  resourceclaims: "resource claims",
  pods: "pods",
  podgroups: "pod groups",
  workloads: "workloads",
};

export const CLAIM_STATES = {
  pending: "pending",
  allocated: "allocated, unreserved",
  reserved: "reserved",
  deleting: "deleting",
  "deleting-allocated": "deleting, unreserved",
  "deleting-reserved": "deleting, reserved",
  gone: "gone",
};
