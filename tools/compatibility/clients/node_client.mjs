// @kubernetes/client-node: the official JavaScript client. Prints one JSON line for each operation, as the Python scripts do.
import * as k8s from "@kubernetes/client-node";

const namespace = process.env.COMPATIBILITY_NAMESPACE ?? "default";
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const devices = config.makeApiClient(k8s.ResourceV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);

const pod = (name, spec = {}) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, namespace, labels: { app: "compatibility" } },
  spec: { containers: [{ name: "main", image: "example.com/app" }], ...spec },
});
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function until(condition) {
  for (let i = 0; i < 300; i++) {
    if (await condition()) return;
    await pause(100);
  }
  throw new Error("not in time");
}
function expect(condition, what) {
  if (!condition) throw new Error(what);
}
async function refused(code, call) {
  try {
    await call();
  } catch (error) {
    expect(error.code === code, `code ${error.code}`);
    return String(error.body ?? error.message);
  }
  throw new Error("not refused");
}
const strategy = (kind) => k8s.setHeaderOptions("Content-Type", kind);
const patch = (body, kind) => core.patchNamespacedPod({ name: "a", namespace, body, fieldManager: "c" }, strategy(kind));

const operations = {
  "create and get a pod": async () => {
    for (const name of ["a", "b"]) await core.createNamespacedPod({ namespace, body: pod(name) });
    expect((await core.readNamespacedPod({ name: "a", namespace })).metadata.uid, "no uid");
  },
  "list by label, in pages": async () => {
    const first = await core.listNamespacedPod({ namespace, labelSelector: "app=compatibility", limit: 1 });
    const rest = await core.listNamespacedPod({ namespace, limit: 1, _continue: first.metadata._continue });
    expect([...first.items, ...rest.items].map((one) => one.metadata.name).join() === "a,b", "not a,b");
  },
  "merge patch": () => patch({ metadata: { labels: { m: "1" } } }, k8s.PatchStrategy.MergePatch),
  "strategic merge patch": () => patch({ metadata: { labels: { s: "1" } } }, k8s.PatchStrategy.StrategicMergePatch),
  "JSON patch": () => patch([{ op: "add", path: "/metadata/labels/j", value: "1" }], k8s.PatchStrategy.JsonPatch),
  "server-side apply": () =>
    patch({ apiVersion: "v1", kind: "Pod", metadata: { name: "a", labels: { applied: "y" } } }, k8s.PatchStrategy.ServerSideApply),
  "replace with a stale version is a conflict": async () => {
    const old = await core.readNamespacedPod({ name: "a", namespace });
    await patch({ metadata: { annotations: { later: "yes" } } }, k8s.PatchStrategy.MergePatch);
    await refused(409, () => core.replaceNamespacedPod({ name: "a", namespace, body: old }));
  },
  "a missing object is 404": () => refused(404, () => core.readNamespacedPod({ name: "none", namespace })),
  "an invalid object is told by field": async () => {
    const told = await refused(422, () => core.createNamespacedPod({ namespace, body: pod("c", { restartPolicy: "Sometimes" }) }));
    expect(told.includes("spec.restartPolicy"), told);
  },
  "a claim is allocated and reserved": async () => {
    const requests = [{ name: "gpu", exactly: { deviceClassName: "gpu.example.com" } }];
    const claim = { metadata: { name: "c" }, spec: { devices: { requests } } };
    await devices.createNamespacedResourceClaim({ namespace, body: claim });
    await objects.create(pod("user", { resourceClaims: [{ name: "gpu", resourceClaimName: "c" }] }));
    await until(async () => (await core.readNamespacedPod({ name: "user", namespace })).spec.nodeName);
    const found = await devices.readNamespacedResourceClaim({ name: "c", namespace });
    expect(found.status.allocation.devices.results.length === 1 && found.status.reservedFor[0].name === "user", "not reserved");
  },
  "exec in a container": async () => {
    const body = pod("shell", { nodeName: "agent-0", terminationGracePeriodSeconds: 0 });
    body.spec.containers[0].command = ["sh", "-c", "echo ready; sleep 300"];
    await core.createNamespacedPod({ namespace, body });
    await until(async () => (await core.readNamespacedPod({ name: "shell", namespace })).status.phase === "Running");
    const { Writable } = await import("node:stream");
    let told = "";
    const out = new Writable({ write: (chunk, _, done) => ((told += chunk), done()) });
    await new Promise((resolve, reject) =>
      new k8s.Exec(config)
        .exec(namespace, "shell", "main", ["echo", "hello"], out, null, null, false, resolve)
        .catch(reject),
    );
    expect(told === "hello\n", told);
  },
  "read a log": async () => expect((await core.readNamespacedPodLog({ name: "shell", namespace })).includes("ready"), "no log"),
  "an informer follows a kind": async () => {
    const seen = new Set();
    const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/pods`, () => core.listNamespacedPod({ namespace }));
    informer.on("add", (one) => seen.add(`+${one.metadata.name}`));
    informer.on("delete", (one) => seen.add(`-${one.metadata.name}`));
    await informer.start();
    await core.createNamespacedPod({ namespace, body: pod("late", { terminationGracePeriodSeconds: 0 }) });
    await until(() => seen.has("+late"));
    await core.deleteNamespacedPod({ name: "late", namespace });
    await until(() => seen.has("-late"));
    await informer.stop();
  },
};

for (const [operation, attempt] of Object.entries(operations)) {
  try {
    await attempt();
    console.log(JSON.stringify({ operation, works: true }));
  } catch (error) {
    console.log(JSON.stringify({ operation, works: false, why: String(error), trace: error.stack }));
  }
}
process.exit(0);
