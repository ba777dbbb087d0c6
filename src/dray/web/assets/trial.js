/** Trying something in a simulation: the form for a manifest, and what came of it in words. Nothing in the cluster changes. */

import { h, name, refill } from "./dom.js";
import { change, read, select } from "./route.js";
import { ask } from "./server.js";
import { bound, number, plural } from "./words.js";

const LISTED = 20;
const APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
const EXAMPLE = `apiVersion: v1
kind: Pod
metadata:
  name: trial
spec:
  containers:
  - name: main
    image: app
    resources:
      claims:
      - name: gpu
  resourceClaims:
  - name: gpu
    resourceClaimTemplateName: one-gpu
`;

/** The answer to a question of the kind `try`. */
export function placed(answer) {
  const without = answer.pods.filter((pod) => pod.node === null);
  const moved = (answer.moved ?? []).map((pod) => (typeof pod === "string" ? pod : `${pod.pod ?? ""}${pod.node ? ` → ${pod.node}` : ""}`));
  return h("div", { class: "placed" },
    answer.hidden ? h("p", { class: "notice" }, "You may not read all claims and pods: what others hold counts as free here.") : null,
    answer.howMany ? howMany(answer.howMany, answer.hidden) : null,
    h("p", { class: answer.fits ? "good" : "problem" }, answer.fits ? `It fits${answer.hidden ? " as far as you can see" : ""}: ${plural(answer.pods.length, "pod")} would get a node.` : `It does not fit: ${number(without.length)} of ${plural(answer.pods.length, "pod")} would get no node.`),
    h("ul", {}, answer.pods.slice(0, LISTED).map(podLine), answer.pods.length > LISTED ? h("li", { class: "faint" }, `${number(answer.pods.length - LISTED)} more`) : null),
    moved.length ? h("p", {}, `${plural(moved.length, "pod")} would have to move: `, name(moved.slice(0, LISTED).join(", "))) : null);
}

function howMany({ copies, complete, endedBy }, hidden) {
  const least = bound(complete, hidden);
  return h("div", {}, h("p", { class: "how-many" }, h("strong", {}, `${least}${number(copies)}`), ` more ${copies === 1 ? "copy fits" : "copies fit"}.`),
    endedBy?.message ? h("p", { class: "faint" }, "The next one does not: ", name(endedBy.message)) : null);
}

function podLine({ pod, node, devices = [], message = "" }) {
  if (node === null) return h("li", {}, name(pod), " gets no node. ", name(message));
  const links = devices.slice(0, 8).flatMap(({ device }, i) => [i ? ", " : "", h("a", { href: select("device", device), "data-key": `trial ${device}` }, name(device.split("/").at(-1)))]);
  return h("li", {}, name(pod), " would run on ", h("a", { href: select("node", node), "data-key": `trial ${node}` }, name(node)), links.length ? [" with ", ...links] : "", devices.length > 8 ? ` and ${devices.length - 8} more` : "");
}

export class TrialForm {
  constructor(app) {
    this.app = app;
    this.manifest = h("textarea", { id: "trial-manifest", rows: "14", spellcheck: "false", placeholder: EXAMPLE });
    this.like = h("select", { id: "trial-like", on: { change: (event) => change({ like: event.target.value }) } });
    this.drain = h("input", { id: "trial-drain", placeholder: "node-1, node-2", autocomplete: "off" });
    this.add = h("input", { id: "trial-add", type: "number", min: "0", max: "100", value: "0" });
    this.addLike = h("input", { id: "trial-add-like", placeholder: "node-1", list: "trial-nodes", autocomplete: "off" });
    this.nodes = h("datalist", { id: "trial-nodes" });
    this.result = h("div", { class: "trial-result", role: "status", "aria-live": "polite" });
    const field = (label, control) => h("label", { for: control.id }, h("span", {}, label), control);
    const go = (howMany) => () => this.#go(howMany);
    this.element = h("section", { class: "panel trial" }, h("h2", {}, "How many more"),
      h("p", { class: "faint" }, "Choose something that runs or waits, or paste a manifest: pods, jobs, claims, templates. It is tried in a simulation, and nothing in the cluster changes."),
      h("form", { on: { submit: (event) => { event.preventDefault(); this.#go(true); } } },
        field("Like", this.like), field("Manifest", this.manifest),
        h("div", { class: "fields" }, field("If these nodes were drained", this.drain), field("And so many nodes came", this.add), field("Like this node", this.addLike), this.nodes),
        h("div", { class: "buttons" }, h("button", { type: "submit", class: "main" }, "How many more fit?"), h("button", { type: "button", on: { click: go(false) } }, "Does one fit?"))),
      this.result);
  }

  update() {
    const { store } = this.app;
    const wanted = read().params.get("like") ?? "";
    const key = `${store.hello.epoch} ${store.version.pods}`;
    if (key !== this.optioned && document.activeElement !== this.like) this.#options(store, key, wanted);
    if (wanted !== (this.liked ?? "") && store.ready) this.#load(wanted);
  }

  #options(store, key, wanted) {
    this.optioned = key;
    const pods = [...store.pods.values()];
    const owners = new Set(pods.map((pod) => (pod.owner ? ownerLabel(pod) : "")).filter(Boolean));
    const single = pods.filter((pod) => !pod.owner).slice(0, 200).map((pod) => `Pod/${pod.namespace}/${pod.name}`);
    const all = [...owners].slice(0, 200).concat(single).sort();
    if (wanted && !all.includes(wanted)) all.push(wanted);
    this.like.replaceChildren(h("option", { value: "" }, "my own manifest"), ...all.map((text) => h("option", { value: text }, text)));
    this.like.value = wanted;
    this.nodes.replaceChildren(...[...store.nodes.values()].slice(0, 100).map((node) => h("option", { value: node.name })));
  }

  async #load(like) {
    this.liked = like;
    this.like.value = like;
    if (!like) return;
    const [kind, namespace, short] = like.split("/");
    try {
      this.manifest.value = await this.#manifestOf(kind, namespace, short);
      refill(this.result);
    } catch (error) {
      refill(this.result, h("p", { class: "problem" }, name(error.message)));
    }
  }

  /** The manifest of an owner, or that of one of its pods where the owner cannot be read. */
  async #manifestOf(kind, namespace, short) {
    try {
      return textOf(await ask("object", { kind, namespace, name: short }));
    } catch (error) {
      const pod = [...this.app.store.pods.values()].find((one) => one.namespace === namespace && one.owner === `${kind}/${short}`);
      if (!pod) throw error;
      return textOf(await ask("object", { kind: "Pod", namespace, name: pod.name }));
    }
  }

  async #go(howMany) {
    const question = { manifest: this.manifest.value, namespace: this.app.store.hello.namespace };
    const drain = this.drain.value.split(/[\s,]+/).filter(Boolean);
    if (drain.length) question.drain = drain;
    if (Number(this.add.value) > 0) question.addNodes = { like: this.addLike.value.trim(), count: Number(this.add.value) };
    if (howMany) Object.assign(question, { howMany: true, atMost: 1000 });
    refill(this.result, h("p", { class: "faint" }, "Simulating …"));
    try {
      refill(this.result, placed(await ask("try", question)));
    } catch (error) {
      refill(this.result, h("p", { class: "problem" }, error.field ? `${error.field}: ` : "", name(error.message)));
    }
  }
}

const ownerLabel = ({ owner, namespace }) => owner.replace("/", `/${namespace}/`);

/** JSON is YAML, too. What the cluster has added to an object is left out. */
function textOf({ object }) {
  const { metadata: { name: short, namespace, labels, annotations: { [APPLIED]: ___, ...annotations } = {} }, status: _, spec, ...rest } = object;
  const { nodeName: __, ...wanted } = spec ?? {};
  return JSON.stringify({ ...rest, metadata: { name: short, namespace, labels, annotations }, spec: wanted }, null, 2);
}
