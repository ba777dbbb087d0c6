/**
 * Why pods wait: all of them by cause, and for one the devices that were considered, step by step, on the map.
 *
 * What helps is what the server found in a simulation; "Try it" asks it to simulate that change for the pod.
 */

import { h, name, refill, say, setAttribute } from "./dom.js";
import { AS_FAR, LEFT, stepLooks, swatch } from "./marks.js";
import { address, change, read, select } from "./route.js";
import { ask, latest } from "./server.js";
import { spread } from "./store.js";
import { placed } from "./trial.js";
import { lasting, number, plural, verb } from "./words.js";

const LISTED = 50;
const NARROW = matchMedia("(max-width: 900px)"); // as in layout.css

export class WhyView {
  title = "Why";

  constructor(app) {
    this.app = app;
    this.answer = null;
    this.asked = "";
    this.pod = ""; // whose answer is shown; the address may name another by the time it comes
    this.opened = new Map(); // causes that somebody opened or closed
    this.asking = latest(30, (question, signal) => ask("why", question, signal), (answer) => this.#take(answer), (error) => this.#fail(error));
    this.list = h("div", { class: "causes" });
    this.story = h("div", { class: "story", "aria-live": "polite" });
    this.mapPlace = h("div", { class: "map-place panel" });
    this.legend = h("ul", { class: "legend", "aria-label": "Steps at which devices drop out" });
    this.element = h("div", { class: "view view-why" },
      h("section", { class: "panel why-list", "aria-label": "Pods that wait, by cause" }, h("h2", {}, "Pods that wait"), this.list),
      h("div", { class: "why-one" }, h("div", { class: "why-columns" }, this.story, h("div", { class: "why-map" }, h("div", { class: "bar" }, this.legend), this.mapPlace))));
  }

  show() {
    if (!this.answer) this.#tell();
    this.mapPlace.append(this.app.map.element);
  }

  update() {
    const { store } = this.app;
    this.#fillList(store);
    const { params } = read();
    if (!params.get("pod")) return this.#choose(store);
    const pod = params.get("pod");
    const row = pod ? store.find("pods", ...pod.split(/\/(.*)/s).slice(0, 2)) : null;
    const key = JSON.stringify([pod, store.hello.epoch, row?.state, row?.cause, row?.node]);
    if (key !== this.asked && store.ready) this.#ask(key, pod);
    if (this.answer && this.told !== this.request) this.#tell();
    this.#fillLegend();
    this.app.map.show({ lens: this.answer ? this.#lens(store) : null });
  }

  /** Without a pod in the address, the one that has waited longest is chosen. */
  #choose(store) {
    const [oldest] = store.ready ? waitingPods(store) : [];
    if (oldest) {
      this.chose = `${oldest.namespace}/${oldest.name}`;
      return change({ pod: this.chose }, { replace: true });
    }
    if (this.asked) this.#ask("", "");
    this.#fillLegend();
    this.app.map.show({ lens: null });
  }

  #ask(key, pod) {
    const again = this.asked.startsWith(JSON.stringify([pod]).slice(0, -1));
    this.asked = key;
    this.pod = pod;
    if (pod !== this.chose) this.chose = "";
    if (!again) { this.answer = null; this.trial = null; }
    if (!pod) { this.asking.stop(); return this.#tell(); }
    if (!again) refill(this.story, h("p", { class: "faint" }, "Looking at every node …"));
    const [namespace, short] = pod.split(/\/(.*)/s);
    this.asking.ask({ namespace, name: short });
  }

  #take(answer) {
    const isFirst = !this.answer;
    this.answer = answer;
    this.#tell();
    if (isFirst && this.pod !== this.chose) this.#scroll();
    if (answer.cause) say(`It waits: ${answer.cause.text}`);
    this.app.redraw();
  }

  #fail(error) {
    this.answer = null;
    const text = error.code === "NotFound" ? "It does not exist any more, or you may not read it." : error.message;
    refill(this.story, h("div", { class: "panel" }, h("h2", {}, name(this.pod)), h("p", { class: "problem" }, name(text))));
    this.app.redraw();
  }

  // The list.

  #fillList(store) {
    const chosen = read().params.get("pod");
    const key = JSON.stringify([store.version.causes, store.version.pods, chosen, Math.floor(store.now() / 10), store.hello.epoch, store.resources.pods]);
    if (key === this.listed) return;
    this.listed = key;
    const waiting = waitingPods(store);
    if (store.resources.pods === "hidden") return refill(this.list, h("p", { class: "empty" }, "You may not read pods, so none are listed."));
    if (!waiting.length) return refill(this.list, h("p", { class: "empty" }, store.ready ? "No pod waits." : "Reading the cluster …"));
    const groups = [...Map.groupBy(waiting, (pod) => store.causes.get(pod.cause)?.code ?? "")];
    refill(this.list, groups.sort(([, a], [, b]) => b.length - a.length).map(([code, pods]) => this.#group(store, code, pods, chosen)));
  }

  /** The pods of one code; those that ask for the same stand below one sentence. */
  #group(store, code, pods, chosen) {
    const open = pods.some((pod) => `${pod.namespace}/${pod.name}` === chosen);
    const parts = [...Map.groupBy(pods, (pod) => store.causes.get(pod.cause)?.text ?? "The cause is being looked for.")];
    return h("details", { open: open || (this.opened.get(code) ?? pods.length <= 5), on: { toggle: (event) => this.opened.set(code, event.target.open) } },
      h("summary", { "data-key": `cause ${code}` }, h("span", { class: "count" }, number(pods.length)), h("span", {}, h("strong", {}, name(code || "…")), h("span", { class: "faint" }, ` oldest ${lasting(store.now() - pods[0].created)}`))),
      parts.slice(0, LISTED).map(([text, some]) => [h("p", { class: "cause" }, name(text)), h("ul", {}, some.slice(0, LISTED).map((pod) => this.#pod(store, pod, chosen)), some.length > LISTED ? h("li", { class: "faint" }, `${number(some.length - LISTED)} more`) : null)]));
  }

  /** Somebody chose a pod, perhaps the one that was chosen already: then the address stays the same. */
  #goTo(label) {
    this.chose = "";
    if (label === this.pod && this.answer) this.#scroll();
  }

  /** The story stands below the list in a narrow window. */
  #scroll() {
    if (NARROW.matches) this.story.scrollIntoView();
  }

  #pod(store, pod, chosen) {
    const label = `${pod.namespace}/${pod.name}`;
    return h("li", {}, h("a", { href: address("why", { pod: label }), "aria-current": label === chosen ? "true" : null, "data-key": `pod ${label}`, on: { click: () => this.#goTo(label) } }, name(label)), h("span", { class: "faint" }, ` ${lasting(store.now() - pod.created)}`));
  }

  // One pod.

  /** Which request is shown: the one that the address names. */
  get request() {
    const wanted = Number(read().params.get("request")) || 0;
    return Math.max(0, Math.min(wanted, (this.answer?.requests.length ?? 1) - 1));
  }

  #tell() {
    const { answer, pod } = this;
    this.told = this.request;
    if (!answer) return refill(this.story, pod ? null : h("p", { class: "empty" }, "For a pod that waits, this shows which devices were considered, and where they dropped out."));
    const { cause } = answer;
    refill(this.story, h("div", { class: "panel" },
      h("h2", {}, answer.waits ? "Why " : "", h("a", { href: select("pod", pod), "data-key": "pod" }, name(pod)), answer.waits ? " waits" : " does not wait"),
      cause ? h("p", { class: "cause-text" }, h("span", { class: "code" }, cause.code), " ", name(cause.text)) : null,
      cause?.help && cause.help !== answer.change?.text ? h("p", { class: "help" }, name(cause.help)) : null,
      this.#change(), h("div", { class: "story-parts" }, h("div", {}, this.#funnels()),
        h("div", {}, this.#nodes(), this.#holders(), answer.notes.map((note) => h("p", { class: "faint" }, name(note)))))));
  }

  #change() {
    const help = this.answer.change;
    if (!this.answer.waits) return null;
    if (!help) return h("p", { class: "faint" }, this.answer.hidden ? "What would help cannot be told from what you may read." : "No single change was found that gives it a node.");
    const result = h("div", { role: "status" }, this.trial ?? null);
    const attempt = async (event) => {
      event.target.disabled = true;
      refill(result, h("p", { class: "faint" }, "Simulating …"));
      const [namespace, short] = this.pod.split(/\/(.*)/s);
      this.trial = await ask("try", { pod: { namespace, name: short }, change: help }).then(placed, (error) => h("p", { class: "problem" }, name(error.message)));
      refill(result, this.trial);
      event.target.disabled = false;
    };
    return h("div", { class: "change" }, h("p", {}, h("strong", {}, "What would help: "), name(help.text)),
      h("button", { type: "button", "data-key": "try", on: { click: attempt } }, "Try it in a simulation"), result);
  }

  #funnels() {
    const { requests } = this.answer;
    if (!requests.length) return null;
    const tabs = requests.length < 2 ? null : h("div", { class: "choices", role: "group", "aria-label": "Request" }, requests.map((request, index) =>
      h("button", { type: "button", "aria-pressed": String(index === this.request), "data-key": `request ${index}`, on: { click: () => change({ request: index ? String(index) : null }) } }, name(requestLabel(request)))));
    return [tabs, this.#funnel(requests[this.request])];
  }

  #funnel(request) {
    const { steps } = request;
    const looks = stepLooks(steps, this.#left);
    const most = Math.max(1, steps[0]?.left ?? 1);
    const rows = steps.map((step, index) => {
      const bar = h("span", { class: "bar-fill" });
      bar.style.width = `${(100 * step.left) / most}%`;
      const dropped = step.dropped.reduce((sum, [, count]) => sum + count, 0);
      return h("tr", {}, h("th", { scope: "row" }, swatch(looks[index], this.app.dark), name(step.text)), h("td", { class: "bar-cell" }, bar), h("td", { class: "right" }, number(step.left)), h("td", { class: "right faint" }, dropped ? `−${number(dropped)}` : ""));
    });
    return h("table", { class: "funnel" }, h("caption", {}, "Request ", name(requestLabel(request)), ` needs ${request.all ? "all devices" : plural(request.needed, "device")}. In the whole cluster:`),
      h("thead", { class: "unseen" }, h("tr", {}, ["step", "share", "left", "dropped out"].map((title) => h("th", { scope: "col" }, title)))), h("tbody", {}, rows));
  }

  #nodes() {
    const { nodes } = this.answer;
    if (!nodes?.reasons?.length) return null;
    return h("div", {}, h("h3", {}, `What ${plural(nodes.total, "node")} ${verb(nodes.total, "says", "say")}`), h("ul", {}, nodes.reasons.map((reason) => h("li", {}, h("strong", {}, number(reason.nodes)), " ", name(reason.text)))),
      nodes.nearest ? h("p", {}, "Nearest: ", h("a", { href: select("node", nodes.nearest.node), "data-key": "nearest" }, name(nodes.nearest.node)), ". ", name(nodes.nearest.text)) : null);
  }

  #holders() {
    const { holders } = this.answer;
    if (!holders.length) return null;
    return h("details", {}, h("summary", {}, `${plural(holders.length, "claim")} ${verb(holders.length, "holds", "hold")} matching devices`), h("ul", {}, holders.slice(0, LISTED).map((holder) =>
      h("li", {}, h("a", { href: select("claim", holder.claim), "data-key": `holder ${holder.claim}` }, name(holder.claim)), ` ${plural(holder.devices.length, "device")}`, holder.node ? [" on ", name(holder.node)] : "", holder.consumers.length ? [" for ", name(holder.consumers.join(", "))] : ""))));
  }

  // The map.

  #lens(store) {
    const steps = this.answer.requests[this.request]?.steps;
    if (!steps) return null;
    if (this.lensOf !== this.answer || this.lensRequest !== this.request || this.lensShape !== store.shape) {
      this.lensOf = this.answer;
      this.lensRequest = this.request;
      this.lensShape = store.shape;
      this.stepOf = new Uint8Array(store.devices.present.length).fill(steps.length);
      steps.forEach((step, index) => spread(step.dropped, this.stepOf, index));
      this.looks = { key: `steps ${this.asked} ${this.request} ${steps.length} ${this.#left.label}`, all: stepLooks(steps, this.#left) };
    }
    return { looks: this.looks, lookOf: (id) => this.stepOf[id], usedOf: () => null, labelOf: (id) => (this.stepOf[id] < steps.length ? `dropped out at: ${steps[this.stepOf[id]].text}` : this.#left.label) };
  }

  /** What devices are that no step has cost. Who does not see all claims cannot know that they are free. */
  get #left() {
    return this.answer.hidden ? AS_FAR : LEFT;
  }

  #fillLegend() {
    const steps = this.answer?.requests[this.request]?.steps;
    setAttribute(this.legend, "hidden", !steps);
    const key = steps ? `${this.asked} ${this.request} ${this.app.dark} ${steps.length} ${this.#left.label}` : "";
    if (!steps || key === this.legended) return;
    this.legended = key;
    const shown = stepLooks(steps, this.#left).filter((look, index) => index === steps.length || steps[index].dropped.length);
    this.legend.replaceChildren(...shown.map((look) => h("li", {}, swatch(look, this.app.dark), look.code === "left" ? look.label : h("span", {}, "out at: ", name(look.label)))));
  }
}

/** Pods that wait, those first that have waited longest; gated ones, which wait on purpose, come last. */
const waitingPods = (store) => [...store.pods.values()].filter((pod) => pod.state <= 1)
  .sort((a, b) => a.state - b.state || a.created - b.created || (a.name < b.name ? -1 : 1));

const requestLabel = ({ claim, request, alternative }) => `${claim.split("/").at(-1)} / ${request}${alternative && alternative !== request ? ` / ${alternative}` : ""}`;
