// draft.js: the settings of the run that is being written: the texts of its fields, kept in sessionStorage so that a
// reload loses nothing.

import {loadKeys, parse, sameValue, textOf} from './settings.js';

const kName = 'windlass-draft';

// Of another run's settings, these belong to that run alone.
const kOwn = new Set(['output_dir', 'resume', 'overwrite', 'branch_from', 'machine', 'allow_changed_settings']);

// In run.yaml these come first.
export const kMainKeys = [
  'model',
  'train_data',
  'eval_data',
  'output_dir',
  'method',
  'adapter',
  'learning_rate',
  'num_train_epochs',
  'max_steps',
  'per_device_train_batch_size',
  'gradient_accumulation_steps',
  'max_length',
  'device',
  'device_memory',
  'ram',
  'ssd_dir',
  'save_steps',
  'seed',
];

let texts = read();
const watchers = new Set();

function read() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(kName) ?? '{}');
    return Object.fromEntries(Object.entries(kept).filter(([, text]) => typeof text === 'string'));
  } catch {
    return {};
  }
}

function keep(changed) {
  sessionStorage.setItem(kName, JSON.stringify(texts));
  for (const watcher of watchers) watcher(changed);
}

// `watcher(key)` after each change; the key is null if many changed.
export function watchDraft(watcher) {
  watchers.add(watcher);
}

export function draftText(key) {
  return texts[key] ?? '';
}

export function setDraft(key, text) {
  if (draftText(key) === text) return;
  if (text === '')
    delete texts[key];
  else
    texts[key] = text;
  keep(key);
}

// Several at once: {KEY: value}; null clears a key.
export function setDraftValues(values) {
  for (const [key, value] of Object.entries(values)) {
    if (value === null || value === '')
      delete texts[key];
    else
      texts[key] = textOf(value);
  }
  keep(null);
}

export function clearDraft() {
  texts = {};
  keep(null);
}

// {settings, problems}: the values that are set, main keys first, and what is wrong with texts that are no values.
export function readDraft() {
  const settings = {}, problems = {};
  const order = [...kMainKeys, ...Object.keys(texts).filter((key) => !kMainKeys.includes(key))];
  for (const key of order) {
    const parsed = parse(key, draftText(key));
    if (parsed?.problem)
      problems[key] = parsed.problem;
    else if (parsed)
      settings[key] = parsed.value;
  }
  return {settings, problems};
}

// Takes the settings of a run that differ from their defaults. Its folder gets the next free number.
export async function loadDraft(settings, usedFolders) {
  const keys = await loadKeys();
  texts = {};
  for (const [key, value] of Object.entries(settings)) {
    if (!keys[key] || kOwn.has(key) || sameValue(value, keys[key].default)) continue;
    if (value === null || (Array.isArray(value) && value.length === 0)) continue;
    texts[key] = textOf(value);
  }
  if (settings.output_dir) texts.output_dir = nextFolder(String(settings.output_dir), usedFolders);
  keep(null);
}

function nextFolder(folder, used) {
  const stem = folder.replace(/-\d+$/, '');
  let next = 2;
  while (used.includes(`${stem}-${next}`)) ++next;
  return `${stem}-${next}`;
}
