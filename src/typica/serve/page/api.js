// What is asked of the server, with the token where it wants one.

const KEY = "typica-token";
const TRIES = 4;
let ask = null;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Set who asks a person for the token: a function of whether the last one was wrong. */
export function askWith(function_) { ask = function_; }

export const hasToken = () => token() !== null;
export function forgetToken() { sessionStorage.removeItem(KEY); }

const token = () => sessionStorage.getItem(KEY);
let asking = null;

/** Return the answer to a request; ask for the token, and wait where the server is busy. */
export async function request(path, options = {}) {
  for (let tried = 1; ; tried++) {
    const used = token();
    const answer = await send(path, options, used);
    if (answer.status === 401) {
      await another(used);
      tried = 0;
    } else if (answer.status === 503 && tried < TRIES) {
      await seconds(Math.min(Number(answer.headers.get("retry-after")) || 1, 10));
    } else {
      return answer;
    }
  }
}

// Several requests may be refused at once, and some before the token was given: one question for all.
async function another(used) {
  if (token() !== used) return;
  asking ??= ask(used !== null).finally(() => { asking = null; });
  sessionStorage.setItem(KEY, await asking);
}

// Without credentials, so that the browser shows no window of its own where a token is wanted.
async function send(path, { method = "GET", body, signal }, used) {
  const headers = used === null ? {} : { authorization: `Bearer ${used}` };
  try {
    return await fetch(path, { method, body, signal, headers, credentials: "omit", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The server does not answer.");
  }
}

/** Return the JSON of an answer; raise with what the server says where it refuses. */
export async function json(path, options) {
  const answer = await request(path, options);
  let found = null;
  try {
    found = await answer.json();
  } catch { /* an answer that is none of ours */ }
  if (found === null || (!answer.ok && !Array.isArray(found.results))) {
    throw new Refused(answer.status, found?.error ?? `The server answered ${answer.status}.`);
  }
  return found;
}

export const models = () => json("models");
export const model = name => json(`models/${encodeURIComponent(name)}`);
export const stream = name => json(`stream?model=${encodeURIComponent(name)}`);

/** Return the result on one image. preview: it is no part of the stream. */
export async function judge(name, blob, { file = "image", preview = false, signal } = {}) {
  const form = new FormData();
  form.append("image", blob, file);
  const asked = `score?model=${encodeURIComponent(name)}&explain=1${preview ? "&preview=1" : ""}`;
  const answer = await json(asked, { method: "POST", body: form, signal });
  const [result] = answer.results;
  if (result.error) throw new Refused(400, result.error);
  return result;
}

const kept = new Map();

/** Return the known inputs that are most typical of a class, asked for once. */
export function examples(name, digest, wanted) {
  const path = `models/${encodeURIComponent(name)}/examples?class=${encodeURIComponent(wanted)}`;
  return once(`${digest} ${path}`, async () => (await json(path)).known);
}

/** Return the address of a known image, fetched once: an <img> could not send the token. */
export function knownImage(name, row) {
  const path = `models/${encodeURIComponent(name)}/known/${row}`;
  return once(path, async () => {
    const answer = await request(path);
    return answer.ok ? URL.createObjectURL(await answer.blob()) : null;
  });
}

function once(key, make) {
  if (!kept.has(key)) {
    const made = make();
    kept.set(key, made);
    made.catch(() => kept.delete(key));
  }
  return kept.get(key);
}

/** Wait. */
export const seconds = time => new Promise(done => setTimeout(done, 1000 * time));
