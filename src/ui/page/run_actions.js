// run_actions.js: what may be asked of a run. Each returns the error, or null.

import {say} from './dom.js';
import {errorOf, post, stream} from './requests.js';

function routeOf(id, action) {
  return `/api/runs/${encodeURIComponent(id)}/${action}`;
}

async function ask(id, action, said) {
  try {
    await post(routeOf(id, action), {});
    say(said);
    return null;
  } catch (problem) {
    return errorOf(problem);
  }
}

export function stopRun(id) {
  return ask(id, 'stop', 'The run stops after this step.');
}

export function saveRun(id) {
  return ask(id, 'save', 'The run saves a checkpoint after this step.');
}

export async function resumeRun(id, takeNote = () => {}) {
  const last = await stream(routeOf(id, 'resume'), {}, takeNote, {ends: ['run', 'done', 'error']});
  if (last.event === 'error') return last;
  say('The run has resumed.');
  return null;
}
