// requests.js: talks with the server: requests, streams of events, errors, and whether the server answers at all.

const kTokenName = 'windlass-token';
const kEnds = ['done', 'stopped', 'error'];
const kRetryMs = 3000;

let reach = 'up';  // up, gone (no answer), refused (another token)
const watchers = new Set();

export function token() {
  return sessionStorage.getItem(kTokenName);
}

export function setToken(text) {
  sessionStorage.setItem(kTokenName, text);
}

// `watcher` is called with up, gone or refused, now and after each change.
export function watchReach(watcher) {
  watchers.add(watcher);
  watcher(reach);
}

function setReach(next) {
  if (next === reach) return;
  reach = next;
  for (const watcher of watchers) watcher(reach);
  if (reach !== 'up') setTimeout(retry, kRetryMs);
}

async function retry() {
  try {
    await get('/api/about');
  } catch {
    if (reach !== 'up') setTimeout(retry, kRetryMs);
  }
}

// An error of the server or of a verb, with the fields of the event `error`.
export class Failure extends Error {
  constructor(error, status = 0) {
    super(error.text ?? 'The request failed.');
    this.error = {kind: '', place: '', text: this.message, tries: [], ...error};
    this.status = status;
  }
}

export function errorOf(problem) {
  return problem instanceof Failure ? problem.error : {kind: 'internal', place: '', text: String(problem), tries: []};
}

export function wasAborted(problem) {
  return problem?.name === 'AbortError';
}

async function failureOf(response) {
  let error = {kind: 'server', text: `The server answered ${response.status} ${response.statusText}.`};
  try {
    const body = await response.json();
    if (body?.error) error = body.error;
  } catch {
    // The status says enough.
  }
  return new Failure(error, response.status);
}

async function send(method, path, body, {signal, keepalive} = {}) {
  const headers = {Authorization: `Bearer ${token()}`};
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      signal,
      keepalive,
      cache: 'no-store',
      body: body === undefined ? undefined : JSON.stringify(body)
    });
  } catch (problem) {
    if (wasAborted(problem)) throw problem;
    setReach('gone');
    throw new Failure({kind: 'gone', text: 'windlass ui is not answering.', tries: ['windlass ui']});
  }
  setReach(response.status === 401 ? 'refused' : 'up');
  if (!response.ok) throw await failureOf(response);
  return response;
}

async function json(response) {
  try {
    return await response.json();
  } catch (problem) {
    if (wasAborted(problem)) throw problem;
    throw new Failure({kind: 'server', text: 'The answer of the server was cut off.'});
  }
}

export async function get(path, options) {
  return json(await send('GET', path, undefined, options));
}

export async function post(path, body, options) {
  const response = await send('POST', path, body, options);
  return response.status === 204 || response.status === 202 ? {} : json(response);
}

export function remove(path, options) {
  return send('DELETE', path, undefined, options);
}

// A run's file from byte `from`: {text, start, next}.
export async function getFile(id, file, from, options) {
  const response = await send('GET', `/api/runs/${encodeURIComponent(id)}/${file}?from=${from}`, undefined, options);
  const text = await response.text();
  const start = Number(response.headers.get('X-Start-Byte') ?? from);
  const next = Number(response.headers.get('X-Next-Byte') ?? start);
  return {text, start, next};
}

export function parseLine(line) {
  try {
    const value = JSON.parse(line);
    return value !== null && typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

async function readLines(stream, take) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) break;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      const event = line && parseLine(line);
      if (event) take(event);
    }
  }
  const event = rest && parseLine(rest);
  if (event) take(event);
}

// Posts, and calls `take` with each event. All failures arrive as an event `error`, except for an abort, which throws.
// Returns the last event.
export async function stream(path, body, take, {signal, ends = kEnds} = {}) {
  let last = null;
  const keep = (event) => {
    last = event;
    take(event);
  };
  try {
    const response = await send('POST', path, body, {signal});
    await readLines(response.body, keep);
  } catch (problem) {
    if (wasAborted(problem) || signal?.aborted) throw new DOMException('aborted', 'AbortError');
    if (problem instanceof Failure) keep({event: 'error', ...problem.error, status: problem.status});
  }
  if (!ends.includes(last?.event))
    keep({event: 'error', kind: 'cut', place: '', text: 'The answer was cut off before its end.', tries: []});
  return last;
}
