// failure.js: an error with its place and its ways out. A way out that is a setting is a button; others are lines to
// copy.

import {button, codeBox, h} from './dom.js';
import {isKey, settingsIn} from './settings.js';

const kTitles = {
  usage: 'Settings',
  no_fit: 'Does not fit',
  data: 'Rows',
  model: 'Model',
  storage: 'Files and disks',
  device: 'Device',
  diverged: 'The loss diverged',
  internal: 'Internal error',
  interrupted: 'Interrupted',
  gone: 'No answer',
  cut: 'Cut off',
};

// What is typed as it is; other ways out are sentences.
const kCommand = /^(--|windlass |hf |pip |sudo |ulimit |cp |mv |rm |mkdir |chmod |export |cmake |echo |[a-z_]+[=:])/;

function tryOf(text, apply) {
  const settings = apply && settingsIn(text);
  if (!settings && !kCommand.test(text)) return h('p', {class: 'foreign'}, text);
  if (!settings) return codeBox('try', text, {line: true}).element;
  const words = settings.map(({key, text: value}) => `${key}: ${value}`).join(', ');
  return button(
      `Use ${words}`, 'try', () => apply(Object.fromEntries(settings.map(({key, text: value}) => [key, value]))),
      {class: 'quiet', 'data-setting': settings.map(({key}) => key).join(' ')});
}

function titleOf(error) {
  const ofSettings = error.place === 'configuration' || isKey(error.place);
  if (error.kind === 'usage' && !ofSettings) return 'Request';
  return kTitles[error.kind] ?? (error.kind || 'Error');
}

// `apply({KEY: text})` puts settings into the draft, where there is one.
export function failureBox(error, {apply, name = 'error'} = {}) {
  const title = titleOf(error);
  const place = error.place ? h('code', {class: 'foreign', 'data-name': 'place'}, error.place) : null;
  const tries = (error.tries ?? []).slice(0, 12).map((text) => tryOf(String(text), apply));
  return h(
      'div', {class: 'message bad', role: 'alert', 'data-name': name, 'data-kind': error.kind ?? ''},
      h('p', {class: 'title'}, title, place && [': ', place]),
      h('p', {class: 'foreign', 'data-name': 'error-text'}, error.text ?? ''),
      tries.length > 0 && h('div', {class: 'tries', 'data-name': 'tries'}, h('span', null, 'Try:'), tries));
}

export function notesList(notes, name = 'notes') {
  return h('ul', {class: 'notes', 'data-name': name}, notes.slice(0, 50).map((note) => h('li', null, note)));
}
