/**
 * Requests to the server of the page: the session, and questions. The stream is in `stream.js`.
 *
 * A refusal becomes a `Refusal` with the code and the field that the server names; a server that does not answer becomes
 * one with the code `Unreachable`. Whoever gets `Unauthorized` is told once through `onSignedOut`.
 */

const LATER = new Set(["TooManyRequests", "NotReady"]);
const MOST_TRIES = 10;
const BETWEEN = 500; // milliseconds

class Refusal extends Error {
  constructor(code, text, field = "") {
    super(text);
    this.code = code;
    this.field = field;
  }
}

let signedOut = () => {};
export function onSignedOut(call) {
  signedOut = call;
}

async function request(method, path, body, signal) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  let response, answer;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
    answer = response.status === 204 ? null : await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (!response || response.ok) throw new Refusal("Unreachable", "The server does not answer.");
  }
  if (response.ok) return answer;
  const { code = "InternalError", text = `The server answers ${response.status}.`, field = "" } = answer?.error ?? {};
  throw new Refusal(code, text, field);
}

async function withSession(method, path, body, signal) {
  try {
    return await request(method, path, body, signal);
  } catch (error) {
    if (error.code === "Unauthorized") signedOut();
    throw error;
  }
}

export const signIn = (offer) => request("POST", "api/session", offer);
export const getSession = () => request("GET", "api/session");
export const signOut = () => request("DELETE", "api/session");
export const getSeries = () => withSession("GET", "api/series");

/** Ask a question. One that comes too early, or while others wait, is asked again. */
export async function ask(kind, question, signal) {
  for (let tries = 1; ; tries++) {
    try {
      return await withSession("POST", `api/ask/${kind}`, question, signal);
    } catch (error) {
      if (!LATER.has(error.code) || tries === MOST_TRIES || signal?.aborted) throw error;
      await new Promise((done) => setTimeout(done, BETWEEN));
    }
  }
}

/** Questions that are typed: only the newest counts, and none is asked before the typing rests. */
export function latest(delay, work, done, failed) {
  let timer = 0;
  let running = null;
  const start = async (...values) => {
    running?.abort();
    const mine = (running = new AbortController());
    try {
      const answer = await work(...values, mine.signal);
      if (running === mine) done(answer, ...values);
    } catch (error) {
      if (running === mine && error.name !== "AbortError") failed(error, ...values);
    }
  };
  return {
    ask(...values) {
      clearTimeout(timer);
      timer = setTimeout(start, delay, ...values);
    },
    stop() {
      clearTimeout(timer);
      running?.abort();
      running = null;
    },
  };
}
